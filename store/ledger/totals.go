package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	// selectRecent reads in the order of outcomes_by_time, so that each page costs what it holds: in the order of the hold ids,
	// each would sort all that are recent, or pass over all that are not.
	selectRecent = `select ` + outcomeColumns + ` from outcomes
		where allotment_id = $1::text and decided_at >= $2::timestamptz and (decided_at, hold_id) > ($2::timestamptz, $3::text)
		order by decided_at, hold_id limit $4::bigint`
	selectTotals = `select o.buyer_id, (sum(o.quantity) - coalesce(sum(c.quantity), 0))::bigint
		from outcomes o
		left join (select hold_id, sum(quantity) as quantity from cancellations
			where hold_id > $1::text || '.' and hold_id < $1::text || '/' and feed <= $2::bigint
			group by hold_id) c on c.hold_id = o.hold_id
		where o.allotment_id = $1::text and o.verdict = 'SOLD' and o.kind = 'SALE'
		group by o.buyer_id
		having sum(o.quantity) > coalesce(sum(c.quantity), 0)
		order by o.buyer_id`
)

// RecentOutcomes implements store.Adoption.
func (l *Ledger) RecentOutcomes(ctx context.Context, allotment string, since time.Time, after string, limit int) ([]store.Outcome, error) {
	var found []store.Outcome
	err := l.look(ctx, l.background, l.opts.ScanTimeout, func(b *pgx.Batch) {
		b.Queue(selectRecent, allotment, since, after, limit).Query(collectOutcomes(&found))
	})
	return found, err
}

// BuyerTotals implements store.Adoption. It reads all totals before the first call of f: f may take
// as long as it likes without holding a transaction open. Buyers with nothing left are left out.
func (l *Ledger) BuyerTotals(ctx context.Context, allotment string, feed int64, f func(buyer string, sold int64) error) error {
	var buyers []string
	var sold []int64
	err := l.look(ctx, l.scans, l.opts.ScanTimeout, func(b *pgx.Batch) {
		b.Queue(selectTotals, allotment, feed).Query(func(rows pgx.Rows) error {
			buyers, sold = nil, nil
			var buyer string
			var units int64
			_, err := pgx.ForEachRow(rows, []any{&buyer, &units}, func() error {
				buyers, sold = append(buyers, buyer), append(sold, units)
				return nil
			})
			return err
		})
	})
	if err != nil {
		return err
	}
	for i, buyer := range buyers {
		if err := f(buyer, sold[i]); err != nil {
			return err
		}
	}
	return nil
}
