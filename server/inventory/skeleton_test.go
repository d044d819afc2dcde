package inventory_test

import (
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
)

// TestMainJob is a hold, its sale, a sold-out refusal and a cancellation, end to end.
func TestMainJob(t *testing.T) {
	w := newWorld(t, 1)
	a := w.open(2)
	h := w.hold(a, "ann", "r1", 2)
	if h.State != store.Held || h.Remaining <= 0 || h.Token.Epoch != 1 {
		t.Errorf("hold is %+v", h)
	}
	w.wantStock(a, 0, 2, 0)
	_, err := w.tryHold(0, a, "bob", "r1", 1)
	no := wantRefusal(t, err, store.AllHeld)
	if no.NextLapse.IsZero() || no.Held != 2 || no.HoldID != "" {
		t.Errorf("refusal is %+v", no)
	}
	s := w.confirm(h, "order-1")
	if s.Quantity != 2 || s.BuyerID != "ann" || s.OrderID != "order-1" || s.Token != h.Token {
		t.Errorf("sale is %+v", s)
	}
	w.wantStock(a, 0, 0, 2)
	_, err = w.tryHold(0, a, "bob", "r1", 1)
	wantRefusal(t, err, store.SoldOut)
	s, err = w.at(0).CancelSale(w.ctx(), store.CancelSale{ID: h.ID, RequestID: "c1"})
	if err != nil || s.Cancelled != 2 {
		t.Errorf("cancelled sale is %+v, %v", s, err)
	}
	w.wantStock(a, 2, 0, 0)
}
