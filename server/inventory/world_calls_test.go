package inventory_test

import (
	"errors"
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// open creates an allotment with the defaults of the API, and checks the promises on it at the end.
func (w *world) open(capacity int64, change ...func(*store.Allotment)) string {
	w.t.Helper()
	id := storetest.UniqueID(w.t)
	w.openAs(id, id, capacity, change...)
	return id
}

func (w *world) openAs(id, group string, capacity int64, change ...func(*store.Allotment)) {
	w.t.Helper()
	a := allotment(id, group, capacity)
	for _, c := range change {
		c(&a)
	}
	err := insist(func() error { // a world's times may be as short as in production
		_, err := w.next().CreateAllotment(w.ctx(), a)
		return err
	})
	if err != nil {
		w.t.Fatalf("open %s: %v", id, err)
	}
	w.opened(id)
}

// opened lets the promises on an allotment be checked at the end.
func (w *world) opened(id string) {
	w.ids = append(w.ids, id)
	w.t.Cleanup(func() { w.checkPromises(id) })
}

// allotment has the defaults of the API, but holds of up to 1,000 units.
func allotment(id, group string, capacity int64) store.Allotment {
	return store.Allotment{
		Place: store.Place{Allotment: id, Group: group}, Capacity: capacity,
		Rules: store.Rules{
			State: store.StateOpen, LateConfirm: store.LateAccept, HoldDuration: store.DefaultHoldDuration,
			MaxHoldDuration: store.DefaultMaxHoldDuration, MaxPerHold: 1000,
		},
	}
}

// pair opens two allotments of one group.
func (w *world) pair(first, second int64) (string, string) {
	group := w.open(first)
	second2 := storetest.UniqueID(w.t)
	w.openAs(second2, group, second)
	return group, second2
}

func limit(n int64) func(*store.Allotment) { return func(a *store.Allotment) { a.MaxPerBuyer = n } }
func lateReject() func(a *store.Allotment) {
	return func(a *store.Allotment) { a.LateConfirm = store.LateReject }
}

// setState pauses, closes or reopens an allotment.
func (w *world) setState(id string, state store.AllotmentState) {
	w.t.Helper()
	w.setRules(id, func(r *store.Rules) { r.State = state })
}

func (w *world) setRules(id string, change func(*store.Rules)) {
	w.t.Helper()
	a, err := w.next().Allotment(w.ctx(), id)
	if err == nil {
		_, err = w.next().UpdateAllotment(w.ctx(), id, a.Version, func(r *store.Rules) error {
			change(r)
			return nil
		})
	}
	if err != nil {
		w.t.Fatalf("set rules: %v", err)
	}
}

// call makes a call once; when the test has broken connections, which replicas find out one by one, also again
// while there is trouble.
func (w *world) call(f func() error) error {
	if w.broken {
		return insist(f)
	}
	return f()
}

// hold takes a hold that must be granted.
func (w *world) hold(allotment, buyer, request string, quantity int64) (h store.Hold) {
	w.t.Helper()
	err := w.call(func() (err error) {
		h, err = w.next().CreateHold(w.ctx(), buyer, request, store.Line{Allotment: allotment, Quantity: quantity})
		return err
	})
	if err != nil {
		w.t.Fatalf("CreateHold(%s, %s, %d): %v", buyer, request, quantity, err)
	}
	return h
}

func (w *world) tryHold(i int, allotment, buyer, request string, quantity int64) (store.Hold, error) {
	return w.at(i).CreateHold(w.ctx(), buyer, request, store.Line{Allotment: allotment, Quantity: quantity})
}

// confirm makes a sale that must succeed.
func (w *world) confirm(h store.Hold, order string) (s store.Sale) {
	w.t.Helper()
	err := w.call(func() (err error) {
		s, err = w.next().ConfirmHold(w.ctx(), store.ConfirmHold{ID: h.ID, OrderID: order})
		return err
	})
	if err != nil {
		w.t.Fatalf("ConfirmHold(%s): %v", order, err)
	}
	return s
}

func (w *world) availability(id string) (a store.Availability) {
	w.t.Helper()
	err := w.call(func() (err error) {
		a, err = w.next().Availability(w.ctx(), id)
		return err
	})
	if err != nil {
		w.t.Fatalf("Availability: %v", err)
	}
	return a
}

// wantStock checks what is available, held and sold.
func (w *world) wantStock(id string, available, held, sold int64) {
	w.t.Helper()
	a := w.availability(id)
	if a.Available != available || a.Held != held || a.Sold != sold {
		w.t.Errorf("%s: available %d, held %d, sold %d; want %d, %d, %d", id, a.Available, a.Held, a.Sold, available, held, sold)
	}
}

// wantRefusal checks that err is a refusal for one of the reasons, and returns it.
func wantRefusal(t testing.TB, err error, reasons ...store.Reason) store.Refusal {
	t.Helper()
	for _, reason := range reasons {
		if no := store.Refused(err, reason); no != nil {
			return *no
		}
	}
	t.Fatalf("got %v, want refusal %v", err, reasons)
	return store.Refusal{}
}

func isSoldOut(err error) bool {
	return store.Refused(err, store.SoldOut) != nil || store.Refused(err, store.AllHeld) != nil
}

func refusalOf(err error) store.Reason {
	var no *store.Refusal
	if errors.As(err, &no) {
		return no.Reason
	}
	return ""
}
