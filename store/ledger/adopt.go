package ledger

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	raiseEpoch = `update allotments set epoch = $2::bigint, epoch_time = clock_timestamp(), feed = $3::bigint, state = $4::smallint,
			version = case when state = $4::smallint then version else version + 1 end,
			update_time = case when state = $4::smallint then update_time else clock_timestamp() end
		where id = $1::text returning ` + allotmentColumns
	deleteFeed = `delete from feed where allotment_id = $1::text`
	hasFeed    = `select exists (select from feed where allotment_id = $1::text)`
	retire     = `update allotments set retired_at = clock_timestamp() where id = $1::text`
)

// RaiseEpoch implements store.Adoption. The row lock makes it wait for a sale that is being
// written, and the row that it returns counts that sale. A CLOSED allotment stays CLOSED
// where it would be paused: that is the stricter state.
func (l *Ledger) RaiseEpoch(ctx context.Context, id string, seen, redisEpoch, redisFeed int64) (row store.Allotment, wentBack bool, err error) {
	var a locked
	u := unit{
		read: func(b *pgx.Batch) {
			wentBack = false
			a.lock(b, id)
		},
		decide: func() error {
			switch {
			case !a.found:
				return notFound(id)
			case a.row.Retired || a.row.Epoch != seen:
				return store.ErrStale
			}
			return nil
		},
		write: func(b *pgx.Batch) {
			epoch, feed, state := a.row.Epoch, a.row.Feed, a.row.State
			if wentBack = redisEpoch > epoch || redisFeed > feed; wentBack {
				feed, state = max(feed, redisFeed+1), paused(state)
			}
			b.Queue(raiseEpoch, id, max(epoch, redisEpoch)+1, feed, int(state)).QueryRow(a.scan)
			b.Queue(deleteFeed, id)
		},
		once: true, // after its own success the epoch is not the one seen
	}
	if err := l.transact(ctx, l.background, u, slog.String("allotment", id)); err != nil {
		return store.Allotment{}, wentBack, err
	}
	return a.row, wentBack, nil
}

func paused(s store.AllotmentState) store.AllotmentState {
	if s == store.StateClosed {
		return s
	}
	return store.StatePaused
}

// Pause implements store.Adoption. Like every change of rules it takes a number of the feed, so that
// an operator's change before or after it reaches Redis in the same order.
func (l *Ledger) Pause(ctx context.Context, id string, epoch int64) (store.Allotment, error) {
	var a locked
	u := unit{
		read: func(b *pgx.Batch) { a.lock(b, id) },
		decide: func() error {
			switch {
			case !a.found:
				return notFound(id)
			case a.row.Epoch != epoch:
				return store.ErrStale
			case paused(a.row.State) == a.row.State:
				return errNothing
			}
			return nil
		},
		write: func(b *pgx.Batch) {
			r := a.row.Rules
			r.State = store.StatePaused
			queueRules(b, &a, r, a.row.Feed+1)
		},
	}
	if err := l.transact(ctx, l.background, u, slog.String("allotment", id)); err != nil {
		return store.Allotment{}, err
	}
	return a.row, nil
}

// Retire implements store.Adoption. Repeated, it does nothing.
func (l *Ledger) Retire(ctx context.Context, id string, epoch int64) error {
	var a locked
	var pending bool
	return l.transact(ctx, l.background, unit{
		read: func(b *pgx.Batch) {
			a.lock(b, id)
			b.Queue(hasFeed, id).QueryRow(func(row pgx.Row) error { return row.Scan(&pending) })
		},
		decide: func() error {
			switch {
			case !a.found:
				return notFound(id)
			case a.row.Epoch != epoch || a.row.State != store.StateClosed || pending:
				return store.ErrStale
			case a.row.Retired:
				return errNothing
			}
			return nil
		},
		write: func(b *pgx.Batch) { b.Queue(retire, id) },
	})
}
