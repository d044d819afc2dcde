package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// Hold returns a hold, ended ones too while they are remembered; the ledger remembers sales for ever.
func (v *Inventory) Hold(ctx context.Context, id store.HoldID) (store.Hold, error) {
	return v.onHold(ctx, id, v.redis.Get)
}

// ExtendHold gives a live hold its allotment's hold duration from now, within the maximum.
func (v *Inventory) ExtendHold(ctx context.Context, id store.HoldID) (store.Hold, error) {
	h, err := v.onHold(ctx, id, v.redis.Extend)
	if err == nil {
		switch h.State {
		case store.Sold:
			err = &store.Refusal{Reason: store.HoldSold, Allotment: id.Allotment, HoldID: id.String(), OrderID: h.OrderID}
		case store.Cancelled:
			err = &store.Refusal{Reason: store.HoldCancelled, Allotment: id.Allotment, HoldID: id.String()}
		default:
			v.sweeper.note(id.Allotment, h.Remaining)
		}
	}
	return h, err
}

// CancelHold gives a hold's stock back at once. A hold that has ended unsold is returned as it is.
func (v *Inventory) CancelHold(ctx context.Context, id store.HoldID) (store.Hold, error) {
	h, err := v.onHold(ctx, id, v.redis.Cancel)
	if err == nil && h.State == store.Sold {
		err = &store.Refusal{Reason: store.HoldSold, Allotment: id.Allotment, HoldID: id.String(), OrderID: h.OrderID}
	}
	return h, err
}

// onHold runs a decision on one hold; what Redis does not know is looked up in the ledger.
func (v *Inventory) onHold(ctx context.Context, id store.HoldID,
	f func(context.Context, store.PlacedHold) (store.Hold, error),
) (store.Hold, error) {
	var h store.Hold
	err := v.decision(ctx, func(ctx context.Context) error {
		placed, err := v.places.hold(ctx, id)
		if err != nil {
			return err
		}
		h, err = f(ctx, placed)
		return err
	})
	var gone *retiredError
	if store.Refused(err, store.HoldNotFound) != nil || errors.As(err, &gone) {
		err = v.decision(ctx, func(ctx context.Context) error {
			h, err = v.remembered(ctx, id)
			return err
		})
	}
	if err != nil {
		return store.Hold{}, err
	}
	return h, nil
}

// remembered is what the ledger knows of a hold that has no record in Redis.
func (v *Inventory) remembered(ctx context.Context, id store.HoldID) (store.Hold, error) {
	o, found, err := v.outcome(ctx, id)
	if err != nil {
		return store.Hold{}, err
	}
	if found && !o.Shrink {
		return outcomeHold(o), nil
	}
	placed, err := v.places.hold(ctx, id)
	if err == nil {
		err = v.upToDate(ctx, placed.Place)
	}
	if err != nil {
		return store.Hold{}, err
	}
	return store.Hold{}, v.unknownHold(ctx, id)
}

// upToDate is an error if the Redis that has an allotment is known to have been replaced, as the ledger has a newer epoch: a
// server that is cut off from those who name the master may go on asking it, and must not say of holds that they have ended.
func (v *Inventory) upToDate(ctx context.Context, place store.Place) error {
	row, err := v.ledger.Allotment(ctx, place.Allotment)
	if store.Refused(err, store.AllotmentNotFound) != nil { // nor is it in Redis
		row.Retired, err = true, nil
	}
	if err != nil || row.Retired {
		return err
	}
	var found []store.Counters
	err = v.adopted(ctx, func(ctx context.Context) error {
		found, err = v.redis.Counters(ctx, []store.Place{place})
		return err
	})
	if err == nil && found[0].Epoch < row.Epoch {
		v.adopter.suspect(place)
		err = fmt.Errorf("%w: the ledger has a newer epoch than Redis", store.ErrUnavailable)
	}
	return err
}

func (v *Inventory) outcome(ctx context.Context, id store.HoldID) (store.Outcome, bool, error) {
	outcomes, err := v.ledger.Outcomes(ctx, id.Allotment, []string{id.Tag})
	if err != nil {
		return store.Outcome{}, false, err
	}
	o, found := outcomes[id.Tag]
	return o, found, nil
}

// unknownHold is the refusal for a well-formed id that neither store knows: it may have been lost
// with the Redis state, if that was rebuilt not long ago.
func (v *Inventory) unknownHold(ctx context.Context, id store.HoldID) error {
	a, err := v.ledger.Allotment(ctx, id.Allotment)
	if err != nil && store.Refused(err, store.AllotmentNotFound) == nil {
		return err
	}
	no := &store.Refusal{Reason: store.HoldNotFound, Allotment: id.Allotment, HoldID: id.String()}
	if err == nil && a.Epoch > 1 && time.Since(a.EpochTime) < v.o.Retention {
		no.Reason = store.HoldLapsed
	}
	return no
}

// outcomeHold is the hold that ended in a row of the ledger.
func outcomeHold(o store.Outcome) store.Hold {
	h := store.Hold{
		ID: o.ID, BuyerID: o.BuyerID, RequestID: o.RequestID, Quantity: o.Held, State: store.Cancelled,
		Token: o.Verdict.Token, CreateTime: o.CreateTime, ExpireTime: o.DecidedAt, Cart: o.Cart,
	}
	switch o.Verdict.Kind {
	case store.VerdictSold:
		sale := o.Verdict.Sale
		h.State, h.OrderID = store.Sold, sale.OrderID
		h.Pinned = &store.Pinned{Quantity: sale.Quantity}
	case store.VerdictRefusedOrder:
		h.Ended = store.EndedByOrder
	case store.VerdictRefusedRoom:
		h.Ended = store.EndedByRoom
	case store.VerdictRefusedCart:
		h.Ended = store.EndedByCart
	}
	return h
}
