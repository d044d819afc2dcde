package inventory_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// Section G: carts over several allotments.

// When one lock of a set failed, the ones already taken stayed.
func TestS59HalfTakenCartStaysLocked(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a1, a2 := w.pair(1, 0)
		_, err := w.cart(0, "ann", "r1", line(a1, 1), line(a2, 1))
		if no := wantRefusal(t, err, store.SoldOut); no.Allotment != a2 {
			t.Errorf("refusal names %s, want %s", no.Allotment, a2)
		}
		w.cancel(w.hold(a1, "bob", "r1", 1))

		for name, fail := range map[string]func(*faults, string){"before": (*faults).cut, "after": (*faults).lose} {
			f := &faults{}
			killed := w.with(false, f.into)
			fail(f, "create")
			_, err = killed.CreateHolds(w.ctx(), "ann", "killed "+name, []store.Line{line(a1, 1), line(a2, 1)})
			wantTrouble(t, err)
			f.kill()
			killed.stop()
			w.cancel(w.hold(a1, "bob", "after "+name, 1))
		}
		w.wantStock(a1, 1, 0, 0)
	})
}

// Scripts may touch keys on other slots, or fail with a cross-slot error. Groups keep a cart on one
// slot; a cart over several is refused up front. (On a real cluster: a later issue.)
func TestS61KeysOnDifferentShards(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a1, a2 := w.open(1), w.open(1)
		_, err := w.cart(0, "ann", "r1", line(a1, 1), line(a2, 1))
		wantRefusal(t, err, store.DifferentGroups)
		w.wantStock(a1, 1, 0, 0)
		w.wantStock(a2, 1, 0, 0)

		h1, h2 := w.hold(a1, "ann", "r1", 1), w.hold(a2, "ann", "r1", 1)
		_, err = w.at(1).ConfirmHolds(w.ctx(), []store.HoldID{h1.ID, h2.ID}, "order-1")
		wantRefusal(t, err, store.DifferentGroups)
		w.wantState(h1, store.Held)
		w.wantState(h2, store.Held)

		b1, b2 := w.pair(1, 1)
		if _, err := w.cart(0, "bob", "r1", line(b1, 1), line(b2, 1)); err != nil {
			t.Errorf("a cart of one group: %v", err)
		}
		ofSecond := 0
		for _, key := range w.keys(b1) { // both allotments' keys have one hash tag
			if strings.Contains(key, b2) {
				ofSecond++
			}
		}
		if ofSecond < 4 {
			t.Errorf("%d keys of %s lie under the tag of its group, want its counters, deadlines, record and buyer", ofSecond, b2)
		}
	})
}

// An exception on the first product left the second product's hold in place.
func TestS62OneBadLineStopsTheCleanUpOfTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	a1, a2 := w.pair(1, 1)
	a3 := storetest.UniqueID(t)
	w.openAs(a3, a1, 1)
	w.cancel(w.hold(a2, "ann", "r0", 1)) // so that the next one's record is not beside ann's entry
	holds, err := w.cart(0, "ann", "r1", line(a1, 1), line(a2, 1), line(a3, 1))
	if err != nil || len(holds) != 3 {
		t.Fatalf("cart: %+v, %v", holds, err)
	}
	var bad store.Hold
	for _, h := range holds {
		if h.ID.Allotment == a2 {
			bad = h
		}
	}
	key, field := w.record(a1, bad)
	if err := w.raw.HSet(w.ctx(), key, field, "damaged by hand").Err(); err != nil {
		t.Fatal(err)
	}
	reported := false
	for _, f := range w.reconcile(a2, false) {
		reported = reported || f.Kind == store.FindingHold && f.HoldID == bad.ID.String()
	}
	if !reported {
		t.Error("reconcile does not report the damaged hold")
	}

	for _, h := range holds {
		_, err := w.at(0).CancelHold(w.ctx(), h.ID)
		if h.ID == bad.ID {
			if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), h.ID.String()) {
				t.Errorf("release of the damaged hold: %v, want trouble that names it", err)
			}
		} else if err != nil {
			t.Errorf("release of a sound hold: %v", err)
		}
	}
	w.wantStock(a1, 1, 0, 0)
	w.wantStock(a3, 1, 0, 0)
	w.until(func() error { // whoever met the damage has the allotment adopted
		if a := w.availability(a2); a.Available != 1 || a.Held != 0 {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
}

// Who pairs holds and sales with lines by their place would pay for the wrong line if they came in another order.
func TestCartIsAnsweredInTheOrderOfItsRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	group := storetest.UniqueID(t)
	apple, melon, zebra := group+"-apple", group+"-melon", group+"-zebra"
	for _, id := range []string{apple, melon, zebra} {
		w.openAs(id, group, 9)
	}
	wantHolds := func(lines []store.Line, want ...store.Line) (ids []store.HoldID) {
		t.Helper()
		holds, err := w.cart(0, "ann", "r1", lines...)
		if err != nil {
			t.Fatal(err)
		}
		var got []store.Line
		for _, h := range holds {
			got, ids = append(got, line(h.ID.Allotment, h.Quantity)), append(ids, h.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("holds %v, want %v", got, want)
		}
		return ids
	}
	first := []store.Line{line(zebra, 1), line(apple, 3), line(zebra, 1), line(melon, 1)}
	ids := wantHolds(first, line(zebra, 2), line(apple, 3), line(melon, 1))
	wantHolds(first, line(zebra, 2), line(apple, 3), line(melon, 1))
	other := []store.Line{line(melon, 1), line(zebra, 2), line(apple, 3)} // the same request: a repeat
	wantHolds(other, other...)

	for _, order := range [][]store.HoldID{ids, {ids[2], ids[0], ids[1]}} { // the second one repeats
		sales, err := w.at(0).ConfirmHolds(w.ctx(), order, "order-1")
		if err != nil {
			t.Fatal(err)
		}
		var got []store.HoldID
		for _, s := range sales {
			got = append(got, s.ID)
		}
		if !slices.Equal(got, order) {
			t.Errorf("sales of %v, want %v", got, order)
		}
	}
}
