package compare

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// fakeInventory answers as it is told.
type fakeInventory struct {
	pb.UnimplementedInventoryServiceServer
	create func(r *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error)
}

func (f *fakeInventory) CreateHold(_ context.Context, r *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
	return f.create(r)
}

// pumpInto puts a demand to a server that answers so, and returns what the pump made of it.
func pumpInto(t *testing.T, d demand, create func(r *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error)) (*pump, error) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterInventoryServiceServer(server, &fakeInventory{create: create})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	p, err := newPump(newClock(), "drop", d.draw())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = p.run(ctx, listener.Addr().String(), 5)
	return p, err
}

func refused(reason string) error {
	s, err := status.New(codes.FailedPrecondition, "no").WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "holdfast.v1"})
	if err != nil {
		panic(err)
	}
	return s.Err()
}

// TestPumpTakesAnswersAsTheyAre: holds, refusals of both kinds, and trouble, after which it asks again.
func TestPumpTakesAnswersAsTheyAre(t *testing.T) {
	t.Parallel()
	var asked, troubled atomic.Int64
	d := demand{Seed: 20260730, Requests: 200}
	p, err := pumpInto(t, d, func(r *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
		number := strings.TrimPrefix(r.GetBuyerId(), "buyer-")
		switch n := asked.Add(1); {
		case n%20 == 7:
			troubled.Add(1)
			return nil, status.Error(codes.Unavailable, "again")
		case r.GetQuantity() == 1:
			return &pb.CreateHoldResponse{Hold: &pb.Hold{Id: r.GetAllotmentId() + "." + number}}, nil
		case strings.HasSuffix(number, "1"):
			return nil, refused("SOLD_OUT")
		default:
			return nil, refused("ALL_HELD")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	answers, holds, err := p.answers()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := count(1000, d.Requests, answers); err != nil {
		t.Error(err)
	}
	for i, a := range answers {
		if a.Got != (a.Quantity == 1) || (holds[i] != "") != a.Got {
			t.Errorf("request %d for %d: got it: %v, hold %q", i, a.Quantity, a.Got, holds[i])
		}
	}
	if p.repeats.Load() != troubled.Load() || troubled.Load() == 0 {
		t.Errorf("%d repeats after %d troubles", p.repeats.Load(), troubled.Load())
	}
}

// TestPumpTakesNothingElseForARefusal: a hold that is refused for another reason is a mistake of ours.
func TestPumpTakesNothingElseForARefusal(t *testing.T) {
	t.Parallel()
	p, err := pumpInto(t, demand{Requests: 3}, func(*pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) { return nil, refused("PAUSED") })
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.answers(); err == nil {
		t.Error("PAUSED is taken for a refusal")
	}
	_, err = pumpInto(t, demand{Requests: 3}, func(*pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
		return nil, status.Error(codes.InvalidArgument, "what?")
	})
	if err == nil || !strings.Contains(err.Error(), "what?") {
		t.Errorf("after INVALID_ARGUMENT: %v", err)
	}
}

func TestPumpIsStopped(t *testing.T) {
	t.Parallel()
	p, err := newPump(newClock(), "drop", demand{Requests: 3}.draw())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.run(ctx, "127.0.0.1:1", 1); err == nil {
		t.Error("it has ended without an error")
	}
}
