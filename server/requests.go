package server

import (
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

const badHoldID = "not a hold id: want one as CreateHold returned it"

func holdIDIn(field, text string) (store.HoldID, error) {
	id, err := store.ParseHoldID(text)
	if err != nil {
		return store.HoldID{}, &store.InvalidField{Field: field, Problem: badHoldID}
	}
	return id, nil
}

func holdIDsIn(field string, texts []string) ([]store.HoldID, error) {
	ids := make([]store.HoldID, len(texts))
	for n, text := range texts {
		var err error
		if ids[n], err = holdIDIn(field+"["+strconv.Itoa(n)+"]", text); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// distinct keeps the first of equal ids.
func distinct(ids []string) []string {
	kept := make([]string, 0, len(ids))
	for _, id := range ids {
		if !slices.Contains(kept, id) { // at most 100
			kept = append(kept, id)
		}
	}
	return kept
}

func linesIn(lines []*pb.BatchCreateHoldsRequest_Line) []store.Line {
	return each(lines, func(l *pb.BatchCreateHoldsRequest_Line) store.Line {
		return store.Line{Allotment: l.GetAllotmentId(), Quantity: int64(l.GetQuantity())}
	})
}

func confirmIn(r *pb.ConfirmHoldRequest) (store.ConfirmHold, error) {
	id, err := holdIDIn("hold_id", r.GetHoldId())
	if err != nil {
		return store.ConfirmHold{}, err
	}
	c := store.ConfirmHold{ID: id, OrderID: r.GetOrderId(), Quantity: int64(r.GetQuantity())}
	if token := r.GetFencingToken(); token != nil {
		c.Token = &store.Token{Epoch: token.GetEpoch(), Sequence: token.GetSequence()}
	}
	return c, nil
}

// allotmentIn fills in the defaults of a new allotment.
func allotmentIn(a *pb.Allotment) (store.Allotment, error) {
	rules := store.Rules{State: store.StateOpen}
	for _, field := range changeable() {
		if field == "state" && a.GetState() == pb.AllotmentState_ALLOTMENT_STATE_UNSPECIFIED {
			continue
		}
		setRule(&rules, field, a)
	}
	if a.GetMaxHoldDuration() == nil {
		rules.MaxHoldDuration = max(rules.MaxHoldDuration, rules.HoldDuration)
	}
	if err := consistent(rules); err != nil {
		return store.Allotment{}, err
	}
	group := a.GetGroup()
	if group == "" {
		group = a.GetId()
	}
	return store.Allotment{
		Place:    store.Place{Allotment: a.GetId(), Group: group},
		Rules:    rules,
		Capacity: a.GetCapacity(),
	}, nil
}

// changeIn is what an update does to the rules of the allotment.
func changeIn(fields []string, a *pb.Allotment) func(*store.Rules) error {
	return func(rules *store.Rules) error {
		for _, field := range fields {
			if !setRule(rules, field, a) {
				v := unchangeable(field)
				return &store.InvalidField{Field: v.GetField(), Problem: v.GetDescription()}
			}
		}
		return consistent(*rules)
	}
}

// setRule sets the rule that a field gives, its default if the field is unset. It knows the fields of changeable.
func setRule(rules *store.Rules, field string, a *pb.Allotment) bool {
	switch field {
	case "hold_duration":
		rules.HoldDuration = durationIn(a.GetHoldDuration(), store.DefaultHoldDuration)
	case "max_hold_duration":
		rules.MaxHoldDuration = durationIn(a.GetMaxHoldDuration(), store.DefaultMaxHoldDuration)
	case "max_quantity_per_hold":
		rules.MaxPerHold = orDefault(int64(a.GetMaxQuantityPerHold()), store.DefaultMaxPerHold)
	case "max_quantity_per_buyer":
		rules.MaxPerBuyer = int64(a.GetMaxQuantityPerBuyer())
	case "opens_at":
		rules.OpensAt = timeIn(a.GetOpensAt())
	case "closes_at":
		rules.ClosesAt = timeIn(a.GetClosesAt())
	case "state":
		rules.State = stateIn(a.GetState())
	case "late_confirm":
		rules.LateConfirm = lateConfirmIn(a.GetLateConfirm())
	default:
		return false
	}
	return true
}

// consistent checks what no single field can break.
func consistent(r store.Rules) error {
	switch {
	case r.MaxHoldDuration < r.HoldDuration:
		return &store.InvalidField{
			Field:   "allotment.max_hold_duration",
			Problem: "must not be below hold_duration, which is " + r.HoldDuration.String(),
		}
	case !r.OpensAt.IsZero() && !r.ClosesAt.IsZero() && !r.ClosesAt.After(r.OpensAt):
		return &store.InvalidField{
			Field:   "allotment.closes_at",
			Problem: "must be after opens_at, which is " + r.OpensAt.Format(time.RFC3339Nano),
		}
	}
	return nil
}

// durationIn and timeIn keep milliseconds, which is what deadlines are counted in.
func durationIn(d *durationpb.Duration, unset time.Duration) time.Duration {
	if d == nil {
		return unset
	}
	return d.AsDuration().Truncate(time.Millisecond)
}

func timeIn(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime().Truncate(time.Millisecond)
}

func stateIn(s pb.AllotmentState) store.AllotmentState {
	switch s {
	case pb.AllotmentState_ALLOTMENT_STATE_PAUSED:
		return store.StatePaused
	case pb.AllotmentState_ALLOTMENT_STATE_CLOSED:
		return store.StateClosed
	case pb.AllotmentState_ALLOTMENT_STATE_OPEN, pb.AllotmentState_ALLOTMENT_STATE_UNSPECIFIED:
	}
	return store.StateOpen
}

func lateConfirmIn(l pb.LateConfirm) store.LateConfirm {
	if l == pb.LateConfirm_LATE_CONFIRM_REJECT {
		return store.LateReject
	}
	return store.LateAccept
}

func holdStatesIn(states []pb.HoldState) []store.HoldState {
	return each(states, func(s pb.HoldState) store.HoldState {
		switch s {
		case pb.HoldState_HOLD_STATE_CONFIRMING:
			return store.Confirming
		case pb.HoldState_HOLD_STATE_SOLD:
			return store.Sold
		case pb.HoldState_HOLD_STATE_CANCELLED:
			return store.Cancelled
		case pb.HoldState_HOLD_STATE_LAPSED:
			return store.Lapsed
		case pb.HoldState_HOLD_STATE_HELD, pb.HoldState_HOLD_STATE_UNSPECIFIED:
		}
		return store.Held
	})
}
