package inventory_test

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store/holds"
	"github.com/holdfast-inventory/holdfast/store/ledger"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// patience bounds waits for what must happen; the machine may be busy.
const patience = 20 * time.Second

// world is some replicas of the service on one Redis and one Postgres, and a clock that the test moves.
type world struct {
	t        testing.TB
	redisURL string
	rawURL   string // of one Redis, if redisURL is of several
	durable  holds.Durability
	pgURL    string
	options  func(*inventory.Options)
	timeout  time.Duration
	lockTime time.Duration // of the ledger
	viaPG    string        // how replicas reach the ledger, if not by pgURL
	ledger   func(*ledger.Options)
	offset   atomic.Int64
	stopped  atomic.Pointer[time.Time] // when the clock was stopped; nil: it runs
	turn     atomic.Int64
	replicas []*replica
	raw      *redis.Client // for looking, and for doing damage
	ids      []string      // allotments made
	logged   storetest.Log
	broken   bool // the test has broken connections
}

// replica is one Inventory with stores of its own.
type replica struct {
	*inventory.Inventory
	holds  *holds.Store
	ledger *ledger.Ledger
	stop   func()
	gone   atomic.Bool // stopped
}

type worldOption func(*world)

func withOptions(f func(*inventory.Options)) worldOption { return func(w *world) { w.options = f } }

func withRedis(url string) worldOption { return func(w *world) { w.redisURL = url } }

func withPostgres(url string) worldOption { return func(w *world) { w.pgURL = url } }

// through puts something between the replicas and their ledger.
func through(url string) worldOption { return func(w *world) { w.viaPG = url } }

func withLedger(f func(*ledger.Options)) worldOption { return func(w *world) { w.ledger = f } }

// quiet switches off the drivers of lapse that are not asked for: what remains is need.
func quiet(o *inventory.Options) { o.WithoutEvents, o.WithoutSweep = true, true }

// newWorld starts n replicas, loops included, on the shared servers unless the options say otherwise.
func newWorld(t testing.TB, n int, options ...worldOption) *world {
	t.Helper()
	w := &world{t: t, timeout: 5 * time.Second, lockTime: 5 * time.Second}
	for _, o := range options {
		o(w)
	}
	if w.redisURL == "" {
		w.redisURL = storetest.Redis(t).URL()
	}
	if w.pgURL == "" {
		w.pgURL = storetest.MigratedDatabase(t, ledger.Migrate)
	}
	parsed, err := redis.ParseURL(cmp.Or(w.rawURL, w.redisURL))
	if err != nil {
		t.Fatal(err)
	}
	w.raw = redis.NewClient(parsed)
	t.Cleanup(func() { _ = w.raw.Close() })
	for range n {
		w.start(true)
	}
	return w
}

// start adds a replica; without loops it only answers.
func (w *world) start(loops bool) *replica {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(io.MultiWriter(testWriter{w.t}, &w.logged), &slog.HandlerOptions{Level: slog.LevelWarn}))
	meters := metricnoop.NewMeterProvider()
	h, err := holds.Open(holds.Options{
		URL: w.redisURL, Durable: w.durable, Timeout: w.timeout, Logger: log, Meters: meters, Traces: tracenoop.NewTracerProvider(),
		Offset: w.shift,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.rawURL != "" { // who is master has to be asked first, and a server is not called before it is ready
		w.until(func() error { return h.Ping(context.Background()) })
	}
	lo := ledger.Options{
		URL: cmp.Or(w.viaPG, w.pgURL), Logger: log, CallTimeout: 10 * time.Second, LockTimeout: w.lockTime, StatementTimeout: 8 * time.Second,
	}
	if w.ledger != nil {
		w.ledger(&lo)
	}
	l, err := ledger.Open(context.Background(), lo)
	if err != nil {
		w.t.Fatal(err)
	}
	o := inventory.Options{
		Redis: h, Ledger: l, Background: l.Background(), Logger: log, Meters: meters,
		DecisionTime: patience, ConfirmTime: patience,
	}
	if w.options != nil {
		w.options(&o)
	}
	v, err := inventory.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	if loops {
		running.Go(func() { v.Run(ctx) })
	}
	r := &replica{Inventory: v, holds: h, ledger: l}
	r.stop = sync.OnceFunc(func() {
		r.gone.Store(true)
		cancel()
		running.Wait()
		drained, end := context.WithTimeout(context.Background(), patience)
		defer end()
		_ = v.Drain(drained)
		_ = h.Close()
		l.Close()
	})
	w.t.Cleanup(r.stop)
	w.replicas = append(w.replicas, r)
	return r
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func (w *world) ctx() context.Context { return w.t.Context() }

// at returns the replica that the i-th of some concurrent callers uses.
func (w *world) at(i int) *replica { return w.replicas[i%len(w.replicas)] }

// next returns the running replicas in turn.
func (w *world) next() *replica {
	for range w.replicas {
		if r := w.at(int(w.turn.Add(1))); !r.gone.Load() {
			return r
		}
	}
	w.t.Fatal("no replica is running")
	return nil
}

// advance lets time pass for every deadline.
func (w *world) advance(d time.Duration) { w.offset.Add(int64(d)) }

// stopClock lets time pass by advance alone from now on, so that a test can tell deadlines, but for the millisecond that
// rounding may take, and for as long as a call is on its way to Redis: each script's time is late by that.
func (w *world) stopClock() {
	now := time.Now()
	w.stopped.Store(&now)
}

// shift is what the scripts add to Redis's clock.
func (w *world) shift() time.Duration {
	shift := time.Duration(w.offset.Load())
	if since := w.stopped.Load(); since != nil {
		shift -= time.Since(*since)
	}
	return shift
}

// now is the time by the scripts' clock.
func (w *world) now() time.Time {
	w.t.Helper()
	now, err := w.raw.Time(w.ctx()).Result()
	if err != nil {
		w.t.Fatal(err)
	}
	return now.Add(w.shift())
}

// advanceTo lets time pass until t.
func (w *world) advanceTo(t time.Time) { w.advance(t.Sub(w.now())) }

// together is short for what nearly every test does.
func together(n int, f func(i int)) { storetest.Together(n, f) }
