package inventory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// Section D: double return of stock.

// Repeated voids were accepted.
func TestS33ReleaseThreeTimes(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(10)
		h := w.hold(a, "ann", "r1", 2)
		got := w.each(2, func(i int) (store.Hold, error) { return w.at(i).CancelHold(w.ctx(), h.ID) })
		got.want(t, 2, "", 0)
		w.wantStock(a, 10, 0, 0)
		got.granted = append(got.granted, w.cancel(h))
		for _, ended := range got.granted {
			wantSame(t, ended, got.granted[0])
			if ended.ID != h.ID || ended.State != store.Cancelled {
				t.Errorf("a release answered with %+v, want the cancelled hold", ended)
			}
		}
		w.advance(121 * time.Second)
		for i := range w.replicas { // the notice reaches every replica
			n, err := w.at(i).holds.Release(w.ctx(), w.place(a), []store.HoldID{h.ID}, store.LapseByEvent)
			if n != 0 || err != nil {
				t.Errorf("the expiry notice released %d holds, %v; want none", n, err)
			}
		}
		w.wantStock(a, 10, 0, 0)
		w.wantAvailableCounter(a, 10)
		w.wantState(h, store.Cancelled)
	})
}

// Shipping and cancelling each wrote a compensating entry.
func TestS35CancelAfterTheSaleGaveBackTwice(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(100)
		h := w.hold(a, "ann", "r1", 5)
		w.confirm(h, "order-1")
		_, err := w.at(1).CancelHold(w.ctx(), h.ID)
		wantRefusal(t, err, store.HoldSold)
		w.wantStock(a, 95, 0, 5)
	})
}

// Refunding in steps restocked more than was bought.
func TestS36PartialRefundsExceedThePurchase(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(10)
		first, second, third := w.hold(a, "ann", "r1", 2), w.hold(a, "ann", "r2", 2), w.hold(a, "ann", "r3", 2)
		w.confirm(first, "order-1")
		w.confirm(second, "order-2")
		w.confirm(third, "order-3")
		w.wantStock(a, 4, 0, 6)

		if s := w.cancelSale(first, "c1", 2); s.Cancelled != 2 {
			t.Errorf("cancelled %d, want 2", s.Cancelled)
		}
		_, err := w.at(1).CancelSale(w.ctx(), store.CancelSale{ID: first.ID, RequestID: "c2", Quantity: 1})
		wantRefusal(t, err, store.SaleCancelled)
		w.cancelSale(first, "c1", 2) // a repeat
		w.wantStock(a, 6, 0, 4)

		var answers [2]error
		together(2, func(i int) {
			_, answers[i] = w.at(i).CancelSale(w.ctx(), store.CancelSale{ID: second.ID, RequestID: []string{"c1", "c2"}[i], Quantity: 2})
		})
		if (answers[0] == nil) == (answers[1] == nil) {
			t.Errorf("two cancellations of 2 of 2 at once: %v, %v; want one granted", answers[0], answers[1])
		}
		wantRefusal(t, errors.Join(answers[:]...), store.SaleCancelled)
		w.wantStock(a, 8, 0, 2)

		w.cancelSale(third, "c1", 1)
		_, err = w.at(1).CancelSale(w.ctx(), store.CancelSale{ID: third.ID, RequestID: "c2", Quantity: 2})
		var field *store.InvalidField
		if !errors.As(err, &field) || field.Field != "quantity" {
			t.Errorf("cancel 2 of 1 left: got %v, want quantity named", err)
		}
		if s := w.cancelSale(third, "c3", 0); s.Cancelled != 2 {
			t.Errorf("cancelled %d, want 2", s.Cancelled)
		}
		w.wantStock(a, 10, 0, 0)
		w.wantAvailableCounter(a, 10)
	})
}

// After taking 7 of 10, the cancel gave back 10 in one case and 0 in another.
func TestS38PartialConfirmReturnsAllOrNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	a := w.open(100)
	h := w.hold(a, "ann", "r1", 10)
	s, err := w.at(0).ConfirmHold(w.ctx(), store.ConfirmHold{ID: h.ID, OrderID: "order-1", Quantity: 7})
	if err != nil || s.Quantity != 7 {
		t.Fatalf("sale of 7 is %+v, %v", s, err)
	}
	w.wantStock(a, 93, 0, 7)
	_, err = w.at(0).CancelHold(w.ctx(), h.ID)
	wantRefusal(t, err, store.HoldSold)
	w.advance(121 * time.Second)
	w.wantStock(a, 93, 0, 7)
}

// Release counted records, not quantities.
func TestS39OneUnitComesBackInsteadOfFour(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(10)
		w.hold(a, "ann", "r1", 4)
		w.advance(121 * time.Second)
		w.wantStock(a, 10, 0, 0)
		h := w.hold(a, "ann", "r2", 4)
		w.wantStock(a, 6, 4, 0)
		w.cancel(h)
		w.wantStock(a, 10, 0, 0)
	})
}

// Cancelling what was never allocated made the allocated count negative.
func TestS40ReleasingWhatWasNeverTaken(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(10)
		_, err := w.at(0).CancelHold(w.ctx(), store.NewHoldID(a, "nobody", "r1"))
		w.wantUnknown(err, a)
		_, err = w.tryHold(0, a, "ann", "r1", 11)
		wantRefusal(t, err, store.SoldOut)
		_, err = w.at(1).CancelHold(w.ctx(), store.NewHoldID(a, "ann", "r1"))
		w.wantUnknown(err, a)
		_, err = w.at(0).CancelHold(w.ctx(), store.NewHoldID("no-such-allotment", "ann", "r1"))
		wantRefusal(t, err, store.HoldNotFound)
		w.wantStock(a, 10, 0, 0)
		w.wantAvailableCounter(a, 10)
	})
}

// A sale that is cancelled before Redis has heard of it: the counters pass below 0, and no answer shows it.
func TestCancelledBeforeItsConfirmIsFinished(t *testing.T) {
	w := newWorld(t, 1)
	a := w.open(10)
	h, r := w.hold(a, "ann", "r1", 2), w.at(0)
	placed := store.PlacedHold{Place: w.place(a), ID: h.ID}
	begun, err := r.holds.Begin(w.ctx(), store.BeginRequest{OrderID: "order-1", Holds: []store.PlacedHold{placed}, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	verdicts, err := r.ledger.Settle(w.ctx(), a, store.Confirm{OrderID: "order-1", Lines: []store.ConfirmLine{{
		ID: h.ID, BuyerID: "ann", RequestID: "r1", Quantity: 2, Held: 2, Token: begun[0].Token, Epoch: begun[0].Epoch, CreateTime: h.CreateTime,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	w.cancelSale(h, "c1", 0)
	w.wantStock(a, 10, 0, 0)
	_, err = w.tryHold(0, a, "bob", "r1", 11)
	if no := wantRefusal(t, err, store.SoldOut, store.AllHeld); no.Sold != 0 || no.Held != 0 {
		t.Errorf("a refusal tells of %d sold and %d held, want none", no.Sold, no.Held)
	}
	if err := r.holds.Finish(w.ctx(), []store.FinishLine{{PlacedHold: placed, Verdict: verdicts[0]}}); err != nil {
		t.Fatal(err)
	}
	w.wantStock(a, 10, 0, 0)
}
