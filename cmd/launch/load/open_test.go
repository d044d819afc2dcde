package load

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// shop gives everybody a hold, and sells it. before may answer with an error first.
type shop struct {
	pb.UnimplementedInventoryServiceServer

	before func(ctx context.Context, id string, asked int) error

	mu    sync.Mutex
	asked map[string]int // how often, by request id and by hold id
}

func (s *shop) count(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[id]++
	return s.asked[id]
}

func (s *shop) CreateHold(ctx context.Context, r *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
	if err := s.before(ctx, r.GetRequestId(), s.count(r.GetRequestId())); err != nil {
		return nil, err
	}
	return &pb.CreateHoldResponse{Hold: &pb.Hold{
		Id: r.GetBuyerId(), BuyerId: r.GetBuyerId(), RequestId: r.GetRequestId(), Quantity: r.GetQuantity(),
		State: pb.HoldState_HOLD_STATE_HELD, Remaining: durationpb.New(time.Second),
	}}, nil
}

func (s *shop) ConfirmHold(ctx context.Context, r *pb.ConfirmHoldRequest) (*pb.ConfirmHoldResponse, error) {
	if err := s.before(ctx, r.GetHoldId(), s.count(r.GetHoldId())); err != nil {
		return nil, err
	}
	return &pb.ConfirmHoldResponse{Sale: &pb.Sale{HoldId: r.GetHoldId(), OrderId: r.GetOrderId()}}, nil
}

// serve starts a shop.
func serve(t *testing.T, before func(context.Context, string, int) error) (address string, _ *shop) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{before: before, asked: map[string]int{}}
	server := grpc.NewServer()
	pb.RegisterInventoryServiceServer(server, s)
	go func() { _ = server.Serve(l) }() // ends with Stop
	t.Cleanup(server.Stop)
	return l.Addr().String(), s
}

// open starts a shop and a load on it.
func open(t *testing.T, c Crowd, before func(context.Context, string, int) error) (*Open, *shop) {
	t.Helper()
	address, s := serve(t, before)
	o := &Open{Plan: NewPlan(c), Allotment: "a", Addresses: []string{address}, Connections: 2, Retries: 2, Start: time.Now()}
	if err := o.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o, s
}

func fine(context.Context, string, int) error { return nil }

func small() Crowd {
	return Crowd{
		Requests: 500, Duration: 250 * time.Millisecond, Two: 0.4, Repeat: 0.1, Completion: 0.5, Window: 200 * time.Millisecond, Seed: 3,
	}
}

func tally(calls []*history.Call) (holds, repeats, confirms, done int) {
	for _, c := range calls {
		switch {
		case c.Kind == history.ConfirmHold:
			confirms++
		case c.Repeat:
			repeats++
		default:
			holds++
		}
		if c.Outcome == history.Done {
			done++
		}
	}
	return holds, repeats, confirms, done
}

// TestOpenLoop: every request of the plan is sent once, at no time before it should be, and who pays pays.
func TestOpenLoop(t *testing.T) {
	o, _ := open(t, small(), fine)
	begin := o.Now() + 10*time.Millisecond
	calls := o.Run(t.Context(), begin)
	holds, repeats, confirms, done := tally(calls)
	pay := 0
	for b := range int32(o.Plan.Buyers()) {
		if _, pays := o.Plan.Pays(b); pays {
			pay++
		}
	}
	if holds != o.Plan.Buyers() || holds+repeats != 500 || confirms != pay || done != len(calls) {
		t.Errorf("%d buyers of whom %d pay: %d requests, %d repeats, %d confirms, %d of %d done",
			o.Plan.Buyers(), pay, holds, repeats, confirms, done, len(calls))
	}
	request := 0
	for _, c := range calls {
		if c.Kind == history.CreateHold {
			if c.Intended != begin+o.Plan.Intended(request) || c.Buyer != o.Plan.buyers[request] {
				t.Fatalf("request %d: %+v", request, c)
			}
			request++
		}
		if c.Sent < c.Intended || c.Answered < c.Sent || c.Latency() != c.Answered-c.Intended {
			t.Fatalf("should be sent at %v, was sent at %v, answered at %v", c.Intended, c.Sent, c.Answered)
		}
	}
	if p := o.Progress(); p.Sent != 500 || p.Answered != 500 || p.Granted != int64(holds) || p.Sold != int64(pay) || p.Waiting != 0 {
		t.Errorf("progress %+v", p)
	}
}

// TestStalledServer: requests go on being sent while no answers come, and their latency counts from when they should
// have been sent.
func TestStalledServer(t *testing.T) {
	stalled := make(chan struct{})
	c := small()
	c.Repeat, c.Completion = 0, 0
	arrived := make(chan struct{}, c.Requests)
	o, _ := open(t, c, func(context.Context, string, int) error {
		arrived <- struct{}{}
		<-stalled
		return nil
	})
	var openedAt atomic.Int64
	go func() {
		for range c.Requests {
			<-arrived
		}
		openedAt.Store(int64(o.Now()))
		close(stalled)
	}()
	begin := o.Now()
	calls := o.Run(t.Context(), begin)
	opened := time.Duration(openedAt.Load())
	for i, call := range calls {
		if call.Outcome != history.Done || call.Answered < opened || call.Latency() < opened-begin-o.Plan.Intended(i) {
			t.Fatalf("request %d: %+v", i, call)
		}
	}
}

// TestTrouble: what meets trouble is repeated with the same ids, after the delay that the server names.
func TestTrouble(t *testing.T) {
	c := small()
	c.Repeat = 0
	o, s := open(t, c, func(ctx context.Context, _ string, asked int) error {
		if asked == 1 {
			if err := grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "30")); err != nil {
				return err
			}
			return status.Error(codes.Unavailable, "later")
		}
		return nil
	})
	calls := o.Run(t.Context(), o.Now())
	first := map[string]*history.Call{}
	for _, call := range calls {
		id := strconv.Itoa(int(call.Kind)) + strconv.Itoa(int(call.Buyer))
		switch call.Attempt {
		case 0:
			first[id] = call
			if call.Outcome != history.Trouble {
				t.Fatalf("%+v", call)
			}
		case 1:
			if call.Outcome != history.Done || call.Intended != first[id].Answered+30*time.Millisecond {
				t.Fatalf("%+v after %+v", call, first[id])
			}
		default:
			t.Fatalf("%+v", call)
		}
	}
	for id, asked := range s.asked {
		if asked != 2 {
			t.Errorf("%s was asked for %d times", id, asked)
		}
	}
}

// TestTroubleWithoutEnd: a buyer gives up in the end.
func TestTroubleWithoutEnd(t *testing.T) {
	c := small()
	c.Requests, c.Repeat = 20, 0
	o, _ := open(t, c, func(context.Context, string, int) error { return status.Error(codes.ResourceExhausted, "full") })
	calls := o.Run(t.Context(), o.Now())
	if len(calls) != 60 {
		t.Errorf("%d calls", len(calls))
	}
	if p := o.Progress(); p.Trouble != 60 || p.Waiting != 0 {
		t.Errorf("progress %+v", p)
	}
}

// TestStopped: when the context ends, nothing more is sent, and what was sent is waited for.
func TestStopped(t *testing.T) {
	c := small()
	c.Duration = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	o, _ := open(t, c, func(context.Context, string, int) error {
		cancel()
		return nil
	})
	for _, call := range o.Run(ctx, o.Now()) {
		if call.Outcome != history.Done {
			t.Errorf("%+v", call)
		}
	}
}

// TestClosedLoop counts the answers, and tells of odd ones.
func TestClosedLoop(t *testing.T) {
	o, s := open(t, small(), func(_ context.Context, _ string, _ int) error { return nil })
	o.client.Close()
	read := 0
	c := &Closed{
		Allotments: []string{"a"}, Addresses: o.Addresses, Connections: 2, InFlight: 8, Duration: 50 * time.Millisecond, Plan: NewPlan(Crowd{}), Want: codes.OK,
	}
	pace, err := c.Run(t.Context(), func() { read++ }, func() { read++ })
	if err != nil {
		t.Fatal(err)
	}
	if pace.Answers == 0 || pace.PerSec <= 0 || pace.Odd != 0 || read != 2 || int64(len(s.asked)) < pace.Answers ||
		pace.From[o.Addresses[0]] != pace.Answers {
		t.Errorf("%+v of %d requests", pace, len(s.asked))
	}
	c = &Closed{
		Allotments: []string{"a"}, Addresses: o.Addresses, Connections: 1, InFlight: 1, Duration: 20 * time.Millisecond, Plan: NewPlan(Crowd{}), Want: codes.FailedPrecondition,
	}
	if pace, err = c.Run(t.Context(), func() {}, func() {}); err != nil || pace.Odd == 0 || pace.OddText == "" {
		t.Errorf("%+v, %v", pace, err)
	}
}
