package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestUnknownAndUnsold: a hold that nobody knows is HOLD_NOT_FOUND in every call; one that was not sold has no sale,
// but that is not said while it is CONFIRMING.
func TestUnknownAndUnsold(t *testing.T) {
	w := newWorld(t, 1, withOptions(quiet))
	a := w.open(5)
	calls := map[string]func(ctx context.Context, id store.HoldID) error{
		"GetHold":    func(ctx context.Context, id store.HoldID) error { _, err := w.at(0).Hold(ctx, id); return err },
		"ExtendHold": func(ctx context.Context, id store.HoldID) error { _, err := w.at(0).ExtendHold(ctx, id); return err },
		"CancelHold": func(ctx context.Context, id store.HoldID) error { _, err := w.at(0).CancelHold(ctx, id); return err },
		"ConfirmHold": func(ctx context.Context, id store.HoldID) error {
			_, err := w.at(0).ConfirmHold(ctx, store.ConfirmHold{ID: id, OrderID: "order-1"})
			return err
		},
		"GetSale": func(ctx context.Context, id store.HoldID) error { _, err := w.at(0).Sale(ctx, id); return err },
		"CancelSale": func(ctx context.Context, id store.HoldID) error {
			_, err := w.at(0).CancelSale(ctx, store.CancelSale{ID: id, RequestID: "c"})
			return err
		},
	}
	for name, call := range calls {
		w.wantUnknown(call(w.ctx(), store.NewHoldID(a, "nobody", "r")), a)
		err := call(w.ctx(), store.NewHoldID("no-such-allotment", "ann", "r"))
		if no := wantRefusal(t, err, store.HoldNotFound); no.HoldID == "" {
			t.Errorf("%s names no hold", name)
		}
	}

	held, lapsed := w.hold(a, "ann", "r", 1), w.hold(a, "bob", "r", 1)
	begun := w.hold(a, "cid", "r", 1)
	w.advance(119 * time.Second)
	if _, err := w.at(0).ExtendHold(w.ctx(), held.ID); err != nil {
		t.Fatal(err)
	}
	place := store.PlacedHold{Place: w.place(a), ID: begun.ID}
	if _, err := w.at(0).holds.Begin(w.ctx(), store.BeginRequest{
		OrderID: "order-1", Holds: []store.PlacedHold{place}, Lease: time.Hour,
	}); err != nil {
		t.Fatal(err)
	}
	w.advance(2 * time.Second)
	for _, name := range []string{"GetSale", "CancelSale"} {
		for _, h := range []store.Hold{held, lapsed} {
			wantRefusal(t, calls[name](w.ctx(), h.ID), store.SaleNotFound)
		}
		if no := wantRefusal(t, calls[name](w.ctx(), begun.ID), store.HoldConfirming); no.OrderID != "order-1" {
			t.Errorf("%s names order %q of the confirm under way", name, no.OrderID)
		}
	}
	w.advance(2 * time.Hour)
}

// TestSoldHoldNamesItsOrder, when Redis has forgotten the hold and the ledger answers.
func TestSoldHoldNamesItsOrder(t *testing.T) {
	w := newWorld(t, 1)
	a := w.open(5)
	h := w.hold(a, "ann", "r", 1)
	w.confirm(h, "order-1")
	w.advance(25 * time.Hour)
	w.until(func() error { return w.gone(h) })
	_, cancelled := w.at(0).CancelHold(w.ctx(), h.ID)
	_, extended := w.at(0).ExtendHold(w.ctx(), h.ID)
	for _, err := range []error{cancelled, extended} {
		if no := wantRefusal(t, err, store.HoldSold); no.OrderID != "order-1" {
			t.Errorf("refusal names order %q", no.OrderID)
		}
	}
}

// gone returns nil when Redis has forgotten a hold.
func (w *world) gone(h store.Hold) error {
	_, err := w.at(0).holds.Get(w.ctx(), store.PlacedHold{Place: w.place(h.ID.Allotment), ID: h.ID})
	if store.Refused(err, store.HoldNotFound) == nil {
		return errors.Join(errors.New("Redis still has the hold"), err)
	}
	return nil
}

// TestOneRequestThreeChanges: of changes of a capacity that come at once with the same request id, one is made, and the
// others are told so.
func TestOneRequestThreeChanges(t *testing.T) {
	w := newWorld(t, 2)
	a, want := w.open(1000), int64(1000)
	deltas := []int64{5, -5, -3}
	for n := range 60 {
		var errs [3]error
		together(len(deltas), func(i int) {
			errs[i] = insist(func() error {
				_, err := w.at(i).AdjustCapacity(w.ctx(), store.AdjustCapacity{Allotment: a, Delta: deltas[i], RequestID: fmt.Sprint("r", n)})
				return err
			})
		})
		made := 0
		for i, err := range errs {
			if err == nil {
				made, want = made+1, want+deltas[i]
			} else if no := wantRefusal(t, err, store.RequestMismatch); no.Field != "delta" || no.HoldID != "" {
				t.Errorf("refusal is %+v, want one that names delta and no hold", no)
			}
		}
		if made != 1 {
			t.Errorf("%d changes were made: %v", made, errs)
		}
	}
	w.wantStock(a, want, 0, 0)
}

// TestEarlierSaleIsTheAnswer: a hold that was made anew after its record had been purged, and whose order has bought
// before, is answered with that sale, on every repeat, whatever its quantity and token, over adopts too.
func TestEarlierSaleIsTheAnswer(t *testing.T) {
	w := newWorld(t, 1)
	a := w.open(10)
	w.confirm(w.hold(a, "ann", "r", 1), "order-1")
	w.advance(25 * time.Hour)
	w.forget(a)
	again := w.hold(a, "ann", "r", 3)
	for _, adopts := range []int{0, 1, 2} {
		if adopts > 0 {
			if err := storetest.MakeForeign(w.ctx(), w.raw, "hf:{"+a+"}:c"); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []store.ConfirmHold{
			{ID: again.ID, OrderID: "order-1"}, {ID: again.ID, OrderID: "order-1", Quantity: 3, Token: &again.Token},
		} {
			if s, err := w.at(0).ConfirmHold(w.ctx(), c); err != nil || s.Quantity != 1 {
				t.Errorf("after %d adopts: %+v, %v; want the sale of one unit", adopts, s, err)
			}
		}
	}
	w.wantStock(a, 9, 0, 1)
}
