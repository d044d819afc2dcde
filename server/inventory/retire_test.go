package inventory_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestRetire: an allotment that has been CLOSED for the retention, with nothing live, leaves Redis
// and is answered from the ledger; its sales can still be cancelled; reopening brings it back. Its version tells of
// each change all the while.
func TestRetire(t *testing.T) {
	w := newWorld(t, 2, withOptions(func(o *inventory.Options) { o.Retention = 50 * time.Millisecond }))
	a := w.open(3)
	last := w.availability(a).Version
	risen := func(after string) {
		t.Helper()
		now := w.availability(a).Version
		if now <= last {
			t.Errorf("version %d after %s, before that %d", now, after, last)
		}
		last = now
	}
	sold := w.hold(a, "ann", "r", 2)
	w.confirm(sold, "order-1")
	w.setState(a, store.StateClosed)
	w.advance(25 * time.Hour) // ended holds are forgotten after the retention of the hold store, 24 h

	storetest.Eventually(t, 3*patience, func() error {
		keys, err := w.raw.Keys(w.ctx(), "hf:{"+a+"}:*").Result()
		if err == nil && len(keys) > 0 {
			err = fmt.Errorf("still in Redis: %v", keys)
		}
		return err
	})
	risen("retirement")
	w.wantStock(a, 1, 0, 2)
	_, err := w.tryHold(1, a, "bob", "r", 1)
	wantRefusal(t, err, store.Closed)
	if s, err := w.at(1).ConfirmHold(w.ctx(), store.ConfirmHold{ID: sold.ID, OrderID: "order-1"}); err != nil || s.Quantity != 2 {
		t.Errorf("confirm repeated after retirement: %+v, %v", s, err)
	}
	if h, err := w.at(1).Hold(w.ctx(), sold.ID); err != nil || h.State != store.Sold || h.Quantity != 2 {
		t.Errorf("the sold hold: %+v, %v", h, err)
	}
	for left := int64(1); left >= 0; left-- {
		request := fmt.Sprint("c", left)
		if _, err := w.at(0).CancelSale(w.ctx(), store.CancelSale{ID: sold.ID, RequestID: request, Quantity: 1}); err != nil {
			t.Errorf("cancel a sale of a retired allotment: %v", err)
		}
		w.wantStock(a, 3-left, 0, left)
		risen("a cancelled unit")
	}
	if holds, _, err := w.at(0).ListHolds(w.ctx(), store.HoldFilter{Allotment: a}, "", 10); err != nil || len(holds) > 0 {
		t.Errorf("ListHolds: %v, %v", holds, err)
	}
	w.setState(a, store.StateOpen)
	risen("opening again")
	w.hold(a, "bob", "r", 3)
	w.wantStock(a, 0, 3, 0)
}

// TestReopenBeforeLeft: whoever noted an allotment as retired died before it left Redis. What comes back until it is reopened
// does not go to Redis, so that state must not be put in force again.
func TestReopenBeforeLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	r := w.start(false) // no supervisor removes the state
	a := w.open(3)
	sold := w.hold(a, "ann", "r", 3)
	w.confirm(sold, "order-1")
	w.setState(a, store.StateClosed)
	row, err := r.Allotment(w.ctx(), a)
	if err = errors.Join(err, r.ledger.Retire(w.ctx(), a, row.Epoch)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.CancelSale(w.ctx(), store.CancelSale{ID: sold.ID, RequestID: "c", Quantity: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.AdjustCapacity(w.ctx(), store.AdjustCapacity{Allotment: a, RequestID: "g", Delta: 1}); err != nil {
		t.Fatal(err)
	}
	w.setState(a, store.StateOpen)
	w.hold(a, "bob", "r", 3)
	w.wantStock(a, 0, 3, 1)
}
