package ledger

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
)

func (f *fixture) cancel(id store.HoldID, request string, quantity int64) (store.Sale, int64, error) {
	f.t.Helper()
	return f.CancelSale(f.t.Context(), store.CancelSale{ID: id, RequestID: request, Quantity: quantity})
}

func (f *fixture) changes(id string) []store.Change {
	f.t.Helper()
	changes, err := f.Changes(f.t.Context(), id, 0, 100)
	if err != nil {
		f.t.Fatal(err)
	}
	return changes
}

func TestCancelSaleInParts(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	id := f.sell(1, 5)
	for i, c := range []struct {
		request   string
		quantity  int64
		cancelled int64 // after it
		number    int64
	}{
		{"r1", 2, 2, 1},
		{"r2", 1, 3, 2},
		{"r1", 2, 3, 1}, // a repeat: the sale as it is now, the first number
		{"r3", 0, 5, 3}, // the rest
		{"r3", 0, 5, 3},
		{"r2", 1, 5, 2},
	} {
		sale, number, err := f.cancel(id, c.request, c.quantity)
		if err != nil || sale.Cancelled != c.cancelled || sale.Quantity != 5 || number != c.number || sale.CancelTime.IsZero() {
			t.Errorf("step %d: %+v, number %d, %v", i, sale, number, err)
		}
		f.wantSold(5 - c.cancelled)
	}
	want := []store.Change{
		{Number: 1, Kind: store.ChangeCancel, Quantity: 2, BuyerID: "buyer-1"},
		{Number: 2, Kind: store.ChangeCancel, Quantity: 1, BuyerID: "buyer-1"},
		{Number: 3, Kind: store.ChangeCancel, Quantity: 2, BuyerID: "buyer-1"},
	}
	if diff := cmp.Diff(want, f.changes(show)); diff != "" {
		t.Errorf("feed (-want +got):\n%s", diff)
	}
	if version := f.allotment(show).Version; version != 1 {
		t.Errorf("version %d: an operator's etag is not to change with sales", version)
	}
}

// TestCancelSaleRefused: what is refused changes nothing, and its request id is free for another try.
func TestCancelSaleRefused(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	id, all := f.sell(1, 5), f.sell(2, 1)
	if _, _, err := f.cancel(id, "r1", 2); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.cancel(id, "r0", 0); err != nil {
		t.Fatal(err)
	}
	var field *store.InvalidField
	for _, c := range []struct {
		name     string
		id       store.HoldID
		request  string
		quantity int64
		want     store.Reason // empty: InvalidField
	}{
		{"another quantity", id, "r1", 3, store.RequestMismatch},
		{"the rest instead of a quantity", id, "r1", 0, store.RequestMismatch},
		{"a quantity instead of the rest", id, "r0", 3, store.RequestMismatch},
		{"nothing left", id, "new", 1, store.SaleCancelled},
		{"nothing left of the rest", id, "new", 0, store.SaleCancelled},
		{"more than is left", all, "new", 2, ""},
		{"negative", all, "new", -1, ""},
	} {
		_, _, err := f.cancel(c.id, c.request, c.quantity)
		if c.want != "" && store.Refused(err, c.want) == nil || c.want == "" && (!errors.As(err, &field) || field.Field != "quantity") {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	if _, _, err := f.cancel(all, "new", 1); err != nil {
		t.Errorf("the request id of a refused one: %v", err)
	}
	f.wantSold(0)
	if got := f.allotment(show).Feed; got != 3 {
		t.Errorf("feed %d, want 3", got)
	}
}

// TestTwoFullCancelsAtOnce is S36: of a sale of 2, 2 come back.
func TestTwoFullCancelsAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, 40)
	second := setupAt(t, f.url)
	ids := make([]store.HoldID, 10)
	for n := range ids {
		ids[n] = f.sell(n, 2)
	}
	var mu sync.Mutex
	refused := 0
	each(40, func(i int) {
		l, quantity := f.Ledger, int64(0)
		if i%2 == 1 {
			l, quantity = second.Ledger, 2
		}
		_, _, err := l.CancelSale(t.Context(), store.CancelSale{ID: ids[i/4], RequestID: fmt.Sprint(i), Quantity: quantity})
		mu.Lock()
		defer mu.Unlock()
		if store.Refused(err, store.SaleCancelled) != nil {
			refused++
		} else if err != nil {
			t.Errorf("cancel %d: %v", i, err)
		}
	})
	if refused != 30 {
		t.Errorf("%d refused, want 30", refused)
	}
	f.wantSold(0)
	var returned, number int64
	for _, c := range f.changes(show) {
		if number++; c.Number != number {
			t.Errorf("feed number %d after %d", c.Number, number-1)
		}
		returned += c.Quantity
	}
	if returned != 20 {
		t.Errorf("%d units returned, want 20", returned)
	}
}

// TestSameCancelAtOnce: one request sent many times cancels once.
func TestSameCancelAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	id := f.sell(1, 5)
	each(20, func(int) {
		if sale, number, err := f.CancelSale(t.Context(), store.CancelSale{ID: id, RequestID: "r", Quantity: 2}); err != nil ||
			sale.Cancelled != 2 || number != 1 {
			t.Errorf("%+v, %d, %v", sale, number, err)
		}
	})
	f.wantSold(3)
}

// TestSoldAgainAfterCancel: the units are free at once; the order that cancelled has bought all the same.
func TestSoldAgainAfterCancel(t *testing.T) {
	t.Parallel()
	f := setup(t, 2)
	id := f.sell(1, 2)
	if _, _, err := f.cancel(id, "r", 0); err != nil {
		t.Fatal(err)
	}
	f.sell(2, 2)
	if v := f.settle(order("order-1", line(show, 3, 1))); v[0].Kind != refusedOrder || v[0].Other != id.String() {
		t.Errorf("the same order again: %+v", v[0])
	}
	if v := f.settle(single(1, 2)); v[0].Kind != sold || v[0].Sale.Cancelled != 2 {
		t.Errorf("the cancelled sale confirmed again: %+v", v[0])
	}
	f.wantSold(2)
}
