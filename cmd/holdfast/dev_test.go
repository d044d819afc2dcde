package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

const devStart = 60 * time.Second // a new cluster, on a busy machine

// retrying is what callers are told to do: a busy machine may not decide within 90 ms.
const retrying = `{"methodConfig":[{"name":[{"service":"holdfast.v1.InventoryService"},{"service":"holdfast.v1.AdminService"}],"retryPolicy":{"maxAttempts":5,
	"initialBackoff":"0.1s","maxBackoff":"1s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}}]}`

// startDev starts holdfast dev on free ports and waits until it has printed how to call it.
func startDev(t *testing.T, args ...string) (p *process, children []int) {
	t.Helper()
	p = start(t, append([]string{"dev", "--grpc-addr=127.0.0.1:0", "--http-addr=127.0.0.1:0"}, args...)...)
	until(t, devStart, "tour", func() bool {
		select {
		case <-p.ended:
			t.Fatalf("dev ended with %d", p.ProcessState.ExitCode())
		default:
		}
		return strings.Contains(p.out.String(), "ListHolds")
	})
	for _, text := range p.err.all("pid=") {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, pid)
	}
	if len(children) != 2 {
		t.Fatalf("%d children in the log", len(children))
	}
	return p, children
}

// tourLines are the lines to be pasted.
func tourLines(p *process) []string {
	var commands []string
	for scan := bufio.NewScanner(strings.NewReader(p.out.String())); scan.Scan(); {
		if command, ok := strings.CutPrefix(scan.Text(), "  "); ok {
			commands = append(commands, command)
		}
	}
	return commands
}

// TestDevTour pastes what holdfast dev prints into a shell, and does so again.
func TestDevTour(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "bin", "grpcurl")); err != nil {
		if _, err := exec.LookPath("grpcurl"); err != nil {
			t.Fatal("there is no grpcurl: scripts/setup builds it")
		}
	}
	wants := []string{
		"", "", // variables
		`"available": "5"`, `"id": "demo.`, `"orderId": "order-demo.`, `"cancelledQuantity": 1`, `"buyerId": "bob"`,
		`"HOLD_STATE_CANCELLED"`, `"reason": "SOLD_OUT"`, `"capacity": "100"`, `"capacity": "150"`, `"holds"`,
	}
	again := slices.Clone(wants)
	again[2], again[9] = `"available": "4"`, `"capacity": "150"` // as the first walk left it
	wants = append(wants, again...)
	p, children := startDev(t, "--ephemeral")
	commands, outputs := pasteTwice(t, root, p)
	for tries := 0; tries < 3 && strings.Contains(strings.Join(outputs, ""), "Code: Unavailable"); tries++ {
		p, children = startDev(t, "--ephemeral") // the machine was too busy to decide within 90 ms
		commands, outputs = pasteTwice(t, root, p)
	}
	if len(outputs) != len(wants) {
		t.Fatalf("%d commands, want %d", len(outputs), len(wants))
	}
	for n, got := range outputs {
		if !strings.Contains(got, wants[n]) {
			t.Errorf("%s\nprinted, without %s:\n%s", commands[n], wants[n], got)
		}
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t, 15*time.Second); code != exitOK {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	gone(t, children)
}

// pasteTwice runs the printed commands in one shell, all of them twice, and returns what each prints.
func pasteTwice(t *testing.T, dir string, p *process) (commands, outputs []string) {
	t.Helper()
	commands = slices.Repeat(tourLines(p), 2)
	shell := exec.CommandContext(t.Context(), "bash", "-c", "exec 2>&1\n"+strings.Join(commands, "\necho ---\n"))
	shell.Dir = dir
	output, _ := shell.Output()                               // the exit code is that of the last command
	spaced := strings.ReplaceAll(string(output), `:  `, `: `) // JSON of protobuf is not always spaced alike
	return commands, strings.Split(spaced, "---\n")
}

// TestDevKeepsItsData: a hold of one run is there in the next, and a killed run leaves nobody behind.
func TestDevKeepsItsData(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // another user may run the servers
		t.Fatal(err)
	}
	request := &pb.CreateHoldRequest{AllotmentId: "demo", BuyerId: "ann", RequestId: "r-1", Quantity: 1}
	var id string
	for _, end := range []os.Signal{syscall.SIGINT, syscall.SIGKILL} {
		p, children := startDev(t, "--state-dir="+dir)
		conn := connect(t, p)
		got, err := pb.NewInventoryServiceClient(conn).CreateHold(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if id != "" && got.GetHold().GetId() != id {
			t.Errorf("the hold of the first run is not found: %v", got)
		}
		id = got.GetHold().GetId()
		if err := p.Process.Signal(end); err != nil {
			t.Fatal(err)
		}
		code := p.exit(t, 15*time.Second)
		if end == syscall.SIGINT && code != exitOK {
			t.Errorf("exit code %d after Ctrl-C", code)
		}
		gone(t, children)
	}
}

// TestStopWithOpenStreams: SIGTERM with a watch and a health watch open ends the process in time, with code 0.
func TestStopWithOpenStreams(t *testing.T) {
	p, children := startDev(t, "--ephemeral")
	conn := connect(t, p)
	watch, err := pb.NewInventoryServiceClient(conn).WatchAvailability(t.Context(), &pb.WatchAvailabilityRequest{AllotmentIds: []string{"demo"}})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watch.Recv(); err != nil || first.GetAvailability().GetCapacity() != 5 {
		t.Fatalf("watch: %v, %v", first, err)
	}
	health, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := health.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ends with %v", err)
	}
	if code := p.exit(t, 15*time.Second); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	gone(t, children)
}

func connect(t *testing.T, p *process) *grpc.ClientConn {
	t.Helper()
	addresses := p.err.all("grpc=")
	if len(addresses) != 1 {
		t.Fatalf("addresses in the log: %v", addresses)
	}
	conn, err := grpc.NewClient(addresses[0], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(retrying))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// gone waits for the end of the children, which after kill -9 are told by the kernel.
func gone(t *testing.T, children []int) {
	t.Helper()
	for _, pid := range children {
		until(t, 10*time.Second, "end of child "+strconv.Itoa(pid), func() bool { return !alive(pid) })
	}
}

func TestTourIsFilledIn(t *testing.T) {
	var out strings.Builder
	printTour(&out, places{grpc: "[::]:50051", http: "0.0.0.0:9464", redis: "127.0.0.1:6390", postgres: "127.0.0.1:5433", data: "/data"})
	text := out.String()
	for _, left := range []string{"GRPC", "HTTP", "CURL", "REDISPORT", "LEDGERPORT", "FOLDER", "[::]", "0.0.0.0"} {
		if strings.Contains(text, left) {
			t.Errorf("%s is left in:\n%s", left, text)
		}
	}
	if !strings.Contains(text, "127.0.0.1:50051") || !strings.Contains(text, "grpcurl -plaintext -d") {
		t.Errorf("no address or command in:\n%s", text)
	}
	if stores := " METRICS=http://127.0.0.1:9464/metrics REDIS='-h 127.0.0.1 -p 6390' PGHOST=127.0.0.1 PGPORT=5433 PGUSER=holdfast PGDATABASE=holdfast\n"; !strings.Contains(text, stores) {
		t.Errorf("not the stores in:\n%s", text)
	}
}

func TestDevIsStoppedWhileItStarts(t *testing.T) {
	forget(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	args := []string{"dev", "--ephemeral", "--grpc-addr=127.0.0.1:0", "--http-addr=127.0.0.1:0"}
	if code := run(ctx, args, &out, &out); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, out.String())
	}
}
