package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// Section F: limits and quantities. S56 and S58 are about the transport's validation: package server has them.

// With a one-ticket limit a person could keep buying one at a time.
func TestS52LimitPerOrderNotPerBuyer(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(10, limit(1))
		h := w.hold(a, "xavier", "r1", 1)
		w.confirm(h, "order-1")
		_, err := w.tryHold(0, a, "xavier", "r2", 1)
		no := wantRefusal(t, err, store.BuyerLimit)
		if no.Limit != 1 || no.BuyerSold != 1 || no.BuyerHeld != 0 || no.HoldID != "" {
			t.Errorf("refusal is %+v, want 1 sold of 1", no)
		}
		w.cancelSale(h, "c1", 0)
		w.hold(a, "xavier", "r2", 1)
		w.wantStock(a, 9, 1, 0)
	})
}

// The limit was read without a lock and the failed increment ignored.
func TestS53LimitPassedByParallelRequests(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(10, limit(2))
		w.each(5, func(i int) (store.Hold, error) {
			return w.tryHold(i, a, "xavier", fmt.Sprint("r", i), 1)
		}).want(t, 2, store.BuyerLimit, 3)
		w.wantStock(a, 8, 2, 0)
	})
}

// Usage counted only at payment, so two unpaid orders both passed.
func TestS54LimitPassedByUnpaidHolds(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(10, limit(1))
		h := w.hold(a, "xavier", "r1", 1)
		_, err := w.tryHold(0, a, "xavier", "r2", 1)
		if no := wantRefusal(t, err, store.BuyerLimit); no.HoldID != h.ID.String() {
			t.Errorf("refusal names %q, want the live hold %s", no.HoldID, h.ID)
		}
		w.advance(121 * time.Second)
		w.hold(a, "xavier", "r2", 1)
		_, err = w.tryConfirm(0, h, "order-1") // late: taken again only if the limit allows
		wantRefusal(t, err, store.HoldLapsed)
		w.wantStock(a, 9, 1, 0)
	}, withOptions(quiet))
}

// Changing the form value bought 600 and more with a limit of 10.
func TestS55LimitOnlyInThePage(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(1000, limit(10))
		_, err := w.tryHold(0, a, "xavier", "r1", 200)
		wantRefusal(t, err, store.BuyerLimit)
		w.hold(a, "yvonne", "r1", 10)
		_, err = w.tryHold(1, a, "yvonne", "r2", 1)
		wantRefusal(t, err, store.BuyerLimit)
		_, err = w.cart(0, "zoe", "r1", line(a, 6), line(a, 5))
		wantRefusal(t, err, store.BuyerLimit)
		w.wantStock(a, 990, 10, 0)
	})
}
