package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// Section H: capacity and sale state; with S80, S81 and S84: what is shown of it.

func (w *world) adjust(allotment, request string, delta int64, dryRun bool) (store.Allotment, error) {
	return w.next().AdjustCapacity(w.ctx(), store.AdjustCapacity{Allotment: allotment, RequestID: request, Delta: delta, DryRun: dryRun})
}

// Capacity went from 64 to 16 with 44 sold; the next buyer got a server error.
func TestS63CapacityBelowSold(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(64)
		w.confirm(w.hold(a, "early", "r1", 44), "order-0")
		held := w.buyers(a, 5)
		w.wantStock(a, 15, 5, 44)
		for _, dryRun := range []bool{true, false} {
			_, err := w.adjust(a, "cut-1", 16-64, dryRun)
			if no := wantRefusal(t, err, store.CapacityInUse); no.SmallestCapacity != 49 {
				t.Errorf("dry run %v: smallest capacity %d, want 49", dryRun, no.SmallestCapacity)
			}
			w.wantStock(a, 15, 5, 44)
		}
		w.setState(a, store.StatePaused)
		w.some(5, func(i int) error {
			_, err := w.tryConfirm(i, held[i], fmt.Sprint("order-", i+1))
			return err
		})
		w.wantStock(a, 15, 0, 49)
		cut, err := w.adjust(a, "cut-2", 49-64, true)
		if err != nil || cut.Capacity != 49 {
			t.Errorf("dry run of the cut to 49: %d, %v", cut.Capacity, err)
		}
		w.wantStock(a, 15, 0, 49)
		cut, err = w.adjust(a, "cut-2", 49-64, false)
		if err != nil || cut.Capacity != 49 {
			t.Errorf("cut to 49: %d, %v", cut.Capacity, err)
		}
		w.wantStock(a, 0, 0, 49)
		_, err = w.tryHold(0, a, "late", "r1", 1)
		wantRefusal(t, err, store.Paused)
		w.setState(a, store.StateOpen)
		_, err = w.tryHold(1, a, "late", "r1", 1)
		if no := wantRefusal(t, err, store.SoldOut); no.Capacity != 49 || no.Sold != 49 {
			t.Errorf("refusal says %d of %d sold, want 49 of 49", no.Sold, no.Capacity)
		}
	})
}

// Saving an edit page opened before a sale wrote the old stock back. With us only a difference is
// accepted, and other rules only against the version that was read.
func TestS65StaleFormOverwritesLiveSales(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(10)
		read, err := w.at(0).Allotment(w.ctx(), a)
		if err != nil {
			t.Fatal(err)
		}
		before := w.availability(a).Version
		w.confirm(w.hold(a, "ann", "r1", 2), "order-1")
		if after := w.availability(a).Version; after <= before {
			t.Errorf("the sale left the version at %d, it was %d", after, before)
		}
		for range 2 { // the form is saved, and saved again
			if row, err := w.adjust(a, "form-1", +2, false); err != nil || row.Capacity != 12 || row.Sold != 2 {
				t.Errorf("capacity +2: %d with %d sold, %v; want 12, 2", row.Capacity, row.Sold, err)
			}
		}
		w.wantStock(a, 10, 0, 2)

		_, err = w.at(1).UpdateAllotment(w.ctx(), a, read.Version, func(r *store.Rules) error {
			r.MaxPerHold = 1
			return nil
		})
		if no := wantRefusal(t, err, store.StaleEtag); no.Capacity != 12 || no.Sold != 2 || no.Version <= read.Version {
			t.Errorf("refusal is %+v, want the new numbers 12, 2 and a newer version than %d", no, read.Version)
		}
		w.hold(a, "bob", "r1", 2) // the stale rule is not in force
		w.wantStock(a, 8, 2, 2)
	})
}

// After closing, one system blamed "sold out", one refused even to empty the cart, one still sold.
func TestS68SaleClosesWhileHoldsLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	a := w.open(10)
	older := w.hold(a, "carl", "r1", 1)
	h := w.hold(a, "ann", "r1", 1)
	closes := h.CreateTime.Add(60 * time.Second)
	row, err := w.at(0).Allotment(w.ctx(), a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.at(0).UpdateAllotment(w.ctx(), a, row.Version, func(r *store.Rules) error {
		r.ClosesAt = closes
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.advanceTo(h.CreateTime.Add(70 * time.Second))
	w.confirm(h, "order-1")
	_, err = w.tryHold(0, a, "bob", "r1", 1)
	if no := wantRefusal(t, err, store.Closed); !no.ClosesAt.Equal(closes) {
		t.Errorf("refusal says it closed at %v, want %v", no.ClosesAt, closes)
	}
	_, err = w.at(0).ExtendHold(w.ctx(), older.ID)
	wantRefusal(t, err, store.Closed)
	if ended := w.cancel(older); ended.State != store.Cancelled {
		t.Errorf("released hold is %+v", ended)
	}
	w.wantStock(a, 9, 0, 1)
}

// The page said in stock while every unit was held, and the cart then refused.
func TestS80ShownAsFreeRefusedInTheCart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	a := w.open(10)
	w.hold(a, "ann", "r1", 5)
	w.wantStock(a, 5, 5, 0)
	_, err := w.tryHold(0, a, "bob", "r1", 6)
	if no := wantRefusal(t, err, store.AllHeld); no.Held != 5 || no.Requested != 6 || no.Capacity != 10 {
		t.Errorf("refusal is %+v, want 6 asked, 5 held of 10", no)
	}
	w.hold(a, "bob", "r2", 5)
}

// Expired reservations were deleted, so that a late payment could not be matched.
func TestS81ExpiredHoldVanishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	a := w.open(10)
	h := w.hold(a, "ann", "r1", 3)
	w.hold(a, "bob", "r1", 1)
	w.advance(time.Hour + 120*time.Second)
	w.wantStock(a, 10, 0, 0)
	listed, rest, err := w.at(0).ListHolds(w.ctx(), store.HoldFilter{Allotment: a, BuyerID: "ann"}, "", 10)
	if err != nil || len(listed) != 1 || rest != "" {
		t.Fatalf("search by buyer: %+v, rest %q, %v; want one hold", listed, rest, err)
	}
	for _, got := range []store.Hold{w.get(h), listed[0]} {
		want := h
		want.State = store.Lapsed
		wantSame(t, got, want)
		if got.BuyerID != "ann" || got.RequestID != "r1" || got.Quantity != 3 || got.Remaining != 0 {
			t.Errorf("got %+v, want key, quantity and times of %+v", got, h)
		}
	}
}

// A flag copied from the pending record stayed set after commit or void.
func TestS84EndedItemStillMarkedPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	a := w.open(10)
	sold, released := w.hold(a, "ann", "r1", 1), w.hold(a, "bob", "r1", 1)
	w.confirm(sold, "order-1")
	w.cancel(released)
	w.wantState(sold, store.Sold)
	w.wantState(released, store.Cancelled)
	live := store.HoldFilter{Allotment: a, States: []store.HoldState{store.Held, store.Confirming}}
	listed, _, err := w.at(0).ListHolds(w.ctx(), live, "", 10)
	if err != nil || len(listed) != 0 {
		t.Errorf("live holds: %+v, %v; want none", listed, err)
	}
	all, _, err := w.at(0).ListHolds(w.ctx(), store.HoldFilter{Allotment: a}, "", 10)
	if err != nil || len(all) != 2 {
		t.Errorf("all holds: %+v, %v; want two", all, err)
	}
	w.wantStock(a, 9, 0, 1)
}
