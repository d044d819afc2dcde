package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
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
	pgURL    string
	options  func(*inventory.Options)
	timeout  time.Duration
	lockTime time.Duration // of the ledger
	offset   atomic.Int64
	stopped  atomic.Pointer[time.Time] // when the clock was stopped; nil: it runs
	turn     atomic.Int64
	replicas []*replica
	raw      *redis.Client // for looking, and for doing damage
	ids      []string      // allotments made
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
	parsed, err := redis.ParseURL(w.redisURL)
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
	log := slog.New(slog.NewTextHandler(testWriter{w.t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	meters := metricnoop.NewMeterProvider()
	h, err := holds.Open(holds.Options{
		URL: w.redisURL, Timeout: w.timeout, Logger: log, Meters: meters, Traces: tracenoop.NewTracerProvider(),
		Offset: w.shift,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := ledger.Open(context.Background(), ledger.Options{
		URL: w.pgURL, Logger: log, CallTimeout: 10 * time.Second, LockTimeout: w.lockTime, StatementTimeout: 8 * time.Second,
	})
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

// stopClock lets time pass by advance alone from now on, so that a test can tell deadlines exactly, but
// for the millisecond that rounding may take.
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

// open creates an allotment with the defaults of the API, and checks the promises on it at the end.
func (w *world) open(capacity int64, change ...func(*store.Allotment)) string {
	w.t.Helper()
	id := storetest.UniqueID(w.t)
	w.openAs(id, id, capacity, change...)
	return id
}

func (w *world) openAs(id, group string, capacity int64, change ...func(*store.Allotment)) {
	w.t.Helper()
	a := allotment(id, group, capacity)
	for _, c := range change {
		c(&a)
	}
	if _, err := w.next().CreateAllotment(w.ctx(), a); err != nil {
		w.t.Fatalf("open %s: %v", id, err)
	}
	w.opened(id)
}

// opened lets the promises on an allotment be checked at the end.
func (w *world) opened(id string) {
	w.ids = append(w.ids, id)
	w.t.Cleanup(func() { w.checkPromises(id) })
}

// allotment has the defaults of the API, but holds of up to 1,000 units.
func allotment(id, group string, capacity int64) store.Allotment {
	return store.Allotment{
		Place: store.Place{Allotment: id, Group: group}, Capacity: capacity,
		Rules: store.Rules{
			State: store.StateOpen, LateConfirm: store.LateAccept, HoldDuration: store.DefaultHoldDuration,
			MaxHoldDuration: store.DefaultMaxHoldDuration, MaxPerHold: 1000,
		},
	}
}

// pair opens two allotments of one group.
func (w *world) pair(first, second int64) (string, string) {
	group := w.open(first)
	second2 := storetest.UniqueID(w.t)
	w.openAs(second2, group, second)
	return group, second2
}

func limit(n int64) func(*store.Allotment) { return func(a *store.Allotment) { a.MaxPerBuyer = n } }
func lateReject() func(a *store.Allotment) {
	return func(a *store.Allotment) { a.LateConfirm = store.LateReject }
}

// setState pauses, closes or reopens an allotment.
func (w *world) setState(id string, state store.AllotmentState) {
	w.t.Helper()
	a, err := w.next().Allotment(w.ctx(), id)
	if err == nil {
		_, err = w.next().UpdateAllotment(w.ctx(), id, a.Version, func(r *store.Rules) error {
			r.State = state
			return nil
		})
	}
	if err != nil {
		w.t.Fatalf("set state %d: %v", state, err)
	}
}

// hold takes a hold that must be granted, if not at the first try then at a repeat.
func (w *world) hold(allotment, buyer, request string, quantity int64) (h store.Hold) {
	w.t.Helper()
	err := insist(func() (err error) {
		h, err = w.next().CreateHold(w.ctx(), buyer, request, store.Line{Allotment: allotment, Quantity: quantity})
		return err
	})
	if err != nil {
		w.t.Fatalf("CreateHold(%s, %s, %d): %v", buyer, request, quantity, err)
	}
	return h
}

func (w *world) tryHold(i int, allotment, buyer, request string, quantity int64) (store.Hold, error) {
	return w.at(i).CreateHold(w.ctx(), buyer, request, store.Line{Allotment: allotment, Quantity: quantity})
}

// confirm makes a sale that must succeed, if not at the first try then at a repeat.
func (w *world) confirm(h store.Hold, order string) (s store.Sale) {
	w.t.Helper()
	err := insist(func() (err error) {
		s, err = w.next().ConfirmHold(w.ctx(), store.ConfirmHold{ID: h.ID, OrderID: order})
		return err
	})
	if err != nil {
		w.t.Fatalf("ConfirmHold(%s): %v", order, err)
	}
	return s
}

func (w *world) availability(id string) (a store.Availability) {
	w.t.Helper()
	err := insist(func() (err error) {
		a, err = w.next().Availability(w.ctx(), id)
		return err
	})
	if err != nil {
		w.t.Fatalf("Availability: %v", err)
	}
	return a
}

// wantStock checks what is available, held and sold.
func (w *world) wantStock(id string, available, held, sold int64) {
	w.t.Helper()
	a := w.availability(id)
	if a.Available != available || a.Held != held || a.Sold != sold {
		w.t.Errorf("%s: available %d, held %d, sold %d; want %d, %d, %d", id, a.Available, a.Held, a.Sold, available, held, sold)
	}
}

// wantRefusal checks that err is a refusal for one of the reasons, and returns it.
func wantRefusal(t testing.TB, err error, reasons ...store.Reason) store.Refusal {
	t.Helper()
	for _, reason := range reasons {
		if no := store.Refused(err, reason); no != nil {
			return *no
		}
	}
	t.Fatalf("got %v, want refusal %v", err, reasons)
	return store.Refusal{}
}

func isSoldOut(err error) bool {
	return store.Refused(err, store.SoldOut) != nil || store.Refused(err, store.AllHeld) != nil
}

// together runs f for 0..n-1 at once and waits for all.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	all.Wait()
}

// row reads an allotment from the database, past the product.
func (w *world) row(id string) (capacity, sold int64) {
	w.t.Helper()
	w.query("select capacity, sold from allotments where id = $1", []any{id}, &capacity, &sold)
	return capacity, sold
}

func (w *world) query(sql string, args []any, into ...any) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, w.pgURL)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if len(into) == 0 {
		_, err = conn.Exec(ctx, sql, args...)
	} else {
		err = conn.QueryRow(ctx, sql, args...).Scan(into...)
	}
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// checkPromises checks R1 and R6, and that Redis, ledger and holds agree, once nothing is in flight.
func (w *world) checkPromises(id string) {
	w.t.Helper()
	if w.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	v := w.start(true)
	var last error
	for ctx.Err() == nil {
		if last = w.checkOnce(ctx, v, id); last == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.t.Errorf("promises on %s: %v", id, last)
}

func (w *world) checkOnce(ctx context.Context, v *replica, id string) error {
	a, err := v.Availability(ctx, id)
	if err != nil {
		return err
	}
	capacity, sold := w.row(id)
	var net int64
	w.query(`select coalesce(sum(quantity - cancelled_quantity), 0)::bigint from outcomes
		where allotment_id = $1 and verdict = 'SOLD' and kind = 'SALE'`, []any{id}, &net)
	if net > capacity || sold != net {
		return fmt.Errorf("R1: %d sold in sales, %d in the row, capacity %d", net, sold, capacity)
	}
	if a.Sold != sold || a.Capacity != capacity || a.Available+a.Held+a.Sold != capacity {
		return fmt.Errorf("R6: available %d, held %d, sold %d, capacity %d; the ledger has sold %d of %d",
			a.Available, a.Held, a.Sold, a.Capacity, sold, capacity)
	}
	findings, _, err := v.Reconcile(ctx, id, false)
	if err == nil && len(findings) > 0 {
		err = fmt.Errorf("reconcile: %+v", findings)
	}
	return err
}

func refusalOf(err error) store.Reason {
	var no *store.Refusal
	if errors.As(err, &no) {
		return no.Reason
	}
	return ""
}
