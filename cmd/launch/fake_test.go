package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// careless gives a hold to everybody, whatever the capacity is.
type careless struct {
	pb.UnimplementedInventoryServiceServer
	pb.UnimplementedAdminServiceServer

	mu       sync.Mutex
	capacity int64
	holds    map[string]*pb.Hold
	sales    map[string]*pb.Sale
	state    pb.AllotmentState
}

func (s *careless) CreateAllotment(_ context.Context, r *pb.CreateAllotmentRequest) (*pb.CreateAllotmentResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity, s.state = r.GetAllotment().GetCapacity(), pb.AllotmentState_ALLOTMENT_STATE_OPEN
	return &pb.CreateAllotmentResponse{Allotment: r.GetAllotment()}, nil
}

func (s *careless) GetAvailability(context.Context, *pb.GetAvailabilityRequest) (*pb.GetAvailabilityResponse, error) {
	return &pb.GetAvailabilityResponse{Availability: &pb.Availability{Capacity: s.capacity, Available: s.capacity}}, nil
}

func (s *careless) CreateHold(_ context.Context, r *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.holds[r.GetRequestId()]
	if h == nil {
		h = &pb.Hold{
			Id: r.GetRequestId(), BuyerId: r.GetBuyerId(), RequestId: r.GetRequestId(), Quantity: r.GetQuantity(),
			State: pb.HoldState_HOLD_STATE_HELD, Remaining: durationpb.New(time.Second),
			FencingToken: &pb.FencingToken{Epoch: 1, Sequence: int64(len(s.holds) + 1)},
		}
		s.holds[h.GetId()] = h
	}
	return &pb.CreateHoldResponse{Hold: h}, nil
}

func (s *careless) ConfirmHold(_ context.Context, r *pb.ConfirmHoldRequest) (*pb.ConfirmHoldResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.holds[r.GetHoldId()]
	s.sales[h.GetId()] = &pb.Sale{HoldId: h.GetId(), OrderId: r.GetOrderId(), Quantity: h.GetQuantity(), FencingToken: h.GetFencingToken()}
	return &pb.ConfirmHoldResponse{Sale: s.sales[h.GetId()]}, nil
}

func (s *careless) ListHolds(_ context.Context, r *pb.ListHoldsRequest) (*pb.ListHoldsResponse, error) {
	list := &pb.ListHoldsResponse{}
	for _, h := range s.holds {
		if len(r.GetStates()) == 0 || slices.Contains(r.GetStates(), h.GetState()) {
			list.Holds = append(list.Holds, h)
		}
	}
	return list, nil
}

func (s *careless) ListSales(context.Context, *pb.ListSalesRequest) (*pb.ListSalesResponse, error) {
	r := &pb.ListSalesResponse{}
	for _, sale := range s.sales {
		r.Sales = append(r.Sales, sale)
	}
	return r, nil
}

func (s *careless) GetAllotment(context.Context, *pb.GetAllotmentRequest) (*pb.GetAllotmentResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &pb.GetAllotmentResponse{Allotment: &pb.Allotment{Capacity: s.capacity, State: s.state}}, nil
}

func (s *careless) UpdateAllotment(_ context.Context, r *pb.UpdateAllotmentRequest) (*pb.UpdateAllotmentResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = r.GetAllotment().GetState()
	return &pb.UpdateAllotmentResponse{}, nil
}

// closed tells whether an allotment was opened, and closed again.
func (s *careless) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == pb.AllotmentState_ALLOTMENT_STATE_CLOSED
}

func (s *careless) ReconcileAllotment(context.Context, *pb.ReconcileAllotmentRequest) (*pb.ReconcileAllotmentResponse, error) {
	return &pb.ReconcileAllotmentResponse{Findings: []*pb.Finding{{What: "it was never counted"}}}, nil
}

func newCareless() *careless {
	return &careless{holds: map[string]*pb.Hold{}, sales: map[string]*pb.Sale{}}
}

// startCareless serves carelessly, and returns the address.
func startCareless(t *testing.T) (*careless, string) {
	t.Helper()
	s := newCareless()
	return s, serveFake(t, func(to grpc.ServiceRegistrar) {
		pb.RegisterInventoryServiceServer(to, s)
		pb.RegisterAdminServiceServer(to, s)
	})
}

// serveFake serves, and returns the address.
func serveFake(t *testing.T, register func(grpc.ServiceRegistrar), options ...grpc.ServerOption) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	register(server)
	go func() { _ = server.Serve(l) }() // ends with Stop
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

// TestBrokenPromise: a server that oversells is caught, and the exit code says so.
func TestBrokenPromise(t *testing.T) {
	_, address := startCareless(t)
	var out, errOut strings.Builder
	code := run(t.Context(), []string{
		"--addr=" + address, "--requests=200", "--duration=200ms", "--capacity=50", "--window=10s", "--no-lapses",
	}, &out, &errOut)
	if code != exitError || !strings.Contains(errOut.String(), "a promise was broken") {
		t.Errorf("exit code %d, %s", code, errOut.String())
	}
	for _, want := range []string{"never oversold       BROKEN", "held or sold at once, of 50", "R6  conservation         BROKEN"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

// TestInterrupted: a launch that was cut short is no success, and says why.
func TestInterrupted(t *testing.T) {
	ctx, cancel := contextFor(t)
	defer cancel()
	server, address := startCareless(t)
	var out, errOut strings.Builder
	code := run(ctx, []string{"--addr=" + address, "--requests=2000", "--duration=1m", "--capacity=5000"}, &out, &errOut)
	if code != exitError || !strings.Contains(errOut.String(), "interrupted") {
		t.Errorf("exit code %d, %s", code, errOut.String())
	}
	if !server.closed() {
		t.Error("the allotment is left open")
	}
}

// untilWritten interrupts when a text has been written.
type untilWritten struct {
	strings.Builder

	text      string
	interrupt context.CancelFunc
}

func (w *untilWritten) Write(p []byte) (int, error) {
	n, err := w.Builder.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.interrupt()
	}
	return n, err
}

// TestClosedInterrupted: rounds that were finished are told, as what they are, and where there is none, that is.
func TestClosedInterrupted(t *testing.T) {
	t.Setenv(asLaunch, "1")
	for round, says := range map[string]struct{ out, errOut, file string }{
		"round 1 of 9": {"", "launch: interrupted before a round was finished: there is nothing to tell\n", ""},
		"round 2 of 9": {"INTERRUPTED: only the rounds that were finished\nholds, 8 in flight, 1 rounds", "launch: interrupted: the rounds that were finished", `"interrupted": true`},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server, address := startCareless(t)
		file := filepath.Join(t.TempDir(), "closed.json")
		out, errOut := &strings.Builder{}, &untilWritten{text: round, interrupt: cancel}
		args := []string{"closed", "--addr=" + address, "--kind=holds", "--in-flight=8", "--duration=50ms", "--warm-up=10ms", "--rounds=9", "--json=" + file}
		if code := run(ctx, args, out, errOut); code != exitError || !server.closed() {
			t.Errorf("exit code %d, closed %t", code, server.closed())
		}
		written, _ := os.ReadFile(file) // there is none if there is nothing to tell
		mustSay(t, out.String(), says.out)
		mustSay(t, errOut.String(), says.errOut)
		mustSay(t, string(written), says.file)
		if (out.Len() == 0) != (says.out == "") || strings.Contains(errOut.String(), "context canceled") {
			t.Errorf("%s:\n%s%s", round, out, errOut)
		}
	}
}

// TestInterruptedBeforeTheLoad: that nothing was judged is said plainly.
func TestInterruptedBeforeTheLoad(t *testing.T) {
	t.Setenv(asLaunch, "1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, address := startCareless(t)
	errOut := &untilWritten{text: "no-op ", interrupt: cancel}
	code := run(ctx, []string{"onsale", "--addr=" + address, "--requests=100", "--duration=1m", "--noop"}, io.Discard, errOut)
	if code != exitError || !strings.Contains(errOut.String(), "launch: interrupted before the launch began") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}
