package server

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

// reasonText is a reason as ErrorInfo carries it.
func reasonText(reason pb.ErrorReason) string {
	return strings.TrimPrefix(reason.String(), "ERROR_REASON_")
}

func availabilityOut(a store.Availability) *pb.Availability {
	return &pb.Availability{
		AllotmentId:   a.Allotment,
		Capacity:      a.Capacity,
		Available:     a.Available,
		Held:          a.Held,
		Sold:          a.Sold,
		Version:       a.Version,
		State:         stateOut(a.State),
		NextLapseTime: timeOut(a.NextLapse),
		ReadTime:      timeOut(a.ReadTime),
	}
}

func holdOut(h store.Hold) *pb.Hold {
	return &pb.Hold{
		Id:           h.ID.String(),
		AllotmentId:  h.ID.Allotment,
		BuyerId:      h.BuyerID,
		RequestId:    h.RequestID,
		Quantity:     quantityOut(shownQuantity(h)),
		State:        holdStateOut(h.State),
		FencingToken: tokenOut(h.Token),
		CreateTime:   timeOut(h.CreateTime),
		ExpireTime:   timeOut(h.ExpireTime),
		Remaining:    durationpb.New(max(h.Remaining, 0)),
		OrderId:      h.OrderID,
	}
}

func saleOut(s store.Sale) *pb.Sale {
	return &pb.Sale{
		HoldId:            s.ID.String(),
		AllotmentId:       s.ID.Allotment,
		BuyerId:           s.BuyerID,
		OrderId:           s.OrderID,
		Quantity:          quantityOut(s.Quantity),
		CancelledQuantity: quantityOut(s.Cancelled),
		FencingToken:      tokenOut(s.Token),
		SoldTime:          timeOut(s.SoldTime),
		CancelTime:        timeOut(s.CancelTime),
	}
}

func allotmentOut(a store.Allotment) *pb.Allotment {
	out := &pb.Allotment{
		Id:                 a.Allotment,
		Group:              a.Group,
		Capacity:           a.Capacity,
		HoldDuration:       durationpb.New(a.HoldDuration),
		MaxHoldDuration:    durationpb.New(a.MaxHoldDuration),
		MaxQuantityPerHold: quantityOut(a.MaxPerHold),
		OpensAt:            timeOut(a.OpensAt),
		ClosesAt:           timeOut(a.ClosesAt),
		State:              stateOut(a.State),
		LateConfirm:        lateConfirmOut(a.LateConfirm),
		Etag:               formatEtag(a.Version),
		CreateTime:         timeOut(a.CreateTime),
		UpdateTime:         timeOut(a.UpdateTime),
	}
	if a.MaxPerBuyer > 0 {
		limit := quantityOut(a.MaxPerBuyer)
		out.MaxQuantityPerBuyer = &limit
	}
	return out
}

func findingOut(f store.Finding) *pb.Finding {
	return &pb.Finding{
		Kind:        findingKindOut(f.Kind),
		AllotmentId: f.Allotment,
		HoldId:      strings.ToValidUTF8(f.HoldID, "\uFFFD"), // what is damaged may be no text
		BuyerId:     strings.ToValidUTF8(f.BuyerID, "\uFFFD"),
		What:        f.What,
		Difference:  f.Difference,
		Action:      f.Action,
		Expected:    f.Expected,
		Actual:      f.Actual,
	}
}

// each converts a list.
func each[In, Out any](list []In, convert func(In) Out) []Out {
	out := make([]Out, len(list))
	for n, item := range list {
		out[n] = convert(item)
	}
	return out
}

func tokenOut(t store.Token) *pb.FencingToken {
	if t == (store.Token{}) {
		return nil
	}
	return &pb.FencingToken{Epoch: t.Epoch, Sequence: t.Sequence}
}

func timeOut(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// shownQuantity is the units held or, of a SOLD hold, sold: a confirm of a part makes them fewer.
func shownQuantity(h store.Hold) int64 {
	if h.State == store.Sold && h.Pinned != nil {
		return h.Pinned.Quantity
	}
	return h.Quantity
}

// quantityOut never wraps around: quantities are bounded by the capacity, which fits.
func quantityOut(n int64) int32 {
	return int32(min(max(n, 0), math.MaxInt32))
}

func stateOut(s store.AllotmentState) pb.AllotmentState {
	switch s {
	case store.StateOpen:
		return pb.AllotmentState_ALLOTMENT_STATE_OPEN
	case store.StatePaused:
		return pb.AllotmentState_ALLOTMENT_STATE_PAUSED
	case store.StateClosed:
		return pb.AllotmentState_ALLOTMENT_STATE_CLOSED
	default:
		return pb.AllotmentState_ALLOTMENT_STATE_UNSPECIFIED
	}
}

func lateConfirmOut(l store.LateConfirm) pb.LateConfirm {
	switch l {
	case store.LateAccept:
		return pb.LateConfirm_LATE_CONFIRM_ACCEPT_IF_AVAILABLE
	case store.LateReject:
		return pb.LateConfirm_LATE_CONFIRM_REJECT
	default:
		return pb.LateConfirm_LATE_CONFIRM_UNSPECIFIED
	}
}

func holdStateOut(s store.HoldState) pb.HoldState {
	switch s {
	case store.Held:
		return pb.HoldState_HOLD_STATE_HELD
	case store.Confirming:
		return pb.HoldState_HOLD_STATE_CONFIRMING
	case store.Sold:
		return pb.HoldState_HOLD_STATE_SOLD
	case store.Cancelled:
		return pb.HoldState_HOLD_STATE_CANCELLED
	case store.Lapsed:
		return pb.HoldState_HOLD_STATE_LAPSED
	default:
		return pb.HoldState_HOLD_STATE_UNSPECIFIED
	}
}

func findingKindOut(k store.FindingKind) pb.FindingKind {
	switch k {
	case store.FindingMissing:
		return pb.FindingKind_FINDING_KIND_MISSING
	case store.FindingEpoch:
		return pb.FindingKind_FINDING_KIND_EPOCH
	case store.FindingCapacity:
		return pb.FindingKind_FINDING_KIND_CAPACITY
	case store.FindingSold:
		return pb.FindingKind_FINDING_KIND_SOLD
	case store.FindingHeld:
		return pb.FindingKind_FINDING_KIND_HELD
	case store.FindingFree:
		return pb.FindingKind_FINDING_KIND_AVAILABLE
	case store.FindingHold:
		return pb.FindingKind_FINDING_KIND_HOLD
	case store.FindingBuyer:
		return pb.FindingKind_FINDING_KIND_BUYER
	case store.FindingOversold:
		return pb.FindingKind_FINDING_KIND_OVERSOLD
	case store.FindingIndex:
		return pb.FindingKind_FINDING_KIND_INDEX
	default:
		return pb.FindingKind_FINDING_KIND_UNSPECIFIED
	}
}
