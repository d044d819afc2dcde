package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

const stepSales = 20_000 // in a measurement, of which there are three

// BenchmarkStep is the ledger step alone: writers that each settle groups of confirms, one group a transaction, all on one
// allotment. Four writers with groups of 16 are as four replicas, one with groups of 128 is as a replica with a full
// lane. x-baseline is how many times as many sales a second that makes as one transaction a sale on 16 connections
// (storetest.UsualSales), measured in turn with it on the same server, which flushes each commit to disk.
//
// Target: x-baseline of at least 8 with 4 writers.
func BenchmarkStep(b *testing.B) {
	server := storetest.NewPostgres(b, local.PostgresOptions{Fsync: true})
	for _, load := range []struct{ writers, group int }{{4, 16}, {1, 128}} {
		b.Run(fmt.Sprintf("writers=%d/group=%d", load.writers, load.group), func(b *testing.B) {
			f := benchFixture(b, server)
			f.settleAll(confirms(b, 1_000), load.writers, load.group) // opens the connections
			sold, rate, baseline := 1_000, 0.0, 0.0
			for b.Loop() {
				for range 3 {
					baseline += storetest.UsualSales(b, f.url)
					todo := confirms(b, stepSales)
					start := time.Now()
					f.settleAll(todo, load.writers, load.group)
					rate += stepSales / time.Since(start).Seconds()
					sold += stepSales
				}
			}
			f.wantSold(int64(sold))
			b.ReportMetric(rate/float64(3*b.N), "sales/s")
			b.ReportMetric(baseline/float64(3*b.N), "baseline-sales/s")
			b.ReportMetric(rate/baseline, "x-baseline")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func benchFixture(b *testing.B, server *local.Postgres) *fixture {
	b.Helper()
	database := fmt.Sprintf("bench_%d", time.Now().UnixNano())
	must(b, server.CreateDatabase(b.Context(), database))
	url := server.URL(database)
	must(b, Migrate(b.Context(), url))
	f := setupAt(b, url)
	f.create(show, store.MaxCapacity)
	return f
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// confirms are of n new holds, with ids as long and as random as those of buyers are.
func confirms(b *testing.B, n int) []*settling {
	items := make([]*settling, n)
	for i := range items {
		l := line(show, i, 1)
		l.BuyerID, l.RequestID, l.Cart = uuid(), uuid(), ""
		l.ID = store.NewHoldID(show, l.BuyerID, l.RequestID)
		items[i] = &settling{ctx: b.Context(), confirm: order(uuid(), l), done: make(chan settled, 1)}
	}
	return items
}

func uuid() string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", rand.Uint32(), rand.Uint64()>>16)
}

// settleAll settles items in groups, by so many writers at once. Each must become a sale.
func (f *fixture) settleAll(items []*settling, writers, group int) {
	var all sync.WaitGroup
	for n := range writers {
		mine := items[n*len(items)/writers : (n+1)*len(items)/writers]
		all.Go(func() {
			for together := range slices.Chunk(mine, group) {
				f.settleLane(show, together)
			}
		})
	}
	all.Wait()
	for _, s := range items {
		if r := <-s.done; r.err != nil || r.verdicts[0].Kind != store.VerdictSold {
			f.t.Fatalf("%s: %v, %v", s.confirm.OrderID, r.verdicts, r.err)
		}
	}
}
