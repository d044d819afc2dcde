package holds

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// Create implements store.Holds.
func (s *Store) Create(ctx context.Context, r store.CreateRequest) ([]store.Hold, error) {
	places := make([]store.Place, len(r.Lines))
	ids := make([]store.HoldID, len(r.Lines))
	for i, l := range r.Lines {
		places[i], ids[i] = l.Place, store.NewHoldID(l.Allotment, r.BuyerID, r.RequestID)
	}
	o, err := s.decide(ctx, laneCreate, places, func() *op { return createOp(r, places, ids) })
	if err != nil {
		return nil, err
	}
	result := o.reply[0]
	if result.status() != statusOK {
		return nil, createError(r, ids, o)
	}
	return holdsOf(places, result, o.now)
}

func createOp(r store.CreateRequest, places []store.Place, ids []store.HoldID) *op {
	return &op{
		script: "create", places: places, items: 1,
		keys: func(keys []string) []string {
			for i, p := range places {
				keys = holdKeys(keys, p, ids[i])
			}
			return keys
		},
		args: func(args []any, number func(store.Place) int) []any {
			args = append(args, len(r.Lines), pack(r.BuyerID), pack(r.RequestID), fingerprint(r.Lines))
			for i, l := range r.Lines {
				args = append(args, number(l.Place), packTag(ids[i].Tag), l.Quantity)
			}
			return args
		},
	}
}

// createError says why a request was refused, with the numbers that justify it.
func createError(r store.CreateRequest, ids []store.HoldID, o *op) error {
	result := o.reply[0]
	i := result.int(1) - 1
	if i < 0 || int(i) >= len(r.Lines) {
		return fmt.Errorf("create: status %d names line %d of %d", result.status(), i+1, len(r.Lines))
	}
	line, f := r.Lines[i], o.facts[i]
	no := &store.Refusal{
		Allotment: line.Allotment, Requested: line.Quantity, Capacity: f.capacity, Sold: f.sold,
		Held: f.held + f.confirming + f.shrinking, Version: f.version,
		OpensAt: instant(f.opens), ClosesAt: instant(f.closes),
	}
	switch result.status() {
	case statusSoldOut:
		no.Reason = store.SoldOut
	case statusAllHeld:
		no.Reason, no.NextLapse = store.AllHeld, instant(f.next)
		nameOwn(no, result[2:], o.now)
	case statusBuyerLimit:
		no.Reason, no.Limit, no.BuyerHeld, no.BuyerSold = store.BuyerLimit, f.perBuyer, result.int(2), result.int(3)
		nameOwn(no, result[4:], o.now)
	case statusNotOpen:
		no.Reason = store.NotOpen
	case statusPaused:
		no.Reason = store.Paused
	case statusClosed:
		no.Reason = store.Closed
	case statusMismatch:
		no.Reason, no.HoldID, no.Field = store.RequestMismatch, ids[i].String(), result.text(2)
	case statusTooMany:
		return &store.InvalidField{Field: "quantity", Problem: fmt.Sprintf(
			"is %d, allotment %s allows at most %d in one hold", line.Quantity, line.Allotment, f.perHold)}
	default:
		return holdError(result, line.Place, ids[i])
	}
	return no
}

// nameOwn notes the buyer's own live hold: tag and deadline, or nothing.
func nameOwn(no *store.Refusal, own result, now int64) {
	if len(own) < 2 {
		return
	}
	no.HoldID = store.HoldID{Allotment: no.Allotment, Tag: unpackTag(own.text(0))}.String()
	no.HoldRemaining = time.Duration(own.int(1)-now) * time.Millisecond
}
