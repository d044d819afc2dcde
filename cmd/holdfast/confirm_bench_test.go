package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store/ledger"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

const (
	confirmCallers = 64
	confirmHolds   = 100 // of a caller in a measurement, of which there are three
)

// BenchmarkConfirm is ConfirmHold through gRPC over loopback, of holds of one allotment that were made before the clock
// started, on stores that keep what they are told: Postgres flushes each commit to disk, Redis each second.
//
// callers=64: x-baseline is how many times as many confirms a second that makes as one transaction a sale on 16
// connections makes sales (storetest.UsualSales), measured in turn with it on the same Postgres.
// Targets: x-baseline of at least 4, p99-ms of at most 100.
//
// alone: one caller at a time. Targets: at most 2 round trips to Redis and 1 transaction a confirm, by the stores' own
// counts (TestLoneConfirm).
func BenchmarkConfirm(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent)) // as main does
	b.Run(fmt.Sprintf("callers=%d", confirmCallers), func(b *testing.B) {
		stores := startStores(b)
		checkout, _ := stores.serve(b)
		confirmAll(b, checkout, makeHolds(b, checkout, "warm", 10)) // opens the connections
		var rate, baseline float64
		var times []time.Duration
		for n := 0; b.Loop(); n++ {
			for round := range 3 {
				holds := makeHolds(b, checkout, fmt.Sprint(n, "-", round), confirmHolds)
				baseline += storetest.UsualSales(b, stores.postgresURL)
				start := time.Now()
				times = append(times, confirmAll(b, checkout, holds)...)
				rate += confirmCallers * confirmHolds / time.Since(start).Seconds()
			}
		}
		slices.Sort(times)
		b.ReportMetric(rate/float64(3*b.N), "confirms/s")
		b.ReportMetric(baseline/float64(3*b.N), "baseline-sales/s")
		b.ReportMetric(rate/baseline, "x-baseline")
		b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
		b.ReportMetric(0, "ns/op")
	})
	b.Run("alone", func(b *testing.B) {
		stores := startStores(b)
		var sum lone
		for n := 0; b.Loop(); n++ {
			c := stores.confirmAlone(b, fmt.Sprint(n), 300)
			sum.took, sum.roundTrips, sum.transactions = sum.took+c.took, sum.roundTrips+c.roundTrips, sum.transactions+c.transactions
		}
		b.ReportMetric(float64(sum.took.Microseconds())/1000/float64(b.N), "ms/confirm")
		b.ReportMetric(sum.roundTrips/float64(b.N), "redis-round-trips/confirm")
		b.ReportMetric(sum.transactions/float64(b.N), "transactions/confirm")
		b.ReportMetric(0, "ns/op")
	})
}

// TestLoneConfirm: a confirm that meets no other costs two round trips to Redis and one transaction.
func TestLoneConfirm(t *testing.T) {
	t.Parallel()
	c := startStores(t).confirmAlone(t, "test", confirmCallers)
	if c.roundTrips > 2.5 || c.transactions > 1.5 { // the loops' share is only about known
		t.Errorf("%.2f round trips to Redis and %.2f transactions a confirm, want 2 and 1", c.roundTrips, c.transactions)
	}
}

// ownStores are a Redis and a migrated Postgres of a test's own.
type ownStores struct{ redisURL, postgresURL string }

func startStores(t testing.TB) *ownStores {
	t.Helper()
	holds := storetest.NewRedis(t, local.RedisOptions{Persist: true})
	sales := storetest.NewPostgres(t, local.PostgresOptions{Fsync: true})
	s := &ownStores{redisURL: holds.URL(), postgresURL: sales.URL("bench")}
	if err := sales.CreateDatabase(t.Context(), "bench"); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Migrate(t.Context(), s.postgresURL); err != nil {
		t.Fatal(err)
	}
	return s
}

// serve runs the service, as main does, until the test ends or stop is called.
func (s *ownStores) serve(t testing.TB) (checkout pb.InventoryServiceClient, stop func()) {
	t.Helper()
	app := newApp(appOptions{
		grpcAddr: "127.0.0.1:0", httpAddr: "127.0.0.1:0", stopTimeout: time.Second, log: slog.New(slog.DiscardHandler),
		open: func(ctx context.Context, i instruments) (*backend, error) {
			return openStores(ctx, storeSettings{redisURL: s.redisURL, postgresURL: s.postgresURL, maxConns: 8, retention: time.Hour}, i)
		},
	})
	if err := app.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(app.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = conn.Close()
		if err := app.Close(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	t.Cleanup(stop)
	// The same each time: a repeat finds what there is.
	insist(t, func() error {
		_, err := pb.NewAdminServiceClient(conn).CreateAllotment(t.Context(), &pb.CreateAllotmentRequest{
			Allotment: &pb.Allotment{Id: "show", Capacity: 1_000_000_000},
		})
		return err
	})
	return pb.NewInventoryServiceClient(conn), stop
}

// makeHolds takes so many holds for each caller, and returns their ids. round makes them others than those of other rounds.
func makeHolds(t testing.TB, checkout pb.InventoryServiceClient, round string, each int) []string {
	t.Helper()
	ids := make([]string, confirmCallers*each)
	byCallers(len(ids), func(i int) {
		insist(t, func() error {
			r, err := checkout.CreateHold(t.Context(), &pb.CreateHoldRequest{
				AllotmentId: "show", BuyerId: fmt.Sprint("buyer-", round, "-", i), RequestId: "request", Quantity: 1,
			})
			ids[i] = r.GetHold().GetId()
			return err
		})
	})
	return ids
}

// confirmAll confirms holds under orders of their own, and returns how long each took.
func confirmAll(t testing.TB, checkout pb.InventoryServiceClient, holds []string) []time.Duration {
	t.Helper()
	times := make([]time.Duration, len(holds))
	byCallers(len(holds), func(i int) { times[i] = confirmOne(t, checkout, holds[i]) })
	return times
}

func confirmOne(t testing.TB, checkout pb.InventoryServiceClient, hold string) time.Duration {
	start := time.Now()
	insist(t, func() error {
		_, err := checkout.ConfirmHold(t.Context(), &pb.ConfirmHoldRequest{HoldId: hold, OrderId: "order-" + hold})
		return err
	})
	return time.Since(start)
}

// insist repeats a call that meets trouble, as a caller would: other work on the machine may hold the stores up.
func insist(t testing.TB, call func() error) {
	for range 100 {
		err := call()
		if err == nil {
			return
		}
		if status.Code(err) != codes.Unavailable && status.Code(err) != codes.ResourceExhausted {
			t.Error(err)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("still in trouble after 100 calls")
}

// byCallers runs f for 0..n-1, each caller one after another.
func byCallers(n int, f func(i int)) {
	var next atomic.Int64
	storetest.Together(confirmCallers, func(int) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			f(i)
		}
	})
}

// lone is what one confirm took.
type lone struct {
	took                     time.Duration
	roundTrips, transactions float64
}

// confirmAlone confirms holds one after another. What the service does for itself in the same time, seen in a run in which
// nobody calls it, is taken off what the stores counted. A service is stopped before its transactions are counted: until
// then its sessions keep some to themselves.
func (s *ownStores) confirmAlone(t testing.TB, round string, n int) lone {
	t.Helper()
	checkout, stop := s.serve(t)
	holds := makeHolds(t, checkout, round, (n+confirmCallers-1)/confirmCallers)[:n]
	stop()

	before := s.counts(t)
	checkout, stop = s.serve(t)
	start := time.Now()
	for _, hold := range holds {
		confirmOne(t, checkout, hold)
	}
	took := time.Since(start)
	stop()
	after := s.counts(t)
	_, stop = s.serve(t)
	time.Sleep(took) // not a wait: what is counted is what happens in this time
	stop()
	idle := s.counts(t)
	per := func(count func(counts) float64) float64 {
		return (count(after) - count(before) - (count(idle) - count(after))) / float64(n)
	}
	return lone{
		took:         took / time.Duration(n),
		roundTrips:   per(func(c counts) float64 { return c.scripts }),
		transactions: per(func(c counts) float64 { return c.commits }),
	}
}

// counts are what the stores have counted: calls of scripts, each of which is a round trip when one comes at a time,
// and transactions.
type counts struct{ scripts, commits float64 }

func (s *ownStores) counts(t testing.TB) (c counts) {
	t.Helper()
	options, err := redis.ParseURL(s.redisURL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	info, err := client.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
	if _, err := fmt.Sscanf(rest, "%g,", &c.scripts); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), s.postgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	storetest.Eventually(t, time.Minute, func() error { // a session counts its last transactions when it ends
		var sessions int
		err := conn.QueryRow(t.Context(), `select count(*) from pg_stat_activity
			where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`).Scan(&sessions)
		if err == nil && sessions > 0 {
			err = fmt.Errorf("%d sessions are still there", sessions)
		}
		return err
	})
	err = conn.QueryRow(t.Context(), "select xact_commit from pg_stat_database where datname = current_database()").Scan(&c.commits)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
