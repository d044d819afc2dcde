package holds

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// request asks for one hold at the fixture's allotment.
func (f *fixture) request(buyer, request string, quantity int64) store.CreateRequest {
	return cart(buyer, request, line(f.place, quantity))
}

func line(p store.Place, quantity int64) store.PlacedLine {
	return store.PlacedLine{Place: p, Quantity: quantity}
}

func cart(buyer, request string, lines ...store.PlacedLine) store.CreateRequest {
	return store.CreateRequest{BuyerID: buyer, RequestID: request, Lines: lines}
}

// hold takes a hold that must be granted.
func (f *fixture) hold(buyer, request string, quantity int64) store.Hold {
	f.t.Helper()
	holds, err := f.Create(f.ctx(), f.request(buyer, request, quantity))
	if err != nil {
		f.t.Fatalf("Create(%s, %s, %d): %v", buyer, request, quantity, err)
	}
	return holds[0]
}

// take takes n holds of one unit each by buyers of their own.
func (f *fixture) take(n int) []store.Hold {
	f.t.Helper()
	holds := make([]store.Hold, n)
	for i := range holds {
		holds[i] = f.hold(fmt.Sprintf("buyer-%d", i), "request", 1)
	}
	return holds
}

func (f *fixture) placed(h store.Hold) store.PlacedHold {
	return store.PlacedHold{Place: f.place, ID: h.ID}
}

func (f *fixture) get(h store.Hold) store.Hold {
	f.t.Helper()
	got, err := f.Get(f.ctx(), f.placed(h))
	must(f.t, err)
	return got
}

func (f *fixture) extend(h store.Hold) store.Hold {
	f.t.Helper()
	got, err := f.Extend(f.ctx(), f.placed(h))
	must(f.t, err)
	return got
}

func (f *fixture) counters(places ...store.Place) []store.Counters {
	f.t.Helper()
	got, err := f.Counters(f.ctx(), places)
	must(f.t, err)
	return got
}

func (f *fixture) shrink(request string, units int64) store.Begun {
	f.t.Helper()
	got, err := f.Shrink(f.ctx(), f.shrinkRequest(request, units))
	must(f.t, err)
	return got
}

func (f *fixture) cancel(h store.Hold) store.Hold {
	f.t.Helper()
	got, err := f.Cancel(f.ctx(), f.placed(h))
	must(f.t, err)
	return got
}

// release releases these holds and returns how many lapsed.
func (f *fixture) release(holds ...store.Hold) int {
	f.t.Helper()
	n, err := f.Release(f.ctx(), f.place, ids(holds), store.LapseBySweep)
	must(f.t, err)
	return n
}

func ids(holds []store.Hold) []store.HoldID {
	all := make([]store.HoldID, len(holds))
	for i, h := range holds {
		all[i] = h.ID
	}
	return all
}

func (f *fixture) beginRequest(order string, holds ...store.Hold) store.BeginRequest {
	r := store.BeginRequest{OrderID: order, Lease: lease}
	for _, h := range holds {
		r.Holds = append(r.Holds, store.PlacedHold{Place: f.placeOf(h.ID), ID: h.ID})
	}
	if len(holds) > 1 {
		r.Cart = ids(holds)
	}
	return r
}

func (f *fixture) placeOf(id store.HoldID) store.Place {
	for _, p := range f.places {
		if p.Allotment == id.Allotment {
			return p
		}
	}
	return f.place
}

// begin pins holds, which must succeed.
func (f *fixture) begin(order string, holds ...store.Hold) []store.Begun {
	f.t.Helper()
	begun, err := f.Begin(f.ctx(), f.beginRequest(order, holds...))
	if err != nil {
		f.t.Fatalf("Begin(%s): %v", order, err)
	}
	return begun
}

// soldVerdict is what the ledger says of a begun hold when it made the sale.
func soldVerdict(b store.Hold) store.Verdict {
	return store.Verdict{
		Kind: store.VerdictSold, Token: b.Token,
		Sale: store.Sale{ID: b.ID, OrderID: b.OrderID, Quantity: b.Pinned.Quantity, Token: b.Token},
	}
}

func (f *fixture) finishLine(h store.Hold, v store.Verdict) store.FinishLine {
	return store.FinishLine{PlacedHold: store.PlacedHold{Place: f.placeOf(h.ID), ID: h.ID}, Verdict: v}
}

func (f *fixture) finish(h store.Hold, v store.Verdict) {
	f.t.Helper()
	must(f.t, f.Finish(f.ctx(), []store.FinishLine{f.finishLine(h, v)}))
}

// sell takes a hold all the way.
func (f *fixture) sell(buyer, request string, quantity int64) store.Hold {
	f.t.Helper()
	h := f.hold(buyer, request, quantity)
	b := f.begin("order-"+buyer+request, h)
	f.finish(h, soldVerdict(b[0].Hold))
	return f.get(h)
}

func (f *fixture) shrinkRequest(request string, units int64) store.ShrinkRequest {
	id := store.NewHoldID(f.place.Allotment, "", request)
	return store.ShrinkRequest{
		PlacedHold: store.PlacedHold{Place: f.place, ID: id}, RequestID: request, Units: units, Lease: lease,
	}
}

func (f *fixture) apply(changes ...store.Change) error {
	_, _, err := f.Apply(f.ctx(), f.place, changes)
	return err
}

func (f *fixture) work() store.Work {
	f.t.Helper()
	work, err := f.Due(f.ctx(), []store.Place{f.place}, 1000)
	must(f.t, err)
	return work[0]
}

// refusal checks that err is a refusal for the reason, and returns it.
func refusal(t testing.TB, err error, reason store.Reason) store.Refusal {
	t.Helper()
	no := store.Refused(err, reason)
	if no == nil {
		t.Fatalf("got error %v, want refusal %s", err, reason)
	}
	return *no
}

func invalidField(t testing.TB, err error, field string) {
	t.Helper()
	var invalid *store.InvalidField
	if !errors.As(err, &invalid) || invalid.Field != field {
		t.Fatalf("got error %v, want InvalidField %s", err, field)
	}
}

func adoptNeeded(t testing.TB, err error, places ...store.Place) {
	t.Helper()
	var needed *store.AdoptNeeded
	if !errors.As(err, &needed) {
		t.Fatalf("got error %v, want AdoptNeeded", err)
	}
	if len(places) > 0 && len(needed.Places) != len(places) {
		t.Fatalf("AdoptNeeded for %v, want %v", needed.Places, places)
	}
	for i, p := range places {
		if needed.Places[i] != p {
			t.Errorf("AdoptNeeded for %v, want %v", needed.Places[i], p)
		}
	}
}

func near(got, want, tolerance time.Duration) bool { return (got - want).Abs() <= tolerance }

func errOf[T any](_ T, err error) error { return err }
