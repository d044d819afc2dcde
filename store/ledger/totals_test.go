package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
)

func (f *fixture) totals(feed int64) map[string]int64 {
	f.t.Helper()
	got := map[string]int64{}
	err := f.BuyerTotals(f.t.Context(), show, feed, func(buyer string, sold int64) error {
		if _, twice := got[buyer]; twice {
			return errors.New(buyer + " twice")
		}
		got[buyer] = sold
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

// sellTo sells to a buyer and returns the hold id.
func (f *fixture) sellTo(buyer string, n int, quantity int64) store.HoldID {
	f.t.Helper()
	l := line(show, n, quantity)
	l.BuyerID, l.ID = buyer, store.NewHoldID(show, buyer, l.RequestID)
	if v := f.settle(order(fmt.Sprintf("order-%d", n), l)); v[0].Kind != sold {
		f.t.Fatalf("sale %d: %v", n, v[0].Kind)
	}
	return l.ID
}

// TestBuyerTotals counts cancellations only up to the number of the feed that the adopt has counted: those after it
// are still to be applied.
func TestBuyerTotals(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	f.create("show-2", 10)
	f.settle(order("o", line("show-2", 1, 1)))
	ann1, ann2 := f.sellTo("ann", 1, 3), f.sellTo("ann", 2, 2)
	bob := f.sellTo("bob", 3, 4)
	f.sellTo("cid", 4, 1)
	f.settle(order("order-4", line(show, 50, 1))) // refused
	f.settle(order("", shrink(show, "cut", 1)))
	for i, c := range []store.CancelSale{{ID: ann1, Quantity: 1}, {ID: bob}, {ID: ann1}, {ID: ann2, Quantity: 1}} {
		if _, number, err := f.cancel(c.ID, "r"+fmt.Sprint(i), c.Quantity); err != nil || number != int64(i+1) {
			t.Fatalf("cancel %d: %d, %v", i, number, err)
		}
	}
	for feed, want := range []map[string]int64{
		{"ann": 5, "bob": 4, "cid": 1},
		{"ann": 4, "bob": 4, "cid": 1},
		{"ann": 4, "cid": 1},
		{"ann": 2, "cid": 1},
		{"ann": 1, "cid": 1},
		{"ann": 1, "cid": 1},
	} {
		if diff := cmp.Diff(want, f.totals(int64(feed))); diff != "" {
			t.Errorf("up to number %d (-want +got):\n%s", feed, diff)
		}
	}
	stop := errors.New("stop")
	if err := f.BuyerTotals(t.Context(), show, 0, func(string, int64) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the error of f: %v", err)
	}
}

// TestBuyerTotalsOfARetired: what was cancelled while retired has no number, and counts at once.
func TestBuyerTotalsOfARetired(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	id := f.sellTo("ann", 1, 3)
	a := f.setState(store.StateClosed)
	if err := errors.Join(f.Applied(t.Context(), show, 1, a.Feed), f.Retire(t.Context(), show, 1)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.cancel(id, "r", 1); err != nil {
		t.Fatal(err)
	}
	f.setState(store.StateOpen)
	if diff := cmp.Diff(map[string]int64{"ann": 2}, f.totals(f.raise(show, 1).Feed)); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

// TestEraseBuyer: the id is nowhere any more, and everything else is as it was.
func TestEraseBuyer(t *testing.T) {
	t.Parallel()
	f := setup(t, 2000)
	f.create("show-2", 10)
	const rows = eraseRows + 20
	each(rows, func(n int) { f.sellTo("ann", n, 1) })
	id := f.sellTo("ann", rows, 2)
	f.sellTo("bob", rows+1, 1)
	l := line("show-2", 1, 1)
	l.BuyerID = "ann"
	f.settle(order("o", l))
	f.settle(order("o", with(line("show-2", 2, 1), func(l *store.ConfirmLine) { l.BuyerID = "ann" }))) // refused
	if _, _, err := f.cancel(id, "r", 1); err != nil {
		t.Fatal(err)
	}
	before := f.allotment(show)

	n, err := f.EraseBuyer(t.Context(), "ann")
	if err != nil || n != rows+1+2+1 { // sales of show, outcomes of show-2, a row of the feed
		t.Errorf("EraseBuyer: %d, %v; want %d", n, err, rows+4)
	}
	for _, table := range []string{"outcomes", "feed", "erasures", "cancellations", "adjustments"} {
		if left := f.number(`select count(*) from ` + table + ` x where x::text like '%ann%'`); left != 0 {
			t.Errorf("%s has the id in %d rows", table, left)
		}
	}
	if diff := cmp.Diff(before, f.allotment(show)); diff != "" {
		t.Errorf("allotment:\n%s", diff)
	}
	sale, err := f.Sale(t.Context(), id)
	if err != nil || !strings.HasPrefix(sale.BuyerID, "erased-") || len(sale.BuyerID) < 30 || sale.RequestID != fmt.Sprintf("request-%d", rows) {
		t.Errorf("sale: %+v, %v", sale, err)
	}
	want := map[string]int64{sale.BuyerID: rows + 1, "bob": 1}
	if diff := cmp.Diff(want, f.totals(100)); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if changes := f.changes(show); changes[0].BuyerID != sale.BuyerID {
		t.Errorf("feed: %+v", changes)
	}
	if n, err := f.EraseBuyer(t.Context(), "ann"); err != nil || n != 0 {
		t.Errorf("again: %d, %v", n, err)
	}
	f.sellTo("ann", rows+2, 1)
	if _, err := f.EraseBuyer(t.Context(), "ann"); err != nil || len(f.totals(100)) != 3 {
		t.Errorf("a buyer who came back is another one: %v, %v", f.totals(100), err)
	}
	var field *store.InvalidField
	if _, err := f.EraseBuyer(t.Context(), ""); !errors.As(err, &field) {
		t.Errorf("nobody: %v, want InvalidField", err)
	}
}

// TestEraseBuyerInterrupted: the second call uses the marker of the first, and two at once share one.
func TestEraseBuyerInterrupted(t *testing.T) {
	t.Parallel()
	f := setup(t, 2000)
	for n := range 30 {
		f.sellTo("ann", n, 1)
	}
	marker, err := f.beginErasure(t.Context(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	f.exec(f.connect(), `update outcomes set buyer_id = $1 where order_id = 'order-7'`, marker)
	each(4, func(int) {
		if _, err := f.EraseBuyer(t.Context(), "ann"); err != nil {
			t.Error(err)
		}
	})
	if diff := cmp.Diff(map[string]int64{marker: 30}, f.totals(0)); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}
