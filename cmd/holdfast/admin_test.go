package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// TestAdmin runs an operator's day against a server: each command, what it prints, and its exit code.
func TestAdmin(t *testing.T) {
	forget(t)
	p, _ := startDev(t, "--ephemeral")
	addr := "--addr=" + p.err.all("grpc=")[0]
	conn := connect(t, p)
	admin := func(code int, line string, wants ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		// A busy machine may need a repeat; each of these is safe to be repeated.
		for range 5 {
			out.Reset()
			errOut.Reset()
			if got := run(t.Context(), append(strings.Fields("admin "+line), addr), &out, &errOut); got == code {
				break
			}
		}
		text := strings.Join(strings.Fields(out.String()+errOut.String()), " ")
		for _, want := range wants {
			if !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("admin %s: no %q in:\n%s%s", line, want, &out, &errOut)
			}
		}
		return out.String()
	}
	admin(0, "create concert --capacity 3 --hold-duration 10m --max-hold-duration 20m", "state open capacity 3 hold duration 10m0s")
	admin(1, "create concert --capacity 4", "ALLOTMENT_EXISTS: .* what to do: ")
	admin(2, "create Concert", "allotment.id: must be 1 to 63 characters")
	admin(2, "create x --hold-duration 1h --max-hold-duration 1m", "allotment.max_hold_duration: ")
	admin(0, "list", "concert concert open 3 10m0s", "demo demo open 5")
	admin(0, "update concert --state paused --max-quantity-per-buyer 2", "state paused", "per buyer 2")
	admin(1, "update concert --state open --etag ZQI", "STALE_ETAG: ")
	admin(0, "update concert --state open --reset max-quantity-per-buyer", "state open", "per buyer -")
	admin(0, "adjust concert --add 2 --request-id r-1", "request id: r-1", "capacity 5")
	admin(0, "adjust concert --add 2 --request-id r-1", "capacity 5")
	admin(1, "adjust concert --add 3 --request-id r-1", "REQUEST_MISMATCH: ")
	admin(0, "adjust concert --remove 5 --dry-run", "capacity 0", "nothing was changed")
	admin(0, "get concert --json", `"capacity":"5"`)

	var held *pb.CreateHoldResponse
	err := repeated(t.Context(), func() (err error) {
		held, err = pb.NewInventoryServiceClient(conn).CreateHold(t.Context(), &pb.CreateHoldRequest{
			AllotmentId: "concert", BuyerId: "ann", RequestId: "r", Quantity: 2,
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	hold := regexp.QuoteMeta(held.GetHold().GetId())
	admin(1, "adjust concert --remove 4", "request id: adjust-[A-Z2-7]{26}", "CAPACITY_IN_USE: ", "smallest_capacity=2")
	admin(0, "holds concert --buyer ann --state held", hold+" ann 2 held")
	admin(0, "watch --once concert", "concert open 5 3 2 0 - ")
	err = repeated(t.Context(), func() error {
		_, err := pb.NewInventoryServiceClient(conn).ConfirmHold(t.Context(), &pb.ConfirmHoldRequest{HoldId: held.GetHold().GetId(), OrderId: "o-1"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	admin(0, "sales --order o-1", hold+" ann o-1 2 0 ")
	admin(0, "reconcile concert", "agree")
	admin(0, "reconcile concert --apply --json", `{"findings":\[\],"applied":false}`)
	admin(1, "get nope", "ALLOTMENT_NOT_FOUND: .* what to do: ")
	if lines := admin(0, "list --json"); strings.Count(lines, "\n") != 2 {
		t.Errorf("list --json:\n%s", lines)
	}
}

// TestAdminWatch: a watch shows what happens, and ends with code 0 when it is interrupted.
func TestAdminWatch(t *testing.T) {
	forget(t)
	server, _ := startDev(t, "--ephemeral")
	watch := startWith(t, []string{"HOLDFAST_ADDR=" + server.err.all("grpc=")[0]}, "admin", "watch")
	until(t, 30*time.Second, "the snapshot", func() bool { return strings.Contains(watch.out.String(), "demo open capacity=5 available=5") })
	err := repeated(t.Context(), func() error {
		_, err := pb.NewInventoryServiceClient(connect(t, server)).CreateHold(t.Context(), &pb.CreateHoldRequest{
			AllotmentId: "demo", BuyerId: "ann", RequestId: "r", Quantity: 2,
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	until(t, 30*time.Second, "the hold", func() bool { return strings.Contains(watch.out.String(), "available=3 held=2 sold=0") })
	if err := watch.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := watch.exit(t, 15*time.Second); code != exitOK || watch.err.String() != "" {
		t.Errorf("exit code %d; told %s", code, watch.err)
	}
	if !alive(server.Process.Pid) {
		t.Error("the server has ended")
	}
	_ = server.Process.Signal(syscall.SIGTERM)
}
