package ledger

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
)

func TestRaiseEpoch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                        string
		seen, redisEpoch, redisFeed int64 // the row has epoch 1 and feed 2
		state                       store.AllotmentState
		epoch, feed                 int64
		after                       store.AllotmentState
	}{
		{name: "Redis is empty", seen: 1, state: store.StateOpen, epoch: 2, feed: 2, after: store.StateOpen},
		{name: "Redis is behind", seen: 1, redisEpoch: 1, redisFeed: 1, state: store.StateOpen, epoch: 2, feed: 2, after: store.StateOpen},
		{name: "Redis is as the ledger", seen: 1, redisEpoch: 1, redisFeed: 2, state: store.StateOpen, epoch: 2, feed: 2, after: store.StateOpen},
		{name: "Redis knows a newer epoch", seen: 1, redisEpoch: 7, redisFeed: 1, state: store.StateOpen, epoch: 8, feed: 2, after: store.StatePaused},
		{name: "Redis knows a newer epoch and the same feed", seen: 1, redisEpoch: 7, redisFeed: 2, state: store.StateOpen, epoch: 8, feed: 3, after: store.StatePaused},
		{name: "Redis knows a newer feed", seen: 1, redisEpoch: 1, redisFeed: 9, state: store.StateOpen, epoch: 2, feed: 10, after: store.StatePaused},
		{name: "Redis knows more, already paused", seen: 1, redisEpoch: 1, redisFeed: 9, state: store.StatePaused, epoch: 2, feed: 10, after: store.StatePaused},
		{name: "Redis knows more, closed", seen: 1, redisEpoch: 1, redisFeed: 9, state: store.StateClosed, epoch: 2, feed: 10, after: store.StateClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 10)
			f.grow(show, "r")
			r := rules()
			r.State = c.state
			before, err := f.UpdateRules(t.Context(), show, f.allotment(show).Version, r)
			if err != nil {
				t.Fatal(err)
			}
			got, wentBack, err := f.RaiseEpoch(t.Context(), show, c.seen, c.redisEpoch, c.redisFeed)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.HasPrefix(c.name, "Redis knows"); wentBack != want {
				t.Errorf("Postgres went back in time: %v, want %v", wentBack, want)
			}
			want := before
			want.Epoch, want.EpochTime, want.Feed, want.State = c.epoch, got.EpochTime, c.feed, c.after
			if !got.EpochTime.After(before.EpochTime) {
				t.Errorf("epoch raised at %v, before that at %v", got.EpochTime, before.EpochTime)
			}
			if c.after != c.state {
				want.Version, want.UpdateTime = before.Version+1, got.UpdateTime
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got, f.allotment(show)); diff != "" {
				t.Errorf("read again:\n%s", diff)
			}
			if left := f.changes(show); len(left) != 0 {
				t.Errorf("feed rows left: %v", left)
			}
			if made := f.grow(show, "next"); made.Feed != c.feed+1 {
				t.Errorf("next number %d, want %d", made.Feed, c.feed+1)
			}
		})
	}
}

func TestRaiseEpochStale(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	f.grow(show, "r")
	for _, seen := range []int64{0, 2} {
		if _, _, err := f.RaiseEpoch(t.Context(), show, seen, 9, 9); !errors.Is(err, store.ErrStale) {
			t.Errorf("seen %d: %v, want ErrStale", seen, err)
		}
	}
	if a := f.allotment(show); a.Epoch != 1 || a.State != store.StateOpen || len(f.changes(show)) != 1 {
		t.Errorf("after refusals: %+v", a)
	}
}

// TestOneAdopterWins: of many that saw the same epoch, one raises it.
func TestOneAdopterWins(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	var mu sync.Mutex
	won := 0
	each(20, func(int) {
		_, _, err := f.RaiseEpoch(t.Context(), show, 1, 0, 0)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			won++
		} else if !errors.Is(err, store.ErrStale) {
			t.Error(err)
		}
	})
	if a := f.allotment(show); won != 1 || a.Epoch != 2 {
		t.Errorf("%d won, epoch %d", won, a.Epoch)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	if _, err := f.Pause(t.Context(), show, 2); !errors.Is(err, store.ErrStale) {
		t.Errorf("another epoch: %v, want ErrStale", err)
	}
	before := f.allotment(show)
	got, err := f.Pause(t.Context(), show, 1)
	want := before
	want.State, want.Version, want.Feed, want.UpdateTime = store.StatePaused, before.Version+1, before.Feed+1, got.UpdateTime
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("paused: %v (-want +got):\n%s", err, diff)
	}
	if changes := f.changes(show); len(changes) != 1 || changes[0].Rules != want.Rules {
		t.Errorf("feed: %+v", changes)
	}
	again, err := f.Pause(t.Context(), show, 1)
	if diff := cmp.Diff(got, again); diff != "" || err != nil {
		t.Errorf("again: %v\n%s", err, diff)
	}
	r := rules()
	r.State = store.StateClosed
	if _, err := f.UpdateRules(t.Context(), show, got.Version, r); err != nil {
		t.Fatal(err)
	}
	if a, err := f.Pause(t.Context(), show, 1); err != nil || a.State != store.StateClosed {
		t.Errorf("closed: %+v, %v; want it to stay so", a, err)
	}
}

func (f *fixture) setState(s store.AllotmentState) store.Allotment {
	f.t.Helper()
	r := rules()
	r.State = s
	a, err := f.UpdateRules(f.t.Context(), show, f.allotment(show).Version, r)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// TestRetire walks an allotment out of Redis and back.
func TestRetire(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	ctx, id := t.Context(), f.sell(1, 5)
	refused := func(name string, epoch int64) {
		t.Helper()
		if err := f.Retire(ctx, show, epoch); !errors.Is(err, store.ErrStale) || f.allotment(show).Retired {
			t.Errorf("%s: %v, want ErrStale", name, err)
		}
	}
	refused("open", 1)
	a := f.setState(store.StateClosed)
	refused("changes not applied", 1)
	if err := f.Applied(ctx, show, 1, a.Feed); err != nil {
		t.Fatal(err)
	}
	refused("another epoch", 2)
	for range 2 {
		if err := f.Retire(ctx, show, 1); err != nil || !f.allotment(show).Retired {
			t.Fatalf("retire: %v", err)
		}
	}
	if _, _, err := f.RaiseEpoch(ctx, show, 1, 0, 0); !errors.Is(err, store.ErrStale) {
		t.Errorf("RaiseEpoch: %v, want ErrStale: only reopening adopts", err)
	}
	for range 2 {
		if sale, number, err := f.cancel(id, "r1", 2); err != nil || number != 0 || sale.Cancelled != 2 {
			t.Errorf("CancelSale: %+v, %d, %v", sale, number, err)
		}
		if version := f.allotment(show).Version; version != a.Version+1 {
			t.Errorf("version %d after a cancelled sale, want %d: the row is all that tells of it", version, a.Version+1)
		}
	}
	if made := f.grow(show, "g1"); made.Feed != 0 {
		t.Errorf("Grow: %+v", made)
	}
	if b := f.setState(store.StateClosed); b.Feed != a.Feed || !b.Retired {
		t.Errorf("rules: %+v", b)
	}
	if left := f.changes(show); len(left) != 0 {
		t.Errorf("nothing goes to Redis while retired: %+v", left)
	}
	f.wantSold(3)
	if b := f.setState(store.StateOpen); b.Retired || b.Feed != a.Feed+2 {
		t.Errorf("reopened: %+v, want a gap in the feed, since it does not have all changes", b)
	}
	if b := f.raise(show, 1); b.Sold != 3 || b.Capacity != 11 || b.Epoch != 2 {
		t.Errorf("adopted: %+v", b)
	}
	if _, number, err := f.cancel(id, "r1", 2); err != nil || number != 0 {
		t.Errorf("repeat of what was cancelled while retired: %d, %v", number, err)
	}
}

func TestRecentOutcomes(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	f.create("show-2", 100)
	for n := range 10 {
		f.sell(n, 1)
	}
	f.settle(order("order-1", line(show, 50, 1)))
	f.settle(order("", shrink(show, "cut", 1)))
	f.settle(order("x", line("show-2", 1, 1)))
	f.exec(f.connect(), `update outcomes set decided_at = decided_at - interval '2 days' where quantity = 1 and order_id like 'order-%'
		and hold_id in (select hold_id from outcomes where order_id = any($1))`, []string{"order-3", "order-4"})
	f.exec(f.connect(), `update outcomes set decided_at = (select min(decided_at) from outcomes where order_id = 'order-6')
		where order_id = any($1) and quantity = 1`, []string{"order-7", "order-8", "order-9"}) // by one transaction
	want := map[string]bool{"request-50 2": true, "cut 1": true}
	for _, n := range []int{0, 1, 2, 5, 6, 7, 8, 9} {
		want[fmt.Sprintf("request-%d 1", n)] = true
	}
	for limit := range len(want) + 1 {
		if diff := cmp.Diff(want, f.recentInPages(time.Now().Add(-24*time.Hour), limit+1)); diff != "" {
			t.Errorf("outcomes in pages of %d (-want +got):\n%s", limit+1, diff)
		}
	}
}

// recentInPages reads all pages, as an adopt does. Each outcome must come once, wherever a page ends.
func (f *fixture) recentInPages(since time.Time, limit int) map[string]bool {
	f.t.Helper()
	got := map[string]bool{}
	for last := ""; ; {
		page, err := f.RecentOutcomes(f.t.Context(), show, since, last, limit)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, o := range page {
			if o.DecidedAt.Before(since) || o.DecidedAt.Equal(since) && o.ID.String() <= last || o.ID.Allotment != show {
				f.t.Fatalf("%s of %s after %s of %s", o.ID, o.DecidedAt, last, since)
			}
			since, last = o.DecidedAt, o.ID.String()
			got[fmt.Sprintf("%s %v", o.RequestID, o.Verdict.Kind)] = true
		}
		if len(page) < limit {
			return got
		}
	}
}

// TestRecentOutcomesCostsWhatItReturns: a page reads no more of the table than it returns, wherever it begins and however
// much is recent, there or at other allotments, whether its plan was made for its values or for any. Else an adopt that reads
// all pages would take a time that rises with the square of the sales.
func TestRecentOutcomesCostsWhatItReturns(t *testing.T) {
	t.Parallel()
	f := setup(t, recentRows)
	conn := f.connect()
	for _, id := range []string{show, "after", "zoo"} { // the others' hold ids are in front of ours and behind
		if id != show {
			f.create(id, recentRows)
		}
		f.exec(conn, `insert into outcomes (hold_id, allotment_id, verdict, kind, buyer_id, request_id, order_id, quantity, held, cart,
				token_epoch, token_sequence, decided_at)
			select $1 || '.' || md5(n::text), $1, 'SOLD', 'SALE', 'buyer-' || n, 'request', 'order-' || n, 1, 1, '', 1, n,
				now() - (n / 100) * interval '1 second' from generate_series(1, $2::int) n`, id, recentRows)
	}
	f.exec(conn, `update allotments set sold = $1`, recentRows)
	f.exec(conn, `analyze outcomes`)
	f.exec(conn, `prepare page (text, timestamptz, text, bigint) as `+selectRecent)
	const limit = 1000
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		f.exec(conn, `set plan_cache_mode = `+mode)
		for _, begin := range []float64{0, 0.5, 1} { // of all that is recent
			at := time.Duration((1 - begin) * recentRows / 100 * float64(time.Second))
			var plan []planned
			err := conn.QueryRow(t.Context(), fmt.Sprintf(`explain (analyze, format json) execute page ('%s', now() - interval '%d seconds', '', %d)`,
				show, int(at.Seconds()), limit)).Scan(&plan)
			if err != nil {
				t.Fatal(err)
			}
			if read := plan[0].Plan.read(); read > 2*limit {
				t.Errorf("%s: the page that begins at %v of all reads %v rows", mode, begin, read)
			}
		}
	}
}

const recentRows = 20_000

// planned is what EXPLAIN ANALYZE tells of a statement.
type planned struct{ Plan planNode }

type planNode struct {
	Rows    float64 `json:"Actual Rows"`
	Removed float64 `json:"Rows Removed by Filter"`
	Loops   float64 `json:"Actual Loops"`
	Plans   []planNode
}

// read is how many rows were read from the table or its index.
func (n planNode) read() float64 {
	if len(n.Plans) == 0 {
		return (n.Rows + n.Removed) * n.Loops
	}
	var all float64
	for _, below := range n.Plans {
		all += below.read()
	}
	return all
}
