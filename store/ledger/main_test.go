package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

const show = "show" // the allotment that most tests use; every test has a database of its own

// fixture is a ledger on a database of this test's own, with one allotment under epoch 1.
type fixture struct {
	*Ledger
	t   testing.TB
	url string
}

func setup(t testing.TB, capacity int64, change ...func(*Options)) *fixture {
	t.Helper()
	f := setupAt(t, storetest.MigratedDatabase(t, Migrate), change...)
	f.create(show, capacity)
	return f
}

// ownServer is a server of the test's own, with the tables in the database that url names.
func ownServer(t testing.TB) (server *local.Postgres, url string) {
	t.Helper()
	server = storetest.NewPostgres(t, local.PostgresOptions{})
	url = server.URL("postgres")
	if err := Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return server, url
}

// setupAt opens a ledger without an allotment, and checks the books when the test ends.
func setupAt(t testing.TB, url string, change ...func(*Options)) *fixture {
	t.Helper()
	o := Options{URL: url, CallTimeout: 10 * time.Second, LockTimeout: 5 * time.Second, StatementTimeout: 8 * time.Second, ProbeTime: 10 * time.Second}
	for _, c := range change {
		c(&o)
	}
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	f := &fixture{Ledger: l, t: t, url: url}
	t.Cleanup(f.checkBooks)
	return f
}

func rules() store.Rules {
	return store.Rules{
		State: store.StateOpen, LateConfirm: store.LateAccept, HoldDuration: store.DefaultHoldDuration,
		MaxHoldDuration: store.DefaultMaxHoldDuration, MaxPerHold: store.DefaultMaxPerHold,
	}
}

func newAllotment(id string, capacity int64) store.Allotment {
	place := store.Place{Allotment: id, Group: id, Buckets: store.BucketsFor(capacity)}
	return store.Allotment{Place: place, Rules: rules(), Capacity: capacity}
}

// create makes an allotment and adopts it: its epoch is 1.
func (f *fixture) create(id string, capacity int64) {
	f.t.Helper()
	if _, err := f.CreateAllotment(f.t.Context(), newAllotment(id, capacity)); err != nil {
		f.t.Fatal(err)
	}
	f.raise(id, 0)
}

func (f *fixture) raise(id string, seen int64) store.Allotment {
	f.t.Helper()
	a, _, err := f.RaiseEpoch(f.t.Context(), id, seen, 0, 0)
	if err != nil {
		f.t.Fatalf("RaiseEpoch(%s, seen %d): %v", id, seen, err)
	}
	return a
}

// holdTime is when every hold was created, to the microsecond that the ledger keeps.
var holdTime = time.Date(2026, 12, 1, 9, 0, 0, 123456000, time.UTC)

// line is the nth hold of an allotment, as it is under epoch 1.
func line(allotment string, n int, quantity int64) store.ConfirmLine {
	buyer, request := fmt.Sprintf("buyer-%d", n), fmt.Sprintf("request-%d", n)
	return store.ConfirmLine{
		ID: store.NewHoldID(allotment, buyer, request), BuyerID: buyer, RequestID: request,
		Quantity: quantity, Held: quantity + 1, Cart: "cart", CreateTime: holdTime,
		Token: store.Token{Epoch: 1, Sequence: int64(n)}, Epoch: 1,
	}
}

func shrink(allotment, request string, quantity int64) store.ConfirmLine {
	return store.ConfirmLine{
		ID: store.NewHoldID(allotment, "", request), RequestID: request, Quantity: quantity,
		Token: store.Token{Epoch: 1, Sequence: 1}, Epoch: 1, Shrink: true,
	}
}

func order(id string, lines ...store.ConfirmLine) store.Confirm {
	return store.Confirm{OrderID: id, Lines: lines}
}

// single is a confirm of the nth hold under an order of its own.
func single(n int, quantity int64) store.Confirm {
	return order(fmt.Sprintf("order-%d", n), line(show, n, quantity))
}

// settle fails the test on an error.
func (f *fixture) settle(c store.Confirm) []store.Verdict {
	f.t.Helper()
	verdicts, err := f.Settle(f.t.Context(), show, c)
	if err != nil {
		f.t.Fatalf("Settle(%s): %v", c.OrderID, err)
	}
	return verdicts
}

// sell makes the nth sale and returns its hold id.
func (f *fixture) sell(n int, quantity int64) store.HoldID {
	f.t.Helper()
	if got := f.settle(single(n, quantity)); got[0].Kind != store.VerdictSold {
		f.t.Fatalf("sale %d: verdict %v", n, got[0].Kind)
	}
	return line(show, n, 1).ID
}

// together settles confirms in one transaction, as if they had met in their lane.
func (f *fixture) together(confirms ...store.Confirm) []settled {
	items := make([]*settling, len(confirms))
	for i, c := range confirms {
		items[i] = &settling{ctx: f.t.Context(), confirm: c, done: make(chan settled, 1)}
	}
	f.settleLane(show, items)
	results := make([]settled, len(items))
	for i, s := range items {
		results[i] = <-s.done
	}
	return results
}

func (f *fixture) allotment(id string) store.Allotment {
	f.t.Helper()
	a, err := f.Allotment(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

func (f *fixture) wantSold(want int64) {
	f.t.Helper()
	if got := f.allotment(show).Sold; got != want {
		f.t.Errorf("sold = %d, want %d", got, want)
	}
}

// connect opens a connection beside the ledger's, closed at the test's end.
func (f *fixture) connect() *pgx.Conn {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (f *fixture) exec(conn *pgx.Conn, sql string, args ...any) {
	f.t.Helper()
	if _, err := conn.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

// number is the one number that a query gives.
func (f *fixture) number(sql string) int64 {
	f.t.Helper()
	var n int64
	if err := f.requests.QueryRow(f.t.Context(), sql).Scan(&n); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// holdCommit makes the next transaction of a batch wait, with its locks, before it writes and commits. (One that is a single
// round trip cannot wait there, so there are none any more.) inside is closed when it does; it goes on when release is called, or the test ends.
func (f *fixture) holdCommit() (inside <-chan struct{}, release func()) {
	f.opts.ReadFirst = true
	entered, leave := make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	f.mark = func(point string) {
		if point == "ledger-before-commit" && held.CompareAndSwap(false, true) {
			close(entered)
			<-leave
		}
	}
	release = sync.OnceFunc(func() { close(leave) })
	f.t.Cleanup(release)
	return entered, release
}

// eventuallyWaiting waits until a session of the test's database waits for a lock.
func (f *fixture) eventuallyWaiting(conn *pgx.Conn) {
	f.t.Helper()
	storetest.Eventually(f.t, 5*time.Second, func() error {
		var waiting int
		err := conn.QueryRow(f.t.Context(), `select count(*) from pg_stat_activity
			where datname = current_database() and wait_event_type = 'Lock'`).Scan(&waiting)
		if err == nil && waiting != 1 {
			err = fmt.Errorf("%d sessions wait for a lock, want 1", waiting)
		}
		return err
	})
}

// eventuallyUp waits until the server is not known to be down.
func (f *fixture) eventuallyUp() {
	f.t.Helper()
	storetest.Eventually(f.t, 10*time.Second, func() error { return f.health.down() })
}

// eventuallyDown waits until it is.
func (f *fixture) eventuallyDown() {
	f.t.Helper()
	storetest.Eventually(f.t, 10*time.Second, func() error {
		if !f.Down() {
			return errors.New("Postgres is not known to be down")
		}
		return nil
	})
}

// checkBooks holds each allotment's counters against its rows: what every test must leave in order.
func (f *fixture) checkBooks() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // the test's own is over
	defer cancel()
	conn, err := pgx.Connect(ctx, f.url)
	if err != nil {
		f.t.Logf("books not checked: %v", err)
		return
	}
	defer conn.Close(ctx)
	rows, _ := conn.Query(ctx, `
		select a.id, a.sold, a.capacity, coalesce((select sum(quantity - cancelled_quantity) from outcomes o
				where o.allotment_id = a.id and verdict = 'SOLD' and kind = 'SALE'), 0)::bigint as sales,
			(select count(*) from outcomes o where o.allotment_id = a.id and cancelled_quantity <>
				coalesce((select sum(quantity) from cancellations c where c.hold_id = o.hold_id), 0)) as uneven,
			a.capacity - (a.created->>'capacity')::bigint
				- coalesce((select sum(delta) from adjustments d where d.allotment_id = a.id), 0)::bigint as adrift
		from allotments a`)
	var id string
	var sold, capacity, sales, uneven, adrift int64
	_, err = pgx.ForEachRow(rows, []any{&id, &sold, &capacity, &sales, &uneven, &adrift}, func() error {
		if sold != sales || sold > capacity || uneven != 0 || adrift != 0 {
			f.t.Errorf("books of %s: sold %d, sum of sales %d, capacity %d, adrift by %d; %d sales with uneven cancellations",
				id, sold, sales, capacity, adrift, uneven)
		}
		return nil
	})
	if err != nil {
		f.t.Errorf("books: %v", err)
	}
}

// each runs f for 0 to n-1, up to 64 at a time, and waits for all.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, 64) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
