package holds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// decide runs a request until the script has decided it: whatever lapsed and stands in its way is
// released first. places are those of its lines.
func (s *Store) decide(ctx context.Context, l lane, places []store.Place, build func() *op) (*op, error) {
	for {
		o := build()
		if err := s.do(ctx, l, o); err != nil {
			return nil, err
		}
		if o.reply[0].status() != statusAgain {
			return o, nil
		}
		line := o.reply[0].int(1) - 1
		if line < 0 || int(line) >= len(places) {
			return nil, fmt.Errorf("script %s: names line %d of %d", o.script, line+1, len(places))
		}
		if err := s.releaseTags(ctx, places[line], o.due); err != nil {
			return nil, err
		}
	}
}

// one calls a script that takes a list of holds for a single one.
func (s *Store) one(ctx context.Context, script string, h store.PlacedHold) (store.Hold, error) {
	o := holdsOp(script, h.Place, []store.HoldID{h.ID})
	if err := s.do(ctx, laneCaller, o); err != nil {
		return store.Hold{}, err
	}
	if result := o.reply[0]; len(result) > 2 { // cancel alone
		s.metrics.lapsed(ctx, store.LapseByNeed, time.Duration(result.int(2))*time.Millisecond)
	}
	st := o.reply[0].status()
	if st != statusOK && st != statusExtensionLimit {
		return store.Hold{}, s.oneError(h, o)
	}
	r, err := decodeRecord(h.Place, o.reply[0].list(1), o.now)
	err = s.unreadable(h.Place, err)
	if st == statusExtensionLimit {
		return store.Hold{}, &store.Refusal{
			Reason: store.ExtensionLimit, Allotment: h.Allotment, HoldID: h.ID.String(), HoldRemaining: r.Remaining,
		}
	}
	return r.Hold, err
}

func (s *Store) oneError(h store.PlacedHold, o *op) error {
	err := s.holdError(o.reply[0], h.Place, h.ID)
	var no *store.Refusal
	if !errors.As(err, &no) {
		return err
	}
	switch no.Reason {
	case store.Closed:
		no.OpensAt, no.ClosesAt = instant(o.facts[0].opens), instant(o.facts[0].closes)
	case store.HoldSold, store.HoldConfirming:
		if r, err := decodeRecord(h.Place, o.reply[0].list(1), o.now); err == nil {
			no.OrderID = r.OrderID
		}
	}
	return no
}

// holdsOp calls a script with some holds of one allotment; extra are arguments of each.
func holdsOp(script string, p store.Place, ids []store.HoldID, extra ...any) *op {
	return &op{
		script: script, places: []store.Place{p}, items: len(ids),
		keys: func(keys []string) []string {
			for _, id := range ids {
				keys = holdKeys(keys, p, id)
			}
			return keys
		},
		args: func(args []any, number func(store.Place) int) []any {
			for _, id := range ids {
				args = append(append(args, number(p), packTag(id.Tag)), extra...)
			}
			return args
		},
	}
}

// Get implements store.Holds.
func (s *Store) Get(ctx context.Context, h store.PlacedHold) (store.Hold, error) {
	return s.one(ctx, "get", h)
}

// Extend implements store.Holds.
func (s *Store) Extend(ctx context.Context, h store.PlacedHold) (store.Hold, error) {
	return s.one(ctx, "extend", h)
}

// Cancel implements store.Holds.
func (s *Store) Cancel(ctx context.Context, h store.PlacedHold) (store.Hold, error) {
	return s.one(ctx, "cancel", h)
}

// Counters implements store.Holds.
func (s *Store) Counters(ctx context.Context, places []store.Place) ([]store.Counters, error) {
	for {
		o := &op{script: "availability", places: places, items: len(places), bare: true}
		if err := s.do(ctx, laneCaller, o); err != nil {
			return nil, err
		}
		due := false
		counters := make([]store.Counters, 0, len(places))
		for i, p := range places {
			counters = append(counters, o.facts[i].counters(p, o.now))
			if o.reply[i].status() != statusAgain {
				continue
			}
			due = true
			if err := s.releaseTags(ctx, p, o.reply[i].from(2)); err != nil {
				return nil, err
			}
		}
		if !due {
			return counters, nil
		}
	}
}

// unreadable tells of an allotment with a record that a script can read, but decodeRecord cannot; err is why, if so.
func (s *Store) unreadable(p store.Place, err error) error {
	if err != nil {
		s.damaged(p)
	}
	return err
}

// damaged says that the record of a hold, or the entry of its buyer, cannot be read.
func damaged(id store.HoldID) error {
	return fmt.Errorf("%w: the record of hold %s is damaged; reconcile repairs it", store.ErrUnavailable, id)
}

// holdError says what a status other than OK means for one hold.
func (s *Store) holdError(result result, p store.Place, id store.HoldID) error {
	no := &store.Refusal{Allotment: p.Allotment, HoldID: id.String()}
	switch result.status() {
	case statusNotFound:
		no.Reason = store.HoldNotFound
	case statusConfirming:
		no.Reason = store.HoldConfirming
	case statusLapsed:
		no.Reason = store.HoldLapsed
	case statusCancelled:
		no.Reason = store.HoldCancelled
	case statusSold:
		no.Reason = store.HoldSold
	case statusClosed:
		no.Reason = store.Closed
	case statusDamaged:
		s.damaged(p)
		return damaged(id)
	default:
		return fmt.Errorf("hold %s: unknown status %d", id, result.status())
	}
	return no
}
