package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

func checkHealth(t *testing.T, conn *grpc.ClientConn, service string) string {
	t.Helper()
	got, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		return status.Code(err).String()
	}
	return got.GetStatus().String()
}

func TestHealth(t *testing.T) {
	f := &fake{before: failing(store.ErrUnavailable)} // an outage changes nothing
	b := startServer(t, f, nil)
	names := []string{"", "holdfast.v1.InventoryService", "holdfast.v1.AdminService"}
	for _, want := range []string{"NOT_SERVING", "SERVING", "NOT_SERVING"} {
		for _, name := range names {
			if got := checkHealth(t, b.conn, name); got != want {
				t.Errorf("health of %q is %s, want %s", name, got, want)
			}
		}
		_ = b.call(t, "CreateHold", validRequests()["CreateHold"])
		b.server.SetReady(want == "NOT_SERVING" && !b.server.IsReady())
	}
	if got := checkHealth(t, b.conn, "other"); got != "NotFound" {
		t.Errorf("health of an unknown service is %s", got)
	}
}

// TestSeparateAdmin: operators' calls are answered on their own listener only.
func TestSeparateAdmin(t *testing.T) {
	listener := bufconn.Listen(1 << 20)
	f := &fake{}
	b := startServer(t, f, nil)
	o := b.server.options
	o.SeparateAdmin = true
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	main := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- s.Serve(main, listener) }()
	s.SetReady(true)
	mainConn, adminConn := dial(t, main), dial(t, listener)
	get := &pb.GetAllotmentRequest{AllotmentId: "concert"}
	hold := &pb.GetHoldRequest{HoldId: aHold}
	for name, test := range map[string]struct {
		err  error
		want codes.Code
	}{
		"admin on admin": {errOf(pb.NewAdminServiceClient(adminConn).GetAllotment(t.Context(), get)), codes.OK},
		"admin on main":  {errOf(pb.NewAdminServiceClient(mainConn).GetAllotment(t.Context(), get)), codes.Unimplemented},
		"holds on main":  {errOf(pb.NewInventoryServiceClient(mainConn).GetHold(t.Context(), hold)), codes.OK},
		"holds on admin": {errOf(pb.NewInventoryServiceClient(adminConn).GetHold(t.Context(), hold)), codes.Unimplemented},
	} {
		if got := status.Code(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	if got := checkHealth(t, adminConn, "holdfast.v1.AdminService"); got != "SERVING" {
		t.Errorf("health of admin is %s", got)
	}
	if got := checkHealth(t, mainConn, "holdfast.v1.AdminService"); got != "NotFound" {
		t.Errorf("health of admin on main is %s", got)
	}
	s.Stop(t.Context())
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func errOf[T any](_ T, err error) error { return err }

// TestServeFails: when one listener breaks, Serve returns and takes the other down.
func TestServeFails(t *testing.T) {
	o := startServer(t, &fake{}, nil).server.options
	o.SeparateAdmin = true
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	broken := bufconn.Listen(1)
	broken.Close()
	if err := s.Serve(bufconn.Listen(1<<20), broken); err == nil {
		t.Error("Serve on a closed listener returned no error")
	}
	s.Stop(t.Context())
}

func TestLimits(t *testing.T) {
	b := startServer(t, &fake{}, nil)
	big := strings.Repeat("x", maxRequest)
	_, err := b.holds.GetHold(t.Context(), &pb.GetHoldRequest{HoldId: big})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request of 64 KiB: %v", err)
	}
	cart := make([]string, 100)
	for n := range cart {
		cart[n] = store.NewHoldID(strings.Repeat("a", 61)+string(rune('a'+n/26))+string(rune('a'+n%26)), anID, anID).String()
	}
	_, err = b.holds.BatchConfirmHolds(t.Context(), &pb.BatchConfirmHoldsRequest{HoldIds: cart, OrderId: strings.Repeat("ö", 128)})
	if err != nil {
		t.Errorf("the largest cart: %v", err)
	}
}

func TestReflection(t *testing.T) {
	b := startServer(t, &fake{}, nil)
	stream, err := reflectionpb.NewServerReflectionClient(b.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	got, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if text := got.GetListServicesResponse().String(); !strings.Contains(text, "holdfast.v1.InventoryService") {
		t.Errorf("services: %s", text)
	}
}

// TestConnectionAge: connections are replaced while calls go on, and none fails.
func TestConnectionAge(t *testing.T) {
	b := startServer(t, &fake{}, func(o *Options) { o.MaxAge, o.MaxAgeGrace = 50*time.Millisecond, time.Second })
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		if err := b.call(t, "CreateHold", validRequests()["CreateHold"]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKeepalive: a client that pings every 10 s, the shortest interval its library allows, keeps its connection. A
// server with gRPC's defaults closes it at the third ping.
func TestKeepalive(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 45 s")
	}
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := startServer(t, &fake{watch: watching}, nil)
	go func() { _ = b.server.Serve(listener, nil) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: time.Second, PermitWithoutStream: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
	defer cancel()
	stream, err := pb.NewInventoryServiceClient(conn).WatchAvailability(ctx, &pb.WatchAvailabilityRequest{AllotmentIds: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err = stream.Recv(); err != nil {
			break
		}
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the stream ended with %v before our deadline", err)
	}
}

func TestProbes(t *testing.T) {
	ready := false
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	probes := Probes(metrics, func() bool { return ready })
	get := func(path string) int {
		w := httptest.NewRecorder()
		probes.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		return w.Code
	}
	for _, want := range []struct{ live, ready int }{{200, 503}, {200, 200}} {
		if got := get("/livez"); got != want.live {
			t.Errorf("/livez is %d, want %d", got, want.live)
		}
		if got := get("/readyz"); got != want.ready {
			t.Errorf("/readyz is %d, want %d", got, want.ready)
		}
		ready = true
	}
	if got := get("/metrics"); got != http.StatusTeapot {
		t.Errorf("/metrics is %d", got)
	}
	if got := get("/"); got != http.StatusNotFound {
		t.Errorf("/ is %d", got)
	}
}

func TestWatchFails(t *testing.T) {
	f := &fake{watch: func(context.Context, func(store.Availability) error) error {
		return errors.Join(errors.New("read"), store.ErrUnavailable)
	}}
	b := startServer(t, f, nil)
	err := b.call(t, "WatchAvailability", validRequests()["WatchAvailability"])
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
}
