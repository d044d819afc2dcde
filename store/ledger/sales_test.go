package ledger

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
)

func TestSale(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	id := f.sell(1, 2)
	if s, err := f.Sale(t.Context(), id); err != nil || s.ID != id || s.Quantity != 2 || s.Cancelled != 0 || !s.CancelTime.IsZero() {
		t.Errorf("%+v, %v", s, err)
	}
	f.settle(single(2, 20))
	for name, id := range map[string]store.HoldID{"unknown": line(show, 3, 1).ID, "refused": line(show, 2, 1).ID, "of no allotment": unknown.ID} {
		_, err := f.Sale(t.Context(), id)
		if r := store.Refused(err, store.SaleNotFound); r == nil || r.HoldID != id.String() {
			t.Errorf("%s: %v, want SaleNotFound", name, err)
		}
		if _, _, err := f.cancel(id, "r", 1); store.Refused(err, store.SaleNotFound) == nil {
			t.Errorf("cancel %s: %v, want SaleNotFound", name, err)
		}
	}
}

func TestListSales(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	f.create("show-2", 100) // its hold ids sort among those of show but for the dot
	buyers := []string{"ann", "bob"}
	total := map[store.SaleFilter]int{}
	for n := range 24 {
		l := line([]string{show, "show-2"}[n%2], n, 1)
		l.BuyerID = buyers[n/2%2]
		c := order(fmt.Sprintf("order-%d", n/4), l)
		if n/2%2 == 1 {
			c.OrderID += "b"
		}
		if v := f.settle(c); v[0].Kind != sold {
			t.Fatalf("sale %d: %v", n, v[0].Kind)
		}
		for mask := range 8 {
			total[filter(mask, store.SaleFilter{Allotment: l.ID.Allotment, BuyerID: l.BuyerID, OrderID: c.OrderID})]++
		}
	}
	f.settle(order("refused", line(show, 99, 500)))
	f.settle(order("", shrink(show, "cut", 1)))
	total[store.SaleFilter{OrderID: "refused"}] = 0
	for want, n := range total {
		seen, after := 0, ""
		for {
			page, err := f.ListSales(t.Context(), want, after, 5)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page {
				got := store.SaleFilter{Allotment: s.ID.Allotment, BuyerID: s.BuyerID, OrderID: s.OrderID}
				if s.ID.String() <= after || filter(maskOf(want), got) != want {
					t.Errorf("%+v: got %+v after %s", want, s, after)
				}
				after = s.ID.String()
			}
			seen += len(page)
			if len(page) < 5 {
				break
			}
		}
		if seen != n {
			t.Errorf("%+v: %d sales, want %d", want, seen, n)
		}
	}
}

// filter keeps the fields that mask names.
func filter(mask int, f store.SaleFilter) store.SaleFilter {
	if mask&1 == 0 {
		f.Allotment = ""
	}
	if mask&2 == 0 {
		f.BuyerID = ""
	}
	if mask&4 == 0 {
		f.OrderID = ""
	}
	return f
}

func maskOf(f store.SaleFilter) (mask int) {
	for i, field := range []string{f.Allotment, f.BuyerID, f.OrderID} {
		if field != "" {
			mask |= 1 << i
		}
	}
	return mask
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	f.create(other, 10)
	f.sell(1, 2)
	f.settle(single(2, 50))
	f.settle(order("order-1", line(show, 3, 1)))
	f.settle(order("", shrink(show, "cut", 1)))
	f.settle(order("o", line(other, 1, 1)))
	tags := []string{line(show, 1, 1).ID.Tag, line(show, 2, 1).ID.Tag, line(show, 3, 1).ID.Tag, line(show, 4, 1).ID.Tag,
		shrink(show, "cut", 1).ID.Tag, line(other, 1, 1).ID.Tag}
	got, err := f.Outcomes(t.Context(), show, tags)
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Outcome{
		{ID: line(show, 1, 1).ID, Verdict: store.Verdict{Kind: sold, Token: store.Token{Epoch: 1, Sequence: 1}}, BuyerID: "buyer-1",
			RequestID: "request-1", OrderID: "order-1", Quantity: 2, Held: 3, Cart: "cart", CreateTime: holdTime},
		{ID: line(show, 2, 1).ID, Verdict: store.Verdict{Kind: refusedRoom, Token: store.Token{Epoch: 1, Sequence: 2}},
			BuyerID: "buyer-2", RequestID: "request-2", OrderID: "order-2", Quantity: 50, Held: 51, Cart: "cart",
			CreateTime: holdTime},
		{ID: line(show, 3, 1).ID, Verdict: store.Verdict{Kind: refusedOrder, Token: store.Token{Epoch: 1, Sequence: 3},
			Other: line(show, 1, 1).ID.String()}, BuyerID: "buyer-3", RequestID: "request-3", OrderID: "order-1", Quantity: 1,
			Held: 2, Cart: "cart", CreateTime: holdTime},
		{ID: shrink(show, "cut", 1).ID, Verdict: store.Verdict{Kind: sold, Token: store.Token{Epoch: 1, Sequence: 1}},
			RequestID: "cut", Quantity: 1, Shrink: true},
	}
	if len(got) != len(want) {
		t.Errorf("%d outcomes, want %d", len(got), len(want))
	}
	for _, w := range want {
		o := got[w.ID.Tag]
		w.DecidedAt = o.DecidedAt
		if w.Verdict.Kind == sold {
			w.Verdict.Sale = saleOf(w)
		}
		if diff := cmp.Diff(w, o); diff != "" || o.DecidedAt.IsZero() {
			t.Errorf("outcome (-want +got):\n%s", diff)
		}
	}
	if none, err := f.Outcomes(t.Context(), show, nil); err != nil || len(none) != 0 {
		t.Errorf("of no holds: %v, %v", none, err)
	}
}
