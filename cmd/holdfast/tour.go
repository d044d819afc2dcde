package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// tour is what holdfast dev prints: each line can be pasted into a shell as it is.
const tour = `
Holdfast serves on GRPC. Allotment "demo" has 5 units; a hold lasts 120 s.
Metrics: http://HTTP/metrics   Data: FOLDER   Stop: Ctrl-C, or kill PID

For the commands of README.md and docs/runbook.md, in the repository's folder:

  export PATH="$PWD/bin:$PATH" S=GRPC HOLDFAST_ADDR=GRPC I=holdfast.v1.InventoryService A=holdfast.v1.AdminService
  export METRICS=http://HTTP/metrics REDIS='-h 127.0.0.1 -p REDISPORT' PGHOST=127.0.0.1 PGPORT=LEDGERPORT PGUSER=holdfast PGDATABASE=holdfast

See what is free:

  CURL -d '{"allotment_id":"demo"}' GRPC holdfast.v1.InventoryService/GetAvailability

Hold 2 units for ann, and keep the hold's id for the calls below:

  OUT=$(CURL -d '{"allotment_id":"demo","buyer_id":"ann","request_id":"'"$(date +%s%N)"'","quantity":2}' GRPC holdfast.v1.InventoryService/CreateHold); echo "$OUT"; HOLD=$(echo "$OUT" | sed -n 's/^ *"id": *"\([^"]*\)".*/\1/p')

She has paid: turn the hold into a sale.

  CURL -d '{"hold_id":"'"$HOLD"'","order_id":"'"order-$HOLD"'"}' GRPC holdfast.v1.InventoryService/ConfirmHold

She sends one back: cancel a part of the sale.

  CURL -d '{"hold_id":"'"$HOLD"'","request_id":"return-1","quantity":1}' GRPC holdfast.v1.InventoryService/CancelSale

Hold a unit for bob, who changes his mind: cancel the hold. (Or wait 120 s, and it lapses.)

  OUT=$(CURL -d '{"allotment_id":"demo","buyer_id":"bob","request_id":"'"$(date +%s%N)"'","quantity":1}' GRPC holdfast.v1.InventoryService/CreateHold); echo "$OUT"; HOLD=$(echo "$OUT" | sed -n 's/^ *"id": *"\([^"]*\)".*/\1/p')
  CURL -d '{"hold_id":"'"$HOLD"'"}' GRPC holdfast.v1.InventoryService/CancelHold

Ask for more than there is, and get a refusal that proves itself:

  CURL -d '{"allotment_id":"demo","buyer_id":"eve","request_id":"r-1","quantity":9}' GRPC holdfast.v1.InventoryService/CreateHold

For operators: make an allotment of your own, add units, see who holds.

  CURL -d '{"allotment":{"id":"evening","capacity":"100"}}' GRPC holdfast.v1.AdminService/CreateAllotment
  CURL -d '{"allotment_id":"evening","delta":"50","request_id":"more-1"}' GRPC holdfast.v1.AdminService/AdjustCapacity
  CURL -d '{"allotment_id":"demo"}' GRPC holdfast.v1.AdminService/ListHolds

`

// places is where everything that dev has started listens, as HOST:PORT, and what keeps the data. The stores listen on 127.0.0.1.
type places struct{ grpc, http, redis, postgres, data string }

func printTour(out io.Writer, p places) {
	fill := strings.NewReplacer("CURL", grpcurl()+" -plaintext", "GRPC", reachable(p.grpc), "HTTP", reachable(p.http),
		"REDISPORT", port(p.redis), "LEDGERPORT", port(p.postgres), "FOLDER", p.data, "PID", strconv.Itoa(os.Getpid()))
	fmt.Fprint(out, fill.Replace(tour))
}

// port is that of HOST:PORT.
func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// grpcurl is how to call it here: make puts one into bin when there is none.
func grpcurl() string {
	if _, err := exec.LookPath("grpcurl"); err == nil {
		return "grpcurl"
	}
	return "bin/grpcurl"
}

// reachable is an address to call for one that is listened on: a server that listens everywhere is called here.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}
