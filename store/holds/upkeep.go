package holds

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

const dueScript = "due"

// lookTimeout is how long a look waits for an answer. Only so many look at a time, and those who look at what is on a server
// that has just gone silent keep the looks at all others waiting.
const lookTimeout = 500 * time.Millisecond

// Due implements store.Upkeep.
func (s *Store) Due(ctx context.Context, places []store.Place, limit int) ([]store.Work, error) {
	ctx, cancel := context.WithTimeout(ctx, max(lookTimeout, s.timeout))
	defer cancel()
	o := &op{script: dueScript, places: places, items: len(places), bare: true, head: []any{limit}}
	if err := s.do(ctx, laneUpkeep, o); err != nil {
		return nil, err
	}
	work := make([]store.Work, len(places))
	for i, p := range places {
		r := o.reply[i]
		work[i] = store.Work{
			Counters: o.facts[i].counters(p, o.now), Server: o.facts[i].server,
			Lapsed: tagged(p, r.list(1)), Confirms: tagged(p, r.list(2)), Ended: tagged(p, r.list(3)), Remembered: r.int(4), Pending: r.int(5),
		}
	}
	return work, nil
}

func tagged(p store.Place, tags []any) []store.HoldID {
	ids := make([]store.HoldID, 0, len(tags))
	for _, tag := range tags {
		if text, ok := tag.(string); ok {
			ids = append(ids, store.HoldID{Allotment: p.Allotment, Tag: unpackTag(text)})
		}
	}
	return ids
}

// releaseTags releases holds that stand in a request's way. Requests that meet the same holds
// share one call.
func (s *Store) releaseTags(ctx context.Context, p store.Place, tags []any) error {
	shared := s.releasing.DoChan(p.Allotment, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		defer cancel()
		_, err := s.release(ctx, laneCaller, p, tagged(p, tags), store.LapseByNeed)
		return nil, err
	})
	select {
	case r := <-shared:
		return r.Err
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

// Release implements store.Upkeep.
func (s *Store) Release(ctx context.Context, p store.Place, ids []store.HoldID, by store.LapseDriver) (int, error) {
	return s.release(ctx, laneUpkeep, p, ids, by)
}

func (s *Store) release(ctx context.Context, l lane, p store.Place, ids []store.HoldID, by store.LapseDriver) (int, error) {
	o := holdsOp("release", p, ids)
	if err := s.do(ctx, l, o); err != nil {
		return 0, err
	}
	released := 0
	for i, result := range o.reply {
		switch result.status() {
		case statusOK:
			released++
			s.metrics.lapsed(ctx, by, time.Duration(result.int(1))*time.Millisecond)
		case statusDamaged:
			s.log.Error("a lapsed hold's record is damaged: its units stay taken until the allotment is adopted",
				slog.String("hold", ids[i].String()))
			s.damaged(p)
		}
	}
	return released, nil
}

// Purge implements store.Upkeep.
func (s *Store) Purge(ctx context.Context, p store.Place, ids []store.HoldID) error {
	return s.do(ctx, laneUpkeep, holdsOp("purge", p, ids))
}

// Apply implements store.Upkeep.
func (s *Store) Apply(ctx context.Context, p store.Place, changes []store.Change) (epoch, feed int64, err error) {
	o := &op{
		script: "feed", places: []store.Place{p}, items: len(changes),
		keys: func(keys []string) []string {
			for _, c := range changes {
				keys = append(keys, holdsKey(p, store.NewBuyerKey(p.Allotment, c.BuyerID).Bucket(p.Buckets)))
			}
			return keys
		},
		args: func(args []any, number func(store.Place) int) []any {
			for _, c := range changes {
				r, buyer := c.Rules, store.NewBuyerKey(p.Allotment, c.BuyerID)
				args = append(args, number(p), c.Number, int(c.Kind), c.Quantity, buyer[:], int(r.State),
					int(r.LateConfirm), r.HoldDuration.Milliseconds(), r.MaxHoldDuration.Milliseconds(), r.MaxPerHold,
					r.MaxPerBuyer, millis(r.OpensAt), millis(r.ClosesAt))
			}
			return args
		},
	}
	if err := s.do(ctx, laneCaller, o); err != nil {
		return 0, 0, err
	}
	return o.facts[0].epoch, o.facts[0].feed, nil
}

// leaveBuckets bounds the keys that one call removes.
const leaveBuckets = 512

// Leave implements store.Upkeep.
func (s *Store) Leave(ctx context.Context, p store.Place, epoch, feed int64) error {
	for first := 0; first < p.Buckets; first += leaveBuckets {
		if err := s.leave(ctx, p, epoch, feed, first, min(first+leaveBuckets, p.Buckets)); err != nil {
			return err
		}
	}
	if err := s.hint(ctx, p.Allotment, "unlink").Err(); err != nil {
		return unavailable(err)
	}
	return nil
}

func (s *Store) leave(ctx context.Context, p store.Place, epoch, feed int64, first, last int) error {
	all := 0
	if last == p.Buckets {
		all = 1
	}
	_, _, err := s.step(ctx, p, &op{
		script: "leave", head: []any{epoch, feed, all},
		keys: func(keys []string) []string {
			for i := first; i < last; i++ {
				keys = append(keys, holdsKey(p, i))
			}
			return keys
		},
	})
	return err
}

// OnDamage implements store.Upkeep.
func (s *Store) OnDamage(f func(store.Place)) { s.onDamage.Store(&f) }

func (s *Store) damaged(p store.Place) {
	if f := s.onDamage.Load(); f != nil {
		(*f)(p)
	}
}
