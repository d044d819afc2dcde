package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// late tells buyers that they have bought before their holds are SOLD: these are CONFIRMING until they have been listed so
// a few times.
type late struct {
	*careless

	listings int // of holds that are CONFIRMING
}

const lateListings = 3

func (s *late) isFinished() bool { return s.listings >= lateListings }

func (s *late) state(h *pb.Hold) pb.HoldState {
	switch {
	case s.sales[h.GetId()] == nil:
		return pb.HoldState_HOLD_STATE_HELD
	case s.isFinished():
		return pb.HoldState_HOLD_STATE_SOLD
	default:
		return pb.HoldState_HOLD_STATE_CONFIRMING
	}
}

func (s *late) GetAvailability(context.Context, *pb.GetAvailabilityRequest) (*pb.GetAvailabilityResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &pb.Availability{Capacity: s.capacity, Available: s.capacity}
	for _, h := range s.holds {
		a.Available -= int64(h.GetQuantity())
		if s.state(h) == pb.HoldState_HOLD_STATE_SOLD {
			a.Sold += int64(h.GetQuantity())
		} else {
			a.Held += int64(h.GetQuantity())
		}
	}
	return &pb.GetAvailabilityResponse{Availability: a}, nil
}

func (s *late) ListHolds(_ context.Context, r *pb.ListHoldsRequest) (*pb.ListHoldsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &pb.ListHoldsResponse{}
	for _, h := range s.holds {
		if state := s.state(h); len(r.GetStates()) == 0 || slices.Contains(r.GetStates(), state) {
			list.Holds = append(list.Holds, &pb.Hold{
				Id: h.GetId(), BuyerId: h.GetBuyerId(), RequestId: h.GetRequestId(), Quantity: h.GetQuantity(), State: state,
				FencingToken: h.GetFencingToken(),
			})
		}
	}
	s.listings++
	return list, nil
}

func (s *late) ReconcileAllotment(context.Context, *pb.ReconcileAllotmentRequest) (*pb.ReconcileAllotmentResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &pb.ReconcileAllotmentResponse{}
	for id := range s.sales {
		if h := s.holds[id]; !s.isFinished() {
			r.Findings = append(r.Findings, &pb.Finding{What: "units sold of a buyer", BuyerId: h.GetBuyerId(), Difference: -int64(h.GetQuantity())})
		}
	}
	return r, nil
}

// TestConfirmsAreFinishedLater: a launch that does not wait for lapses waits for confirms whose buyers know already, and
// holds none of them against the server.
func TestConfirmsAreFinishedLater(t *testing.T) {
	server := &late{careless: newCareless()}
	address := serveFake(t, func(to grpc.ServiceRegistrar) {
		pb.RegisterInventoryServiceServer(to, server)
		pb.RegisterAdminServiceServer(to, server)
	})
	out := launch(t, "--addr="+address, "--requests=20", "--duration=20ms", "--capacity=50", "--window=10s", "--completion=1", "--no-lapses")
	mustSay(t, out, "R3  a hold is a promise  kept", "in the end 23 available + 0 held + 27 sold")
	if strings.Contains(out, "not finished") || !server.isFinished() {
		t.Errorf("nobody waited until the confirms were finished:\n%s", out)
	}
}
