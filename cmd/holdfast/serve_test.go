package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// startServe starts holdfast serve on stores that are not there.
func startServe(t *testing.T, args ...string) *process {
	t.Helper()
	p := start(t, append([]string{
		"serve", "--grpc-addr=127.0.0.1:0", "--http-addr=127.0.0.1:0", "--log-format=text",
		"--redis-url=redis://user:marker@127.0.0.1:1/0", "--postgres-url=postgres://u:marker@127.0.0.1:1/d",
	}, args...)...)
	until(t, 30*time.Second, "serving", func() bool { return strings.Contains(p.err.String(), "msg=serving") })
	return p
}

// TestServeWithoutStores: the service starts, is alive, is not ready before it has seen the schema, says UNAVAILABLE
// and nothing else, never shows a password, and stops with code 0.
func TestServeWithoutStores(t *testing.T) {
	forget(t)
	p := startServe(t, "--drain-delay=0s")
	for path, want := range map[string]int{"/livez": 200, "/readyz": 503, "/metrics": 200} {
		response, err := http.Get("http://" + p.err.all("http=")[0] + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s is %d, want %d", path, response.StatusCode, want)
		}
	}
	checkouts := pb.NewInventoryServiceClient(connect(t, p))
	_, err := checkouts.CreateHold(t.Context(), &pb.CreateHoldRequest{
		AllotmentId: "concert", BuyerId: "ann", RequestId: "r", Quantity: 1,
	})
	st := status.Convert(err)
	reason := ""
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			reason = info.GetReason()
		}
	}
	if st.Code() != codes.Unavailable || reason != "STORE_UNAVAILABLE" {
		t.Errorf("CreateHold: %v with reason %q", st, reason)
	}
	until(t, 10*time.Second, "outages in the log", func() bool { return strings.Count(p.err.String(), "store is down") == 2 })
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t, 15*time.Second); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(p.err.String()+p.out.String()+st.String(), "marker") {
		t.Error("a password is shown")
	}
}

// TestSecondSignal: the first signal drains, a second one ends the process at once.
func TestSecondSignal(t *testing.T) {
	forget(t)
	p := startServe(t, "--drain-delay=1m")
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, 10*time.Second, "stopping", func() bool { return strings.Contains(p.err.String(), "msg=stopping") })
	_, err := pb.NewInventoryServiceClient(connect(t, p)).GetHold(t.Context(), &pb.GetHoldRequest{HoldId: "x"})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a call while draining: %v", err)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t, 10*time.Second); code != -1 {
		t.Errorf("exit code %d, want the end by the signal", code)
	}
}
