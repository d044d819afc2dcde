package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

const benchCallers = 64

// BenchmarkSettle is 64 callers that buy from one allotment, through the ledger and, as a baseline, with what is the
// usual way: one transaction a sale, a conditional UPDATE and an INSERT, on 16 connections. Both write to a
// Postgres that flushes each commit to disk.
func BenchmarkSettle(b *testing.B) {
	server := storetest.NewPostgres(b, local.PostgresOptions{Fsync: true})
	for name, run := range map[string]func(*testing.B, string){"ledger": benchLedger, "update+insert": benchBaseline} {
		b.Run(name, func(b *testing.B) {
			database := fmt.Sprintf("bench_%d", time.Now().UnixNano())
			if err := server.CreateDatabase(b.Context(), database); err != nil {
				b.Fatal(err)
			}
			url := server.URL(database)
			if err := Migrate(b.Context(), url); err != nil {
				b.Fatal(err)
			}
			run(b, url)
		})
	}
}

func benchLedger(b *testing.B, url string) {
	f := setupAt(b, url)
	f.create(show, store.MaxCapacity)
	measure(b, func(ctx context.Context, n int) error {
		_, err := f.Settle(ctx, show, single(n, 1))
		return err
	})
	f.wantSold(int64(b.N))
}

func benchBaseline(b *testing.B, url string) {
	f := setupAt(b, url)
	f.create(show, store.MaxCapacity)
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	measure(b, func(ctx context.Context, n int) error {
		l := line(show, n, 1)
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `update allotments set sold = sold + 1
				where id = $1 and epoch = 1 and sold + 1 <= capacity`, show); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `insert into outcomes (hold_id, allotment_id, verdict, kind, buyer_id, request_id, order_id,
				quantity, held, cart, token_epoch, token_sequence, decided_at)
				values ($1, $2, 'SOLD', 'SALE', $3, $4, $5, 1, 1, '', 1, $6, now())`,
				l.ID.String(), show, l.BuyerID, l.RequestID, fmt.Sprintf("order-%d", n), n)
			return err
		})
	})
	f.wantSold(int64(b.N))
}

// measure runs b.N calls from benchCallers callers, and reports the rate and the slowest
// hundredth.
func measure(b *testing.B, call func(ctx context.Context, n int) error) {
	b.Helper()
	times := make([]time.Duration, b.N)
	var next atomic.Int64
	var callers sync.WaitGroup
	b.ResetTimer()
	for range benchCallers {
		callers.Go(func() {
			for n := int(next.Add(1)) - 1; n < b.N; n = int(next.Add(1)) - 1 {
				start := time.Now()
				if err := call(b.Context(), n); err != nil {
					b.Error(err)
					return
				}
				times[n] = time.Since(start)
			}
		})
	}
	callers.Wait()
	b.StopTimer()
	report(b, times)
}

func report(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sales/s")
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}
