package ledger

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// tally counts verdicts; trouble fails the test.
type tally struct {
	mu    sync.Mutex
	kinds map[store.VerdictKind]int
}

func (c *tally) add(t testing.TB, verdicts []store.Verdict, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		t.Errorf("Settle: %v", err)
		return
	}
	if c.kinds == nil {
		c.kinds = map[store.VerdictKind]int{}
	}
	for _, v := range verdicts {
		c.kinds[v.Kind]++
	}
}

func (c *tally) want(t testing.TB, want map[store.VerdictKind]int) {
	t.Helper()
	if diff := cmp.Diff(want, c.kinds); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}

// TestShuffledOrderOfTokens: tokens rise over an allotment, and its holds are confirmed in any order.
func TestShuffledOrderOfTokens(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	var got tally
	order := rand.New(rand.NewPCG(1, 2)).Perm(100)
	each(50, func(i int) {
		v, err := f.Settle(t.Context(), show, single(order[i], 1))
		got.add(t, v, err)
	})
	for _, n := range order[50:] {
		got.add(t, f.settle(single(n, 1)), nil)
	}
	got.want(t, map[store.VerdictKind]int{sold: 100})
	f.wantSold(100)
}

// TestForgedRoom: Redis has promised ten times what there is, each with a valid token.
func TestForgedRoom(t *testing.T) {
	t.Parallel()
	f := setup(t, 5)
	var got tally
	each(50, func(n int) {
		v, err := f.Settle(t.Context(), show, single(n, 1))
		got.add(t, v, err)
	})
	got.want(t, map[store.VerdictKind]int{sold: 5, refusedRoom: 45})
	f.wantSold(5)
}

func TestContention(t *testing.T) {
	t.Parallel()
	f := setup(t, 300)
	second := setupAt(t, f.url) // another replica
	var got tally
	each(500, func(n int) {
		l := f.Ledger
		if n%2 == 1 {
			l = second.Ledger
		}
		v, err := l.Settle(t.Context(), show, single(n, 1))
		got.add(t, v, err)
	})
	got.want(t, map[store.VerdictKind]int{sold: 300, refusedRoom: 200})
	f.wantSold(300)
}

// TestCartsContention: carts over two allotments in both orders neither deadlock nor half succeed.
func TestCartsContention(t *testing.T) {
	t.Parallel()
	f := setup(t, 60)
	f.create(other, 40)
	second := setupAt(t, f.url)
	var got tally
	each(100, func(n int) {
		lines := []store.ConfirmLine{line(show, n, 1), line(other, n, 1)}
		l := f.Ledger
		if n%2 == 1 {
			l, lines[0], lines[1] = second.Ledger, lines[1], lines[0]
		}
		v, err := l.Settle(t.Context(), show, order(fmt.Sprintf("o%d", n), lines...))
		got.add(t, v, err)
	})
	got.want(t, map[store.VerdictKind]int{sold: 80, refusedRoom: 60, refusedCart: 60})
	if a, b := f.allotment(show).Sold, f.allotment(other).Sold; a != 40 || b != 40 {
		t.Errorf("sold %d and %d, want 40 of each", a, b)
	}
}

func TestSameHoldInOneBatch(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	for i, r := range f.together(single(1, 2), single(1, 2), single(1, 2)) {
		if r.err != nil || r.verdicts[0].Kind != sold || r.verdicts[0].Sale.Quantity != 2 {
			t.Errorf("confirm %d: %+v, %v", i, r.verdicts, r.err)
		}
	}
	f.wantSold(2)
}

// TestSameHoldAtOnce: three replicas confirm the same hold, some of them under another order.
func TestSameHoldAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	ledgers := []*Ledger{f.Ledger, setupAt(t, f.url).Ledger, setupAt(t, f.url).Ledger}
	var mu sync.Mutex
	sales := map[store.Sale]int{}
	each(60, func(n int) {
		c := order(fmt.Sprintf("order-%d", n%2), line(show, 1, 1))
		v, err := ledgers[n%3].Settle(t.Context(), show, c)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || v[0].Kind != sold {
			t.Errorf("confirm %d: %+v, %v", n, v, err)
			return
		}
		sales[v[0].Sale]++
	})
	if len(sales) != 1 {
		t.Errorf("sales answered: %v, want one and the same", sales)
	}
	f.wantSold(1)
}

// TestVerdictIsTheRow: what Settle answers is what Sale and Outcomes read later.
func TestVerdictIsTheRow(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	c := order("o1", line(show, 1, 3))
	fresh := f.settle(c)[0]
	again := f.settle(c)[0]
	if diff := cmp.Diff(fresh, again); diff != "" {
		t.Errorf("repeat (-first +again):\n%s", diff)
	}
	sale, err := f.Sale(t.Context(), c.Lines[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fresh.Sale, sale); diff != "" {
		t.Errorf("sale (-verdict +row):\n%s", diff)
	}
	want := store.Sale{
		ID: c.Lines[0].ID, BuyerID: "buyer-1", OrderID: "o1", Quantity: 3, Token: store.Token{Epoch: 1, Sequence: 1},
		RequestID: "request-1", SoldTime: sale.SoldTime,
	}
	if diff := cmp.Diff(want, sale); diff != "" {
		t.Errorf("sale (-want +got):\n%s", diff)
	}
	if d := time.Since(sale.SoldTime); d < -time.Minute || d > time.Minute {
		t.Errorf("sold %v ago", d)
	}
}

func TestShrinkLowersCapacity(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	before := f.allotment(show)
	f.sell(1, 3)
	if v := f.settle(order("", shrink(show, "cut", 7))); v[0].Kind != sold {
		t.Fatalf("shrink: %v", v[0].Kind)
	}
	a := f.allotment(show)
	if a.Capacity != 3 || a.Sold != 3 || a.Version != before.Version+1 || a.Feed != before.Feed {
		t.Errorf("after the shrink: %+v", a)
	}
	adjustment, found, err := f.Adjustment(t.Context(), show, "cut")
	want := store.Adjustment{Allotment: show, RequestID: "cut", Delta: -7}
	if err != nil || !found || adjustment != want {
		t.Errorf("adjustment %+v, %v, %v; want %+v", adjustment, found, err, want)
	}
	if _, err := f.Sale(t.Context(), store.NewHoldID(show, "", "cut")); store.Refused(err, store.SaleNotFound) == nil {
		t.Errorf("a shrink is no sale: %v", err)
	}
}

// TestPlansOfEmptyTables: a statement prepared when the tables were empty must not read through all of them when they
// have filled: a launch sells thousands within the life of a plan.
func TestPlansOfEmptyTables(t *testing.T) {
	t.Parallel()
	f := setup(t, 5000)
	for first := 0; first < 3000; first += 100 {
		confirms := make([]store.Confirm, 100)
		for i := range confirms {
			confirms[i] = single(first+i, 1)
		}
		f.together(confirms...)
		f.settle(single(first, 1))
	}
	f.wantSold(3000)
	f.Close() // a session's counts are sure to be written when it ends
	conn := f.connect()
	storetest.Eventually(t, 10*time.Second, func() error {
		var seq, byOrder, inserted int64
		err := conn.QueryRow(t.Context(), `select t.seq_tup_read, i.idx_tup_read, t.n_tup_ins
			from pg_stat_user_tables t join pg_stat_user_indexes i using (relid)
			where t.relname = 'outcomes' and i.indexrelname = 'outcomes_order_once'`).Scan(&seq, &byOrder, &inserted)
		if err == nil && (inserted != 3000 || seq > 0 || byOrder > 3000) {
			err = fmt.Errorf("%d rows: %d read in scans, %d by order", inserted, seq, byOrder)
		}
		return err
	})
}
