package ledger

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	insertChange = `insert into feed (allotment_id, number, kind, quantity, buyer_id, rules)
		values ($1::text, $2::bigint, $3::smallint, $4::bigint, $5::text, $6::text::jsonb)`
	selectChanges = `select number, kind, quantity, buyer_id, coalesce(rules, 'null')::text from feed
		where allotment_id = $1::text and number > $2::bigint order by number limit $3::bigint`
	selectPending = `select distinct allotment_id from feed where allotment_id > $1::text order by allotment_id limit $2::bigint`
	deleteChanges = `delete from feed where allotment_id = $1::text and number <= $2::bigint`
)

// queueChange writes a row of the feed. Its number is the allotment's, raised under the row lock.
func queueChange(b *pgx.Batch, allotment string, c store.Change) {
	var rules *string
	if c.Kind == store.ChangeRules {
		text := asJSON(encodeRules(c.Rules))
		rules = &text
	}
	b.Queue(insertChange, allotment, c.Number, int(c.Kind), c.Quantity, c.BuyerID, rules)
}

// Pending implements store.Feed.
func (l *Ledger) Pending(ctx context.Context, after string, limit int) ([]string, error) {
	var ids []string
	err := l.look(ctx, l.background, l.opts.CallTimeout, func(b *pgx.Batch) {
		b.Queue(selectPending, after, limit).Query(func(rows pgx.Rows) (err error) {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	})
	return ids, err
}

// Changes implements store.Feed. It may be called to apply one's own change at once, so it uses the
// connections that its view reads with.
func (l *Ledger) Changes(ctx context.Context, allotment string, after int64, limit int) ([]store.Change, error) {
	var changes []store.Change
	err := l.look(ctx, l.reads, l.opts.CallTimeout, func(b *pgx.Batch) {
		b.Queue(selectChanges, allotment, after, limit).Query(func(rows pgx.Rows) (err error) {
			changes, err = pgx.CollectRows(rows, scanChange)
			return err
		})
	})
	return changes, err
}

func scanChange(row pgx.CollectableRow) (store.Change, error) {
	var c store.Change
	var rules string
	if err := row.Scan(&c.Number, &c.Kind, &c.Quantity, &c.BuyerID, &rules); err != nil {
		return c, err
	}
	if c.Kind != store.ChangeRules {
		return c, nil
	}
	var text rulesText
	if err := json.Unmarshal([]byte(rules), &text); err != nil {
		return c, fmt.Errorf("feed number %d: rules: %w", c.Number, err)
	}
	c.Rules = text.rules()
	return c, nil
}

// Applied implements store.Feed. A number above the allotment's is ErrStale too: the ledger has gone
// back in time, and its rows are not those that were applied.
func (l *Ledger) Applied(ctx context.Context, allotment string, epoch, number int64) error {
	var a locked
	return l.transact(ctx, l.reads, unit{
		read: func(b *pgx.Batch) { a.lock(b, allotment) },
		decide: func() error {
			switch {
			case !a.found:
				return notFound(allotment)
			case a.row.Epoch != epoch || number > a.row.Feed:
				return store.ErrStale
			}
			return nil
		},
		write: func(b *pgx.Batch) { b.Queue(deleteChanges, allotment, number) },
	})
}
