package ledger

import (
	"context"
	"crypto/rand"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	erasedPrefix = "erased-"
	eraseRows    = 500 // in one transaction, so that nobody waits long for a row

	// In one statement: between two, another erasure of the buyer could end and delete the row. The update changes nothing,
	// but a row that is there is locked by it, and returned.
	insertErasure = `insert into erasures (buyer_id, marker) values ($1::text, $2::text)
		on conflict (buyer_id) do update set buyer_id = excluded.buyer_id returning marker`
	deleteErasure = `delete from erasures where buyer_id = $1::text`
	eraseOutcomes = `update outcomes o set buyer_id = $2::text from (
			select hold_id from outcomes where buyer_id = $1::text order by hold_id limit $3::bigint for update) few
		where o.hold_id = few.hold_id`
	eraseFeed = `update feed f set buyer_id = $2::text from (
			select allotment_id, number from feed where buyer_id = $1::text
			order by allotment_id, number limit $3::bigint for update) few
		where f.allotment_id = few.allotment_id and f.number = few.number`
)

// EraseBuyer replaces a buyer's id by a random marker, the same in all rows of that buyer, and
// returns how many rows it changed. Sales keep their count, request and order ids stay. Interrupted,
// it goes on with the same marker when called again; a buyer who comes back later is a new one.
//
// A hold id stays as it is. It cannot be turned back into a buyer's id, but who knows that id and a
// request id can recompute it.
func (l *Ledger) EraseBuyer(ctx context.Context, buyer string) (int64, error) {
	if buyer == "" {
		return 0, &store.InvalidField{Field: "buyer_id", Problem: "must not be empty"}
	}
	ctx, cancel := l.within(ctx, l.opts.ScanTimeout)
	defer cancel()
	marker, err := l.beginErasure(ctx, buyer)
	if err != nil {
		return 0, err
	}
	var total int64
	for {
		changed, err := l.eraseSome(ctx, buyer, marker)
		total += changed
		if err != nil {
			return total, err
		}
		if changed == 0 {
			break
		}
	}
	return total, l.transact(ctx, l.background, unit{
		read:   func(*pgx.Batch) {},
		decide: func() error { return nil },
		write:  func(b *pgx.Batch) { b.Queue(deleteErasure, buyer) },
	})
}

// beginErasure settles the marker, which two erasures at once then share.
func (l *Ledger) beginErasure(ctx context.Context, buyer string) (string, error) {
	var marker string
	err := l.transact(ctx, l.background, unit{
		read: func(b *pgx.Batch) {
			b.Queue(insertErasure, buyer, erasedPrefix+rand.Text()).QueryRow(func(row pgx.Row) error { return row.Scan(&marker) })
		},
		decide: func() error { return nil },
		write:  func(*pgx.Batch) {},
	})
	return marker, err
}

func (l *Ledger) eraseSome(ctx context.Context, buyer, marker string) (int64, error) {
	var changed int64
	err := l.transact(ctx, l.background, unit{
		read:   func(*pgx.Batch) { changed = 0 },
		decide: func() error { return nil },
		write: func(b *pgx.Batch) {
			b.Queue(eraseOutcomes, buyer, marker, eraseRows).Exec(addTo(&changed))
			b.Queue(eraseFeed, buyer, marker, eraseRows).Exec(addTo(&changed))
		},
	})
	if err != nil {
		return 0, err
	}
	return changed, nil
}

// addTo counts the rows that a statement changed.
func addTo(total *int64) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		*total += tag.RowsAffected()
		return nil
	}
}
