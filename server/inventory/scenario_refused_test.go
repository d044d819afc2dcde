package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// Section B: valid requests refused while stock remains.

// A burst pushed the counter far below zero, so that returned units could not be sold.
func TestS11DecrementFirstCheckLater(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(10)
		got := w.each(100, func(i int) (store.Hold, error) {
			return w.tryHold(i, a, fmt.Sprint("buyer-", i), "r1", 1)
		})
		got.want(t, 10, store.AllHeld, 90)
		w.wantStock(a, 0, 10, 0)
		w.wantAvailableCounter(a, 0)
		w.cancel(got.granted[0])
		w.hold(a, "last", "r1", 1)
	})
}

// While a failing cart was being rolled back, a buyer who would have fitted was refused.
func TestS12ABigRequestBrieflyHidesStock(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a1, a2 := w.pair(2, 1000)
		for round := range 500 {
			request := fmt.Sprint("round-", round)
			var cartErr, err error
			var h store.Hold
			together(2, func(i int) {
				if i == 0 {
					_, cartErr = w.cart(round, "xavier", request, line(a2, 1), line(a1, 3))
					return
				}
				h, err = w.tryHold(round+1, a1, "bob", request, 2)
			})
			no := wantRefusal(t, cartErr, store.SoldOut)
			if no.Allotment != a1 || err != nil {
				t.Fatalf("round %d: cart was refused for %s, bob got %v", round, no.Allotment, err)
			}
			w.cancel(h)
		}
		w.wantStock(a2, 1000, 0, 0)
	})
}

// Stock was taken before the "already bought" check and not given back.
func TestS14ClicksOverTheLimitEatStock(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(100, limit(1))
		w.confirm(w.hold(a, "xavier", "first", 1), "order-1")
		w.each(99, func(i int) (store.Hold, error) {
			return w.tryHold(i, a, "xavier", fmt.Sprint("click-", i), 1)
		}).want(t, 0, store.BuyerLimit, 99)
		w.wantStock(a, 99, 0, 1)
	})
}

// One pool with a negative rest made checkout fail for products outside it.
func TestS15OneBrokenAllotmentBlocksTheOthers(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a1, a2 := w.pair(5, 10)
		w.confirm(w.hold(a1, "ann", "r1", 5), "order-1")
		w.query("alter table allotments drop constraint allotments_never_oversold", nil)
		w.query("update allotments set capacity = 3 where id = $1", []any{a1})
		w.reconcile(a1, true)

		w.hold(a2, "bob", "r1", 1)
		if a := w.availability(a1); a.Available != 0 || a.Sold != 5 || a.Capacity != 3 {
			t.Errorf("the broken allotment shows %+v, want 0 of 3 available, 5 sold", a)
		}
		_, err := w.tryHold(0, a1, "bob", "r1", 1)
		wantRefusal(t, err, store.SoldOut)
		found := w.reconcile(a1, false)
		if !has(found, store.FindingOversold, 2) {
			t.Errorf("reconcile finds %+v, want the allotment over by 2", found)
		}

		w.query("update allotments set capacity = 5 where id = $1", []any{a1}) // for the promises
		w.reconcile(a1, true)
	})
}

// After a failed payment the buyer's own hold counted against the second try.
func TestS16BlockedByYourOwnHold(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		w.stopClock()
		a := w.open(1)
		h := w.hold(a, "ann", "r1", 1)
		w.advance(30 * time.Second) // the payment fails
		again := w.hold(a, "ann", "r1", 1)
		wantSame(t, again, h)
		_, err := w.tryHold(1, a, "ann", "r2", 1)
		no := wantRefusal(t, err, store.AllHeld)
		if no.HoldID != h.ID.String() || no.HoldRemaining.Round(time.Second) != 90*time.Second {
			t.Errorf("refusal names hold %q with %v left, want %s with 90 s", no.HoldID, no.HoldRemaining, h.ID)
		}
		w.wantStock(a, 0, 1, 0)
	})
}
