package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	selectAllotment  = `select ` + allotmentColumns + ` from allotments where id = $1::text`
	lockAllotment    = selectAllotment + ` for update`
	selectAllotments = `select ` + allotmentColumns + ` from allotments where id > $1::text order by id limit $2::bigint`
	// Each part by its own index: of all rows there may be millions, nearly all of them retired long ago.
	selectInRedis = `with retired as materialized (select id from allotments where retired_at >= $2::timestamptz),
			next as ((select id from allotments where id > $1::text and retired_at is null order by id limit $3::bigint)
				union all (select id from retired where id > $1::text order by id limit $3::bigint) order by id limit $3::bigint)
		select ` + allotmentColumns + ` from allotments where id in (select id from next) order by id`
	selectCreated   = `select created::text from allotments where id = $1::text`
	insertAllotment = `insert into allotments (id, group_id, buckets, capacity, state, late_confirm, hold_duration_ms,
			longest_hold_ms, max_hold_duration_ms, max_per_hold, max_per_buyer, opens_at, closes_at, created)
		values ($1::text, $2::text, $3::integer, $4::bigint, $5::smallint, $6::smallint, $7::bigint, $7::bigint, $8::bigint, $9::bigint,
			$10::bigint, $11::timestamptz, $12::timestamptz, $13::text::jsonb)
		on conflict (id) do nothing`
	selectAdjustment = `select delta, feed from adjustments where allotment_id = $1::text and request_id = $2::text`
)

// creation is what an allotment was first asked to be: later changes must not make a repeat of the
// request look like another one. The number of buckets is not asked for, it follows from the capacity.
type creation struct {
	Group    string    `json:"group"`
	Capacity int64     `json:"capacity"`
	Rules    rulesText `json:"rules"`
}

// CreateAllotment implements store.Allotments.
func (l *Ledger) CreateAllotment(ctx context.Context, a store.Allotment) (store.Allotment, error) {
	asked := creation{Group: a.Group, Capacity: a.Capacity, Rules: encodeRules(a.Rules)}
	var row store.Allotment
	var created string
	u := unit{
		// The insert waits for another one of this id under way, and does nothing if that one wins; the statements after it
		// see the winner. Its lock makes our COMMIT wait until it is durable.
		read: func(b *pgx.Batch) {
			r := asked.Rules
			b.Queue(insertAllotment, a.Allotment, a.Group, a.Buckets, a.Capacity, int(r.State), int(r.LateConfirm), r.HoldMS,
				r.MaxHoldMS, r.MaxPerHold, r.MaxPerBuyer, toNull(r.OpensAt), toNull(r.ClosesAt), asJSON(asked))
			b.Queue(lockAllotment, a.Allotment).QueryRow(func(r pgx.Row) error { return scanAllotment(r, &row) })
			b.Queue(selectCreated, a.Allotment).QueryRow(func(r pgx.Row) error { return r.Scan(&created) })
		},
		decide: func() error { return sameCreation(a.Allotment, asked, created) },
		write:  func(*pgx.Batch) {},
	}
	if err := l.transact(ctx, l.others, u, slog.String("allotment", a.Allotment)); err != nil {
		return store.Allotment{}, err
	}
	return row, nil
}

func sameCreation(id string, asked creation, created string) error {
	var first creation
	if err := json.Unmarshal([]byte(created), &first); err != nil {
		return fmt.Errorf("allotment %q: created: %w", id, err)
	}
	if field := differs(first, asked); field != "" {
		return &store.Refusal{Reason: store.AllotmentExists, Allotment: id, Field: field}
	}
	return nil
}

// differs names the first field that is not the same.
func differs(a, b creation) string {
	switch {
	case a.Group != b.Group:
		return "group"
	case a.Capacity != b.Capacity:
		return "capacity"
	case a.Rules != b.Rules:
		return "rules"
	}
	return ""
}

// Allotment implements store.Allotments.
func (l *Ledger) Allotment(ctx context.Context, id string) (store.Allotment, error) {
	var found []store.Allotment
	err := l.look(ctx, l.reads, l.opts.CallTimeout, func(b *pgx.Batch) {
		b.Queue(selectAllotment, id).Query(collectAllotments(&found))
	})
	if err != nil {
		return store.Allotment{}, err
	}
	if len(found) == 0 {
		return store.Allotment{}, notFound(id)
	}
	return found[0], nil
}

// ListAllotments implements store.Allotments.
func (l *Ledger) ListAllotments(ctx context.Context, after string, limit int) ([]store.Allotment, error) {
	var found []store.Allotment
	err := l.look(ctx, l.reads, l.opts.CallTimeout, func(b *pgx.Batch) {
		b.Queue(selectAllotments, after, limit).Query(collectAllotments(&found))
	})
	return found, err
}

// InRedis implements store.Adoption.
func (l *Ledger) InRedis(ctx context.Context, since time.Time, after string, limit int) ([]store.Allotment, error) {
	var found []store.Allotment
	err := l.look(ctx, l.background, l.opts.CallTimeout, func(b *pgx.Batch) {
		b.Queue(selectInRedis, after, since, limit).Query(collectAllotments(&found))
	})
	return found, err
}

// Adjustment implements store.Allotments.
func (l *Ledger) Adjustment(ctx context.Context, allotment, request string) (store.Adjustment, bool, error) {
	a := store.Adjustment{Allotment: allotment, RequestID: request}
	var found bool
	err := l.look(ctx, l.reads, l.opts.CallTimeout, func(b *pgx.Batch) {
		b.Queue(selectAdjustment, allotment, request).QueryRow(optional(func(row pgx.Row) error {
			return row.Scan(&a.Delta, &a.Feed)
		}, &found))
	})
	if err != nil || !found {
		return store.Adjustment{}, false, err
	}
	return a, true, nil
}
