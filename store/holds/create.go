package holds

import (
	"context"
	"fmt"
	"log/slog"
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
	switch result := o.reply[0]; result.status() {
	case statusOK:
		return newHolds(r, ids, o)
	case statusKnown:
		return s.holdsOf(places, result, o.now)
	default:
		return nil, s.createError(r, ids, o)
	}
}

func createOp(r store.CreateRequest, places []store.Place, ids []store.HoldID) *op {
	return &op{script: createScript, places: places, items: 1, create: &createItem{CreateRequest: r, ids: ids}}
}

// newHolds are the holds that the script has just made, whose sequences it returned.
func newHolds(r store.CreateRequest, ids []store.HoldID, o *op) ([]store.Hold, error) {
	sequences := o.reply[0].from(1)
	if len(sequences) != len(ids) {
		return nil, fmt.Errorf("create: %d holds for %d lines", len(sequences), len(ids))
	}
	holds := make([]store.Hold, len(ids))
	cart := fingerprint(r.Lines)
	for i, id := range ids {
		f := o.facts[i]
		holds[i] = store.Hold{
			ID: id, State: store.Held, Quantity: r.Lines[i].Quantity,
			Token: store.Token{Epoch: f.epoch, Sequence: integer(sequences[i])}, CreateTime: instant(o.now),
			ExpireTime: instant(o.now + f.hold), Remaining: time.Duration(f.hold) * time.Millisecond,
			BuyerID: r.BuyerID, RequestID: r.RequestID, Cart: cart,
		}
	}
	return holds, nil
}

// createError says why a request was refused, with the numbers that justify it.
func (s *Store) createError(r store.CreateRequest, ids []store.HoldID, o *op) error {
	result := o.reply[0]
	i := result.int(1) - 1
	if i < 0 || int(i) >= len(r.Lines) {
		return fmt.Errorf("create: status %d names line %d of %d", result.status(), i+1, len(r.Lines))
	}
	line, f := r.Lines[i], o.facts[i]
	held, sold := f.shown()
	no := &store.Refusal{
		Allotment: line.Allotment, Requested: line.Quantity, Capacity: f.capacity, Sold: sold, Held: held, Version: f.version,
		OpensAt: instant(f.opens), ClosesAt: instant(f.closes),
	}
	switch result.status() {
	case statusSoldOut:
		no.Reason = store.SoldOut
		s.guard(no)
	case statusAllHeld:
		no.Reason, no.NextLapse = store.AllHeld, instant(f.next)
		s.guard(no)
		nameOwn(no, result.from(2), o.now)
	case statusBuyerLimit:
		no.Reason, no.Limit, no.BuyerHeld, no.BuyerSold = store.BuyerLimit, f.perBuyer, result.int(2), result.int(3)
		nameOwn(no, result.from(4), o.now)
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
		return s.holdError(result, line.Place, ids[i])
	}
	return no
}

// guard raises the alarm over a refusal whose own numbers, which are of the end of the very script that gave it and so
// no more than when it did, say that enough was free: the counter of what is available is wrong.
func (s *Store) guard(no *store.Refusal) {
	free := no.Capacity - no.Sold - no.Held
	if free < no.Requested {
		return
	}
	s.metrics.falseRefusals.Add(context.Background(), 1)
	s.alarmed.Log(s.log, slog.LevelError, time.Now(), "refused, though enough was free by the same numbers", slog.String("allotment", no.Allotment),
		slog.Int64("requested", no.Requested), slog.Int64("free", free), slog.Int64("version", no.Version))
}

// nameOwn notes the buyer's own live hold: tag and deadline, or nothing.
func nameOwn(no *store.Refusal, own result, now int64) {
	if len(own) < 2 {
		return
	}
	no.HoldID = store.HoldID{Allotment: no.Allotment, Tag: unpackTag(own.text(0))}.String()
	no.HoldRemaining = time.Duration(own.int(1)-now) * time.Millisecond
}
