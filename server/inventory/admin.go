package inventory

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/failpoint"
)

// CreateAllotment opens a limited resource. Its row is made first; its Redis state is then adopted
// from it, as after any loss.
func (v *Inventory) CreateAllotment(ctx context.Context, a store.Allotment) (store.Allotment, error) {
	a.Buckets = store.BucketsFor(a.Capacity)
	row, err := v.ledger.CreateAllotment(ctx, a)
	if err != nil {
		return store.Allotment{}, err
	}
	failpoint.Hit("create-allotment-after-ledger")
	return v.inForce(ctx, row)
}

// inForce answers with the row once Redis is ready for the allotment and has applied its changes.
func (v *Inventory) inForce(ctx context.Context, row store.Allotment) (store.Allotment, error) {
	err := v.adopted(ctx, func(ctx context.Context) error {
		_, err := v.redis.Counters(ctx, []store.Place{row.Place})
		return err
	})
	var gone *retiredError
	if err != nil && !errors.As(err, &gone) {
		return store.Allotment{}, fmt.Errorf("%w: committed, not yet in force: %w", store.ErrResultUnknown, err)
	}
	if err := v.untilApplied(ctx, row.Place.Allotment, row.Feed); err != nil {
		return store.Allotment{}, err
	}
	return row, nil
}

// Allotment returns an allotment as the ledger has it.
func (v *Inventory) Allotment(ctx context.Context, id string) (store.Allotment, error) {
	return v.ledger.Allotment(ctx, id)
}

// ListAllotments returns up to limit allotments in the order of their ids, after the given one.
func (v *Inventory) ListAllotments(ctx context.Context, after string, limit int) ([]store.Allotment, error) {
	return v.ledger.ListAllotments(ctx, after, limit)
}

// ListSales returns up to limit sales that match, in the order of their hold ids, after the given one.
func (v *Inventory) ListSales(ctx context.Context, f store.SaleFilter, after string, limit int) ([]store.Sale, error) {
	return v.ledger.ListSales(ctx, f, after, limit)
}

// UpdateAllotment changes rules, if version is still the row's, and answers when they are in force.
func (v *Inventory) UpdateAllotment(ctx context.Context, id string, version int64, change func(*store.Rules) error) (store.Allotment, error) {
	row, err := v.ledger.Allotment(ctx, id)
	if err != nil {
		return store.Allotment{}, err
	}
	if row.Version != version {
		return store.Allotment{}, &store.Refusal{Reason: store.StaleEtag, Allotment: id, Capacity: row.Capacity, Sold: row.Sold, Version: row.Version}
	}
	rules := row.Rules
	if err := change(&rules); err != nil {
		return store.Allotment{}, err
	}
	if row, err = v.ledger.UpdateRules(ctx, id, version, rules); err != nil {
		return store.Allotment{}, err
	}
	failpoint.Hit("update-after-ledger")
	return v.inForce(ctx, row)
}

// AdjustCapacity changes the capacity by the direction rule: growth commits in the ledger first; a
// shrink takes its units in Redis first, so that nobody else can get them.
func (v *Inventory) AdjustCapacity(ctx context.Context, c store.AdjustCapacity) (store.Allotment, error) {
	made, found, err := v.ledger.Adjustment(ctx, c.Allotment, c.RequestID)
	if err != nil {
		return store.Allotment{}, err
	}
	switch {
	case found && made.Delta != c.Delta:
		return store.Allotment{}, &store.Refusal{Reason: store.RequestMismatch, Allotment: c.Allotment, Field: "delta"}
	case found && c.Delta < 0, c.DryRun && found:
		return v.ledger.Allotment(ctx, c.Allotment)
	case c.Delta < 0:
		return v.shrink(ctx, c)
	case c.DryRun:
		return v.wouldGrow(ctx, c)
	}
	row, made, err := v.ledger.Grow(ctx, store.Adjustment{Allotment: c.Allotment, RequestID: c.RequestID, Delta: c.Delta})
	if err != nil {
		return store.Allotment{}, err
	}
	failpoint.Hit("grow-after-ledger")
	return row, v.untilApplied(ctx, c.Allotment, made.Feed)
}

func (v *Inventory) wouldGrow(ctx context.Context, c store.AdjustCapacity) (store.Allotment, error) {
	row, err := v.ledger.Allotment(ctx, c.Allotment)
	if err != nil {
		return store.Allotment{}, err
	}
	if row.Capacity+c.Delta > store.MaxCapacity {
		return store.Allotment{}, &store.InvalidField{Field: "delta", Problem: fmt.Sprintf("makes the capacity %d, at most %d is allowed", row.Capacity+c.Delta, store.MaxCapacity)}
	}
	row.Capacity += c.Delta
	return row, nil
}

func (v *Inventory) shrink(ctx context.Context, c store.AdjustCapacity) (store.Allotment, error) {
	p, err := v.places.place(ctx, c.Allotment)
	if err != nil {
		return store.Allotment{}, err
	}
	placed := store.PlacedHold{Place: p, ID: store.NewHoldID(c.Allotment, "", c.RequestID)}
	r := store.ShrinkRequest{PlacedHold: placed, RequestID: c.RequestID, Units: -c.Delta, Lease: v.o.ConfirmLease, DryRun: c.DryRun}
	d := &drive{v: v, holds: []store.PlacedHold{placed}, sales: map[store.HoldID]store.Sale{}}
	d.pin = func(ctx context.Context) ([]store.Begun, error) {
		begun, err := v.redis.Shrink(ctx, r)
		return []store.Begun{begun}, err
	}
	if c.DryRun {
		return v.wouldShrink(ctx, c, d)
	}
	if err := d.begin(ctx); err != nil {
		return store.Allotment{}, closedIfRetired(err)
	}
	failpoint.Hit("shrink-after-begin")
	if len(d.begun) > 0 {
		err = v.ended(ctx, d)
	}
	row, readErr := v.ledger.Allotment(ctx, c.Allotment)
	switch {
	case store.Refused(err, store.HoldCancelled) != nil: // the ledger had no room for it: Redis was wrong
		err = &store.Refusal{Reason: store.CapacityInUse, Allotment: c.Allotment, Capacity: row.Capacity, Sold: row.Sold, SmallestCapacity: row.Sold}
	case store.Refused(err, store.OrderExists) != nil: // meanwhile the request id has made another change
		err = &store.Refusal{Reason: store.RequestMismatch, Allotment: c.Allotment, Field: "delta"}
	}
	return row, errors.Join(err, readErr)
}

func (v *Inventory) wouldShrink(ctx context.Context, c store.AdjustCapacity, d *drive) (store.Allotment, error) {
	err := v.adopted(ctx, func(ctx context.Context) error {
		_, err := d.pin(ctx)
		return err
	})
	if err != nil {
		return store.Allotment{}, closedIfRetired(err)
	}
	row, err := v.ledger.Allotment(ctx, c.Allotment)
	row.Capacity += c.Delta
	return row, err
}
