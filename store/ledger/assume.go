package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
)

// assume decides without having read anything, on what is so of nearly all confirms: their holds have no outcome, the epoch
// is that of the begin, there is room, and the order has not bought. Whatever is written on this is conditional on all of it,
// under the same row locks, so it takes one round trip instead of two. It returns false if not every line would be sold.
func (s *settlement) assume() bool {
	s.book, s.assumed = newBook(), true
	for _, c := range s.confirms {
		for _, line := range c.Lines {
			if s.book.allotments[line.ID.Allotment] == nil {
				s.book.allotments[line.ID.Allotment] = &balance{capacity: store.MaxCapacity, epoch: line.Epoch}
			}
		}
	}
	if s.decide() != nil {
		return false
	}
	for _, verdicts := range s.verdicts {
		if slices.ContainsFunc(verdicts, func(v store.Verdict) bool { return v.Kind != store.VerdictSold }) {
			return false
		}
	}
	return true
}

// writeAssumed locks the allotments as read does, and writes. An outcome that is there, another epoch, too little room or
// an order that has bought fails a statement, and the COMMIT behind it.
func (s *settlement) writeAssumed(b *pgx.Batch) {
	b.Queue(lockBalances, slices.Sorted(maps.Keys(s.book.allotments)))
	s.write(b)
}

// decidedAt notes when the server wrote the sales that were assumed.
func (s *settlement) decidedAt(row pgx.Row) error {
	var at time.Time
	if err := row.Scan(nil, &at); err != nil || !s.assumed {
		return err
	}
	for _, verdicts := range s.verdicts {
		for i := range verdicts {
			verdicts[i].Sale.SoldTime = at.UTC()
		}
	}
	return nil
}
