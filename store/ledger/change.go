package ledger

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	replaceRules = `update allotments set state = $2::smallint, late_confirm = $3::smallint, hold_duration_ms = $4::bigint,
			max_hold_duration_ms = $5::bigint, max_per_hold = $6::bigint, max_per_buyer = $7::bigint,
			longest_hold_ms = greatest(` + longestHold + `, $4::bigint),
			opens_at = $8::timestamptz, closes_at = $9::timestamptz, version = version + 1, feed = greatest(feed, $10::bigint),
			retired_at = case when $2::smallint = 3 then retired_at end, update_time = clock_timestamp()
		where id = $1::text returning ` + allotmentColumns
	raiseCapacity = `update allotments set capacity = capacity + $2::bigint, version = version + 1,
			feed = greatest(feed, $3::bigint), update_time = clock_timestamp()
		where id = $1::text returning ` + allotmentColumns
	insertGrowth = `insert into adjustments (allotment_id, request_id, delta, feed)
		values ($1::text, $2::text, $3::bigint, $4::bigint)`
)

// locked is the allotment of a unit, its row locked. Numbers of the feed are taken under that lock,
// so they are committed in their order, and have no gap but where one is meant (UpdateRules).
type locked struct {
	row   store.Allotment
	found bool
}

func (u *locked) lock(b *pgx.Batch, id string) {
	*u = locked{}
	b.Queue(lockAllotment, id).QueryRow(optional(u.scan, &u.found))
}

func (u *locked) scan(row pgx.Row) error { return scanAllotment(row, &u.row) }

// UpdateRules implements store.Allotments. A retired allotment that stays CLOSED has nothing in
// Redis that a change could go to: it takes no number. Reopening leaves one number out, so that Redis, if its state has not
// been removed yet, cannot take this change: it lacks what was cancelled or grown since without a number, and has to be adopted.
func (l *Ledger) UpdateRules(ctx context.Context, id string, version int64, r store.Rules) (store.Allotment, error) {
	var a locked
	var number int64
	u := unit{
		read: func(b *pgx.Batch) { a.lock(b, id) },
		decide: func() error {
			if !a.found {
				return notFound(id)
			}
			if a.row.Version != version {
				return &store.Refusal{Reason: store.StaleEtag, Allotment: id, Version: a.row.Version}
			}
			number = rulesNumber(a.row, r)
			return nil
		},
		write: func(b *pgx.Batch) { queueRules(b, &a, r, number) },
		once:  true, // after its own success it would see a stale version
	}
	if err := l.transact(ctx, l.others, u, slog.String("allotment", id)); err != nil {
		return store.Allotment{}, err
	}
	return a.row, nil
}

// rulesNumber is the number of the feed that new rules take; 0: none.
func rulesNumber(row store.Allotment, r store.Rules) int64 {
	switch {
	case !row.Retired:
		return row.Feed + 1
	case r.State == store.StateClosed:
		return 0
	}
	return row.Feed + 2
}

// queueRules writes the rules and, if number is one, their way to Redis.
func queueRules(b *pgx.Batch, a *locked, r store.Rules, number int64) {
	id, t := a.row.Allotment, encodeRules(r)
	b.Queue(replaceRules, id, int(t.State), int(t.LateConfirm), t.HoldMS, t.MaxHoldMS, t.MaxPerHold, t.MaxPerBuyer,
		toNull(t.OpensAt), toNull(t.ClosesAt), number).QueryRow(a.scan)
	if number > 0 {
		queueChange(b, id, store.Change{Number: number, Kind: store.ChangeRules, Rules: r})
	}
}

// Grow implements store.Allotments.
func (l *Ledger) Grow(ctx context.Context, asked store.Adjustment) (store.Allotment, store.Adjustment, error) {
	if asked.Delta <= 0 {
		return store.Allotment{}, store.Adjustment{}, &store.InvalidField{Field: "delta", Problem: "must be positive to grow"}
	}
	u := &growing{asked: asked}
	err := l.transact(ctx, l.others, unit{read: u.read, decide: u.decide, write: u.write},
		slog.String("allotment", asked.Allotment), slog.String("request", asked.RequestID), slog.Int64("delta", asked.Delta))
	if err != nil {
		return store.Allotment{}, store.Adjustment{}, err
	}
	return u.row, u.made, nil
}

type growing struct {
	locked
	asked, made store.Adjustment
	repeated    bool
}

func (u *growing) read(b *pgx.Batch) {
	*u = growing{asked: u.asked, made: u.asked}
	u.lock(b, u.asked.Allotment)
	b.Queue(selectAdjustment, u.asked.Allotment, u.asked.RequestID).QueryRow(optional(func(row pgx.Row) error {
		return row.Scan(&u.made.Delta, &u.made.Feed)
	}, &u.repeated))
}

func (u *growing) decide() error {
	switch {
	case !u.found:
		return notFound(u.asked.Allotment)
	case u.repeated && u.made.Delta != u.asked.Delta:
		return &store.Refusal{Reason: store.RequestMismatch, Allotment: u.asked.Allotment, Field: "delta"}
	case u.repeated:
		return errNothing
	case u.asked.Delta > store.MaxCapacity-u.row.Capacity:
		return &store.InvalidField{Field: "delta", Problem: fmt.Sprintf("capacity is %d and may be at most %d", u.row.Capacity, store.MaxCapacity)}
	}
	if u.made.Feed = 0; !u.row.Retired {
		u.made.Feed = u.row.Feed + 1
	}
	return nil
}

func (u *growing) write(b *pgx.Batch) {
	b.Queue(raiseCapacity, u.asked.Allotment, u.asked.Delta, u.made.Feed).QueryRow(u.scan)
	b.Queue(insertGrowth, u.asked.Allotment, u.asked.RequestID, u.asked.Delta, u.made.Feed)
	if u.made.Feed > 0 {
		queueChange(b, u.asked.Allotment, store.Change{Number: u.made.Feed, Kind: store.ChangeGrow, Quantity: u.asked.Delta})
	}
}
