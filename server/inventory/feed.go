package inventory

import (
	"context"
	"errors"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/failpoint"
)

// feedBatch is how many changes go to Redis in one call.
const feedBatch = 64

// applyFeed brings the ledger's changes to Redis until the one with this number is applied. Any
// number of callers and supervisors may do so at once: Redis takes exactly the next number.
func (v *Inventory) applyFeed(ctx context.Context, p store.Place, number int64) error {
	return v.adopted(ctx, func(ctx context.Context) error {
		for {
			err := v.feedTo(ctx, p, number)
			if !errors.Is(err, errFeedGap) {
				return err
			}
			if err := v.adopter.renew(ctx, p); err != nil {
				return err
			}
		}
	})
}

// errFeedGap: the next number of a feed is missing, so the allotment must be adopted.
var errFeedGap = errors.New("the next change is missing: the allotment must be adopted")

// feedTo is applyFeed for those who do not wait for adopts: it returns AdoptNeeded or errFeedGap.
func (v *Inventory) feedTo(ctx context.Context, p store.Place, number int64) error {
	for {
		counters, err := v.redis.Counters(ctx, []store.Place{p})
		if err != nil {
			return err
		}
		if counters[0].Feed >= number {
			return v.forgetFeed(ctx, p, counters[0].Epoch, counters[0].Feed)
		}
		if err := v.applyNext(ctx, p, counters[0].Feed); err != nil {
			return err
		}
	}
}

// applyNext applies the changes after the last one that Redis knows.
func (v *Inventory) applyNext(ctx context.Context, p store.Place, last int64) error {
	changes, err := v.ledger.Changes(ctx, p.Allotment, last, feedBatch)
	if err != nil {
		return err
	}
	if len(changes) == 0 || changes[0].Number != last+1 {
		return v.missing(ctx, p, last)
	}
	_, applied, err := v.redis.Apply(ctx, p, changes)
	if err != nil {
		return err
	}
	failpoint.Hit("feed-after-apply")
	if applied <= last {
		return v.missing(ctx, p, applied)
	}
	return nil
}

// missing deals with a next number that the ledger does not have: somebody has just applied and
// deleted it, or the allotment must be adopted.
func (v *Inventory) missing(ctx context.Context, p store.Place, last int64) error {
	counters, err := v.redis.Counters(ctx, []store.Place{p})
	if err != nil || counters[0].Feed > last {
		return err
	}
	return errFeedGap
}

// forgetFeed deletes what is applied. A server under another epoch than the ledger's has no say.
func (v *Inventory) forgetFeed(ctx context.Context, p store.Place, epoch, number int64) error {
	err := v.ledger.Applied(ctx, p.Allotment, epoch, number)
	if errors.Is(err, store.ErrStale) {
		return nil
	}
	return err
}
