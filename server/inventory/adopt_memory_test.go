package inventory

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// manyHolds is a Redis with so many live holds of an allotment; it makes each part of a walk when it is asked for.
type manyHolds struct {
	Redis
	holds int
	live  uint64 // bytes of memory in use, at most, of those seen in a few moments
	wrote int
}

func memoryInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (r *manyHolds) look() { r.live = max(r.live, memoryInUse()) }

func (r *manyHolds) SetPlace(context.Context, store.Place) error { return nil }

func (r *manyHolds) Scan(_ context.Context, p store.Place, _ string, buckets []int, _ []string) ([]store.Part, error) {
	r.look()
	parts := make([]store.Part, len(buckets))
	for i, bucket := range buckets {
		for n := bucket; n < r.holds; n += p.Buckets {
			h, o := liveHold(p.Allotment, n), saleOutcome(p.Allotment, n)
			parts[i].Records = append(parts[i].Records, h, store.Record{Hold: outcomeHold(o)})
			parts[i].Buyers = append(parts[i].Buyers, store.BuyerEntry{Key: h.ID.BuyerKey(), Held: 1, Live: 1, Home: h.ID.Tag})
			parts[i].Buyers = append(parts[i].Buyers, store.BuyerEntry{Key: o.ID.BuyerKey(), Sold: 1, Home: o.ID.Tag})
		}
	}
	return parts, nil
}

var longAgo = time.Now().Add(-time.Minute)

func saleOutcome(allotment string, n int) store.Outcome {
	buyer, token := fmt.Sprintf("sold-%08d", n), store.Token{Epoch: 1, Sequence: int64(n + 1)}
	id, order := store.NewHoldID(allotment, buyer, "request-1"), fmt.Sprintf("order-%08d", n)
	return store.Outcome{
		ID: id, BuyerID: buyer, RequestID: "request-1", OrderID: order, Quantity: 1, Held: 1, CreateTime: longAgo, DecidedAt: longAgo,
		Verdict: store.Verdict{Kind: store.VerdictSold, Token: token, Sale: store.Sale{ID: id, OrderID: order, BuyerID: buyer, Quantity: 1}},
	}
}

func liveHold(allotment string, n int) store.Record {
	buyer := fmt.Sprintf("buyer-%08d", n)
	return store.Record{Hold: store.Hold{
		ID: store.NewHoldID(allotment, buyer, "request-1"), State: store.Held, Quantity: 1, BuyerID: buyer, RequestID: "request-1",
		Token: store.Token{Epoch: 1, Sequence: int64(n + 1)}, CreateTime: time.Now(), ExpireTime: time.Now().Add(time.Minute),
	}}
}

func (r *manyHolds) AdoptReset(context.Context, store.Place, string) error { r.look(); return nil }

func (r *manyHolds) AdoptKeep(context.Context, store.Place, string, []store.Kept) error { return nil }

func (r *manyHolds) AdoptWrite(_ context.Context, _ store.Place, _ string, records []store.Record, _ []store.BuyerEntry) error {
	r.wrote += len(records)
	return nil
}

func (r *manyHolds) AdoptEnd(context.Context, store.Allotment, string, store.Counters, int64) error {
	r.look()
	return nil
}

// manySales is a ledger with so many sales of an allotment.
type manySales struct {
	Ledger
	row         store.Allotment
	sales, read int
}

func (l *manySales) Allotment(context.Context, string) (store.Allotment, error) { return l.row, nil }

func (l *manySales) RaiseEpoch(context.Context, string, int64, int64, int64) (store.Allotment, bool, error) {
	return l.row, false, nil
}

func (l *manySales) RecentOutcomes(_ context.Context, id string, _ time.Time, after string, limit int) ([]store.Outcome, error) {
	var page []store.Outcome
	for ; l.read < l.sales && len(page) < limit; l.read++ {
		page = append(page, saleOutcome(id, l.read))
	}
	return page, nil
}

func (l *manySales) Outcomes(context.Context, string, []string) (map[string]store.Outcome, error) {
	return nil, nil
}

func (l *manySales) BuyerTotals(_ context.Context, _ string, _ int64, f func(string, int64) error) error {
	for n := range l.sales {
		if err := f(fmt.Sprintf("sold-%08d", n), 1); err != nil {
			return err
		}
	}
	return nil
}

// TestAdoptMemory: an adopt takes some memory for each hold and each recent sale, and no more than this; docs/design.md tells.
func TestAdoptMemory(t *testing.T) {
	const size, most = 10_000, 1200 // bytes for a live hold and a sale
	for name, found := range map[string]int{"Redis restarted": size, "Redis is empty": 0} {
		p := store.Place{Allotment: "concert", Group: "concert", Buckets: store.BucketsFor(4 * size)}
		row := store.Allotment{Place: p, Capacity: 4 * size, Sold: size, Epoch: 2, LongestHold: time.Hour}
		redis := &manyHolds{holds: found}
		v := &Inventory{redis: redis, o: Options{Background: &manySales{row: row, sales: size}, Retention: time.Hour}}
		r := &rebuild{v: v, row: row, claim: "claim", past: store.Past{Epoch: 1, Now: time.Now()}}
		before := memoryInUse()
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r.plan.live != found || redis.wrote != size {
			t.Errorf("%s: %d live holds, %d records written, want %d and %d", name, r.plan.live, redis.wrote, found, size)
		}
		if each := (redis.live - before) / size; each > most {
			t.Errorf("%s: %d bytes for each hold and sale, want at most %d", name, each, most)
		} else {
			t.Logf("%s: %d bytes for each hold and sale", name, each)
		}
	}
}
