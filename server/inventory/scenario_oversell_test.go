package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// Section A: oversell under concurrency.

// Ten shoppers pressed buy together on quantity 1, and several got it.
func TestS01LastUnitManyBuyers(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(1)
		w.each(10, func(i int) (store.Hold, error) {
			return w.tryHold(i, a, fmt.Sprint("buyer-", i), "r1", 1)
		}).want(t, 1, store.AllHeld, 9)
		w.wantStock(a, 0, 1, 0)
		w.wantAvailableCounter(a, 0)
	})
}

// The check and the allocation were in different transactions, so an old cart could still buy.
func TestS03CheckNowAllocateLater(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(20)
		old := w.hold(a, "ann", "r1", 5)
		w.advance(121 * time.Second)
		w.confirm(w.hold(a, "bob", "r1", 20), "order-b")
		w.advance(9 * time.Second)
		_, err := w.tryConfirm(0, old, "order-a")
		wantRefusal(t, err, store.HoldLapsed)
		w.wantStock(a, 0, 0, 20)
		w.wantSales(a, 1)
	})
}

// A speed-up skipped locking for the simplest request.
func TestS04AShortcutSkipsTheAtomicStep(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(1)
		for round := range 100 {
			got := w.each(50, func(i int) (store.Hold, error) {
				return w.tryHold(i, a, fmt.Sprint("buyer-", i), fmt.Sprint("round-", round), 1)
			})
			got.want(t, 1, store.AllHeld, 49)
			for _, h := range got.granted {
				w.cancel(h)
			}
		}
	})
}

// Each line of a cart was compared with the untouched total.
func TestS05TwoLinesOfOneCartDrawFromOnePool(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(3)
		_, err := w.cart(0, "ann", "r1", line(a, 2), line(a, 2))
		no := wantRefusal(t, err, store.SoldOut)
		if no.Requested != 4 || no.Capacity != 3 || no.Allotment != a {
			t.Errorf("refusal is %+v, want 4 asked of 3", no)
		}
		w.wantStock(a, 3, 0, 0)
		holds, err := w.cart(1, "ann", "r2", line(a, 2), line(a, 1))
		if err != nil || len(holds) != 1 || holds[0].Quantity != 3 {
			t.Errorf("got %+v, %v; want one hold of 3", holds, err)
		}
		w.wantStock(a, 0, 3, 0)
	})
}

// A greater-or-equal test let one extra unit go.
func TestS07OffByOneInTheScript(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		singles := w.open(5)
		for i := range 5 {
			w.hold(singles, fmt.Sprint("buyer-", i), "r1", 1)
		}
		_, err := w.tryHold(0, singles, "buyer-5", "r1", 1)
		wantRefusal(t, err, store.AllHeld)
		w.wantStock(singles, 0, 5, 0)

		whole := w.open(5)
		_, err = w.tryHold(0, whole, "ann", "r1", 6)
		wantRefusal(t, err, store.SoldOut)
		w.hold(whole, "ann", "r2", 5)
		w.wantStock(whole, 0, 5, 0)
	})
}

// Only committed amounts were counted, so pending ones could exceed the balance.
func TestS08HoldsLeftOutOfTheCheck(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(5)
		holds := w.buyers(a, 5)
		_, err := w.tryHold(0, a, "sixth", "r1", 1)
		wantRefusal(t, err, store.AllHeld)
		w.some(5, func(i int) error {
			_, err := w.tryConfirm(i, holds[i], fmt.Sprint("order-", i))
			return err
		})
		w.wantStock(a, 0, 0, 5)
	})
}

// Parallel steps finished before the stock step failed, so an order existed without stock.
func TestS10TheLoserLeavesAnOrderBehind(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(1)
		for round := range 100 {
			request := fmt.Sprint("round-", round)
			got := w.each(2, func(i int) (store.Hold, error) {
				h, err := w.tryHold(i, a, fmt.Sprint("buyer-", i), request, 1)
				if err == nil {
					_, err = w.tryConfirm(i, h, fmt.Sprint(request, "-order-", i))
				}
				return h, err
			})
			if len(got.granted) != 1 || got.refused[store.AllHeld]+got.refused[store.SoldOut] != 1 {
				t.Fatalf("round %d: granted %d, refused %v, trouble %v", round, len(got.granted), got.refused, got.trouble)
			}
			winner := got.granted[0]
			w.wantSales(a, round+1)
			loser := "buyer-0"
			if winner.BuyerID == loser {
				loser = "buyer-1"
			}
			id := store.NewHoldID(a, loser, request)
			_, err := w.at(round).Hold(w.ctx(), id)
			w.wantUnknown(err, a)
			w.cancelSale(winner, "undo", 0)
		}
	})
}
