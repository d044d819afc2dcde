package server

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

var (
	noon        = time.Date(2026, 7, 30, 12, 0, 0, 0, time.UTC)
	night       = noon.Add(12 * time.Hour)
	concertHold = store.NewHoldID("concert", "ann", "r-1")
)

func TestOut(t *testing.T) {
	limit := int32(4)
	token := &pb.FencingToken{Epoch: 3, Sequence: 17}
	tests := []struct {
		name      string
		got, want any
	}{
		{
			"availability",
			availabilityOut(store.Availability{
				Allotment: "concert", Capacity: 9, Available: 2, Held: 3, Sold: 4, Version: 8, State: store.StateClosed,
				NextLapse: noon, ReadTime: night,
			}),
			&pb.Availability{
				AllotmentId: "concert", Capacity: 9, Available: 2, Held: 3, Sold: 4, Version: 8,
				State: pb.AllotmentState_ALLOTMENT_STATE_CLOSED, NextLapseTime: timestamppb.New(noon), ReadTime: timestamppb.New(night),
			},
		},
		{
			"availability without a live hold",
			availabilityOut(store.Availability{Allotment: "concert", State: store.StateOpen, ReadTime: noon}),
			&pb.Availability{
				AllotmentId: "concert", State: pb.AllotmentState_ALLOTMENT_STATE_OPEN, ReadTime: timestamppb.New(noon),
			},
		},
		{
			"hold",
			holdOut(store.Hold{
				ID: concertHold, BuyerID: "ann", RequestID: "r-1", Quantity: 2, State: store.Confirming,
				Token: store.Token{Epoch: 3, Sequence: 17}, CreateTime: noon, ExpireTime: night, Remaining: 5 * time.Second,
				OrderID: "o-1",
			}),
			&pb.Hold{
				Id: concertHold.String(), AllotmentId: "concert", BuyerId: "ann", RequestId: "r-1", Quantity: 2,
				State: pb.HoldState_HOLD_STATE_CONFIRMING, FencingToken: token, CreateTime: timestamppb.New(noon),
				ExpireTime: timestamppb.New(night), Remaining: durationpb.New(5 * time.Second), OrderId: "o-1",
			},
		},
		{
			"ended hold",
			holdOut(store.Hold{ID: concertHold, State: store.Lapsed, Remaining: -time.Second, Quantity: 1 << 40}),
			&pb.Hold{
				Id: concertHold.String(), AllotmentId: "concert", State: pb.HoldState_HOLD_STATE_LAPSED,
				Remaining: durationpb.New(0), Quantity: 1<<31 - 1,
			},
		},
		{
			"sale",
			saleOut(store.Sale{
				ID: concertHold, BuyerID: "ann", OrderID: "o-1", Quantity: 2, Cancelled: 1, Token: store.Token{Epoch: 3, Sequence: 17},
				SoldTime: noon, CancelTime: night,
			}),
			&pb.Sale{
				HoldId: concertHold.String(), AllotmentId: "concert", BuyerId: "ann", OrderId: "o-1", Quantity: 2,
				CancelledQuantity: 1, FencingToken: token, SoldTime: timestamppb.New(noon), CancelTime: timestamppb.New(night),
			},
		},
		{
			"allotment",
			allotmentOut(store.Allotment{
				Place:    store.Place{Allotment: "concert", Group: "night"},
				Capacity: 9, Sold: 1, Epoch: 3, Version: 7, CreateTime: noon, UpdateTime: night,
				Rules: store.Rules{
					State: store.StatePaused, LateConfirm: store.LateReject, HoldDuration: time.Minute,
					MaxHoldDuration: time.Hour, MaxPerHold: 10, MaxPerBuyer: 4, OpensAt: noon, ClosesAt: night,
				},
			}),
			&pb.Allotment{
				Id: "concert", Group: "night", Capacity: 9, HoldDuration: durationpb.New(time.Minute),
				MaxHoldDuration: durationpb.New(time.Hour), MaxQuantityPerHold: 10, MaxQuantityPerBuyer: &limit,
				OpensAt: timestamppb.New(noon), ClosesAt: timestamppb.New(night),
				State: pb.AllotmentState_ALLOTMENT_STATE_PAUSED, LateConfirm: pb.LateConfirm_LATE_CONFIRM_REJECT,
				Etag: formatEtag(7), CreateTime: timestamppb.New(noon), UpdateTime: timestamppb.New(night),
			},
		},
		{
			"finding",
			findingOut(store.Finding{
				Kind: store.FindingFree, Allotment: "concert", HoldID: "h\xff", BuyerID: "ann\xff", What: "w", Difference: -3,
				Expected: "5", Actual: "2", Action: "adopt",
			}),
			&pb.Finding{
				Kind: pb.FindingKind_FINDING_KIND_AVAILABLE, AllotmentId: "concert", HoldId: "h\uFFFD", BuyerId: "ann\uFFFD", What: "w",
				Difference: -3, Expected: "5", Actual: "2", Action: "adopt",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.got, protocmp.Transform()); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEnums checks that every value of an enum that an answer may have comes from exactly one of ours, and that
// what is not ours is UNSPECIFIED.
func TestEnums(t *testing.T) {
	bijective(t, len(pb.AllotmentState_name), func(n int) int32 { return int32(stateOut(store.AllotmentState(n))) })
	bijective(t, len(pb.LateConfirm_name), func(n int) int32 { return int32(lateConfirmOut(store.LateConfirm(n))) })
	bijective(t, len(pb.HoldState_name), func(n int) int32 { return int32(holdStateOut(store.HoldState(n))) })
	bijective(t, len(pb.FindingKind_name), func(n int) int32 { return int32(findingKindOut(store.FindingKind(n))) })

	for n := int32(1); n < int32(len(pb.AllotmentState_name)); n++ {
		if got := stateOut(stateIn(pb.AllotmentState(n))); int32(got) != n {
			t.Errorf("state %d comes back as %v", n, got)
		}
	}
	for n := int32(1); n < int32(len(pb.LateConfirm_name)); n++ {
		if got := lateConfirmOut(lateConfirmIn(pb.LateConfirm(n))); int32(got) != n {
			t.Errorf("late confirm %d comes back as %v", n, got)
		}
	}
	for n := int32(1); n < int32(len(pb.HoldState_name)); n++ {
		if got := holdStateOut(holdStatesIn([]pb.HoldState{pb.HoldState(n)})[0]); int32(got) != n {
			t.Errorf("hold state %d comes back as %v", n, got)
		}
	}
}

func bijective(t *testing.T, values int, out func(int) int32) {
	t.Helper()
	seen := map[int32]bool{}
	for n := range values + 3 {
		got := out(n)
		if seen[got] && got != 0 {
			t.Errorf("two values become %d", got)
		}
		seen[got] = true
	}
	if len(seen) != values {
		t.Errorf("%d of %d values are used", len(seen), values)
	}
}
