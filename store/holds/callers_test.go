package holds

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
)

// ended are holds in every state that is not HELD, by name.
func (f *fixture) ended() map[string]store.Hold {
	f.t.Helper()
	all := map[string]store.Hold{}
	all["due"] = f.hold("due", "request", 1)
	all["lapsed"] = f.hold("lapsed", "request", 1)
	f.advance(holdTime)
	f.release(all["lapsed"])
	all["cancelled"] = f.hold("cancelled", "request", 1)
	f.cancel(all["cancelled"])
	all["sold"] = f.sell("sold", "request", 1)
	all["confirming"] = f.hold("confirming", "request", 1)
	f.begin("order", all["confirming"])
	all["unknown"] = store.Hold{ID: store.NewHoldID(f.place.Allotment, "nobody", "request")}
	all["shrink"] = f.shrink("shrink", 1).Hold
	return all
}

func TestGet(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 2)
	if diff := cmp.Diff(h, f.get(h), equateRemaining); diff != "" {
		t.Errorf("hold (-want +got):\n%s", diff)
	}
	all := f.ended()
	before := f.dump(f.place.Group)
	for name, want := range map[string]store.HoldState{
		"due": store.Lapsed, "lapsed": store.Lapsed, "cancelled": store.Cancelled, "sold": store.Sold, "confirming": store.Confirming,
	} {
		got := f.get(all[name])
		if got.State != want || got.Remaining != 0 || got.BuyerID != name {
			t.Errorf("%s: state %d of %s with %v left, want %d", name, got.State, got.BuyerID, got.Remaining, want)
		}
	}
	if got := f.get(all["confirming"]); got.OrderID != "order" || got.Pinned == nil || got.Pinned.Quantity != 1 || got.Pinned.Cart != nil {
		t.Errorf("a confirming hold: %+v, pinned %+v", got, got.Pinned)
	}
	for _, name := range []string{"unknown", "shrink"} {
		_, err := f.Get(f.ctx(), f.placed(all[name]))
		refusal(t, err, store.HoldNotFound)
	}
	f.unchanged(before, f.place.Group, "Get")
}

// equateRemaining leaves the time out that passed between two calls.
var equateRemaining = cmp.Comparer(func(a, b time.Duration) bool { return near(a, b, patience) })

func TestExtend(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 2)
	f.advance(100 * second)
	got := f.extend(h)
	if !near(got.Remaining, holdTime, patience) || got.Remaining > holdTime || !got.CreateTime.Equal(h.CreateTime) || got.Token != h.Token {
		t.Errorf("extended: %+v", got)
	}
	if s := f.mustState(); !s.markers[packTag(h.ID.Tag)] {
		t.Error("no marker")
	}
	if ttl := f.raw.PTTL(f.ctx(), markerKey(f.place, h.ID.Tag)).Val(); ttl > holdTime || ttl < holdTime-patience {
		t.Errorf("the marker lasts %v, want %v", ttl, holdTime)
	}
	f.advance(50 * second) // past the first deadline
	if got := f.get(h); got.State != store.Held {
		t.Errorf("state %d, want HELD", got.State)
	}
	if n := f.release(h); n != 0 {
		t.Error("released before the new deadline")
	}
	f.want("available 8, held 2, version 3")
}

// S23: extended at 100, 200, 300 and 350 s, a hold ends at 360 s at the latest.
func TestExtendLimit(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 1)
	latest := h.CreateTime.Add(store.DefaultMaxHoldDuration)
	var got store.Hold
	for range 3 {
		f.advance(100 * second)
		got = f.extend(h)
	}
	if !got.ExpireTime.Equal(latest) {
		t.Errorf("after the third it ends at %v, want %v", got.ExpireTime, latest)
	}
	f.advance(30 * second)
	before := f.dump(f.place.Group)
	_, err := f.Extend(f.ctx(), f.placed(h))
	if no := refusal(t, err, store.ExtensionLimit); !near(no.HoldRemaining, 30*second, patience) || no.HoldID != h.ID.String() {
		t.Errorf("EXTENSION_LIMIT: %+v, want 30s left", no)
	}
	f.unchanged(before, f.place.Group, "a refused extension")
	f.advance(30 * second)
	_, err = f.Extend(f.ctx(), f.placed(h))
	refusal(t, err, store.HoldLapsed)
}

// The deadline is the later of the old one and now + the allotment's duration: it never comes nearer.
func TestExtendNeverShortens(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 1)
	rules := defaultRules()
	rules.HoldDuration = 30 * second
	must(t, f.apply(store.Change{Number: 1, Kind: store.ChangeRules, Rules: rules}))
	before := f.dump(f.place.Group)
	if got := f.extend(h); !got.ExpireTime.Equal(h.ExpireTime) {
		t.Errorf("ends at %v, want %v as before", got.ExpireTime, h.ExpireTime)
	}
	f.unchanged(before, f.place.Group, "an extension that adds nothing")
	f.advance(100 * second)
	if got := f.extend(h); !near(got.Remaining, 30*second, patience) || !got.ExpireTime.After(h.ExpireTime) {
		t.Errorf("remaining %v, want 30s", got.Remaining)
	}
	rules.MaxHoldDuration = 60 * second // a maximum that came later is over already
	must(t, f.apply(store.Change{Number: 2, Kind: store.ChangeRules, Rules: rules}))
	_, err := f.Extend(f.ctx(), f.placed(h))
	refusal(t, err, store.ExtensionLimit)
}

func TestExtendRefuses(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	all := f.ended()
	before := f.dump(f.place.Group)
	for name, reason := range map[string]store.Reason{
		"due": store.HoldLapsed, "lapsed": store.HoldLapsed, "cancelled": store.HoldCancelled, "sold": store.HoldSold,
		"confirming": store.HoldConfirming, "unknown": store.HoldNotFound, "shrink": store.HoldNotFound,
	} {
		_, err := f.Extend(f.ctx(), f.placed(all[name]))
		if no := store.Refused(err, reason); no == nil || no.HoldID != all[name].ID.String() || no.Allotment != f.place.Allotment {
			t.Errorf("%s: %v, want refusal %s", name, err, reason)
		}
	}
	f.unchanged(before, f.place.Group, "a refused extension")
}

// CLOSED stops extensions, PAUSED does not.
func TestExtendByState(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 1)
	f.advance(10 * second)
	rules := defaultRules()
	rules.State = store.StatePaused
	must(t, f.apply(store.Change{Number: 1, Kind: store.ChangeRules, Rules: rules}))
	must(t, errOf(f.Extend(f.ctx(), f.placed(h))))
	f.advance(10 * second)
	rules.State = store.StateClosed
	must(t, f.apply(store.Change{Number: 2, Kind: store.ChangeRules, Rules: rules}))
	_, err := f.Extend(f.ctx(), f.placed(h))
	refusal(t, err, store.Closed)
	rules.State, rules.ClosesAt = store.StateOpen, f.now()
	must(t, f.apply(store.Change{Number: 3, Kind: store.ChangeRules, Rules: rules}))
	_, err = f.Extend(f.ctx(), f.placed(h))
	if no := refusal(t, err, store.Closed); !no.ClosesAt.Equal(instant(millis(rules.ClosesAt))) {
		t.Errorf("closed at %v, want %v", no.ClosesAt, rules.ClosesAt)
	}
}

// A hold that is sold, or about to be, names the order.
func TestSoldNamesTheOrder(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	sold, confirming := f.sell("a", "request", 1), f.hold("b", "request", 1)
	f.begin("order-b", confirming)
	for name, call := range map[string]func(context.Context, store.PlacedHold) (store.Hold, error){"cancel": f.Cancel, "extend": f.Extend} {
		_, err := call(f.ctx(), f.placed(sold))
		if no := refusal(t, err, store.HoldSold); no.OrderID != sold.OrderID {
			t.Errorf("%s names order %q, want %q", name, no.OrderID, sold.OrderID)
		}
		_, err = call(f.ctx(), f.placed(confirming))
		if no := refusal(t, err, store.HoldConfirming); no.OrderID != "order-b" {
			t.Errorf("%s names order %q, want order-b", name, no.OrderID)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 4)
	f.want("available 6, held 4")
	if got := f.cancel(h); got.State != store.Cancelled || got.Ended != store.EndedByCaller || got.Remaining != 0 {
		t.Errorf("cancelled: %+v", got)
	}
	f.want("available 10, held 0, version 3")
	if s := f.mustState(); s.markers[packTag(h.ID.Tag)] || len(s.buyers) != 0 {
		t.Errorf("left over: markers %v, buyers %v", s.markers, s.buyers)
	}
	before := f.dump(f.place.Group)
	for range 2 {
		if got := f.cancel(h); got.State != store.Cancelled {
			t.Errorf("again: %+v", got)
		}
	}
	f.unchanged(before, f.place.Group, "a repeat")
}

func TestCancelOfEnded(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	all := f.ended()
	free := f.mustState().counters["available"]
	if got := f.cancel(all["due"]); got.State != store.Lapsed { // it had ended before
		t.Errorf("a due hold is %d after cancel, want LAPSED", got.State)
	}
	if got := f.mustState().counters["available"]; got != free+1 {
		t.Errorf("available is %d, want %d", got, free+1)
	}
	before := f.dump(f.place.Group)
	for _, name := range []string{"due", "lapsed"} {
		if got := f.cancel(all[name]); got.State != store.Lapsed {
			t.Errorf("%s: state %d, want LAPSED", name, got.State)
		}
	}
	for name, reason := range map[string]store.Reason{
		"sold": store.HoldSold, "confirming": store.HoldConfirming, "unknown": store.HoldNotFound, "shrink": store.HoldNotFound,
	} {
		_, err := f.Cancel(f.ctx(), f.placed(all[name]))
		if store.Refused(err, reason) == nil {
			t.Errorf("%s: %v, want refusal %s", name, err, reason)
		}
	}
	f.unchanged(before, f.place.Group, "a cancel of what has ended")
}

func TestCounters(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	second := f.withSecond(7)
	first := f.hold("a", "request", 10)
	f.advance(time.Second)
	f.hold("b", "request", 5)
	f.sell("c", "request", 20)
	f.begin("order", f.hold("d", "request", 3))
	f.shrink("r", 2)
	got := f.counters(second, f.place)
	want := []store.Counters{
		{Place: second, Epoch: 1, Capacity: 7, Available: 7, Version: got[0].Version, State: store.StateOpen, Now: got[0].Now},
		{
			Place: f.place, Epoch: 1, Capacity: 100, Available: 60, Held: 15, Confirming: 3, Shrinking: 2, Sold: 20,
			Version: got[1].Version, State: store.StateOpen, NextLapse: first.ExpireTime, Now: got[1].Now,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
	if got[1].Off() != 0 || !near(got[1].Now.Sub(f.now()), 0, patience) {
		t.Errorf("off by %d, now %v", got[1].Off(), got[1].Now)
	}
}

// S18, S27: what is due is released before the numbers are told, however much it is.
func TestCountersReleaseFirst(t *testing.T) {
	t.Parallel()
	const n = 200
	f := setup(t, n)
	second := f.withSecond(n)
	holds := f.take(n)
	must(t, errOf(f.Create(f.ctx(), cart("x", "request", line(second, 5)))))
	f.advance(holdTime)
	got := f.counters(f.place, second)
	for _, c := range got {
		if c.Available != n || c.Held != 0 || !c.NextLapse.IsZero() {
			t.Errorf("counters %+v, want all free", c)
		}
	}
	if h := f.get(holds[0]); h.State != store.Lapsed {
		t.Errorf("state %d, want LAPSED", h.State)
	}
}

// With a dead context nothing is done.
func TestDeadContext(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 1)
	before := f.dump(f.place.Group)
	ctx, cancel := context.WithCancel(f.ctx())
	cancel()
	for name, err := range map[string]error{
		"Create":   errOf(f.Create(ctx, f.request("a", "request", 1))),
		"Get":      errOf(f.Get(ctx, f.placed(h))),
		"Extend":   errOf(f.Extend(ctx, f.placed(h))),
		"Cancel":   errOf(f.Cancel(ctx, f.placed(h))),
		"Counters": errOf(f.Counters(ctx, []store.Place{f.place})),
		"Begin":    errOf(f.Begin(ctx, f.beginRequest("order", h))),
		"Finish":   f.Finish(ctx, []store.FinishLine{f.finishLine(h, store.Verdict{Kind: store.VerdictSold})}),
		"Claim":    errOf(f.Claim(ctx, f.place, []store.HoldID{h.ID}, lease)),
		"Shrink":   errOf(f.Shrink(ctx, f.shrinkRequest("r", 1))),
		"Release":  errOf(f.Release(ctx, f.place, []store.HoldID{h.ID}, store.LapseBySweep)),
		"Purge":    f.Purge(ctx, f.place, []store.HoldID{h.ID}),
		"Leave":    f.Leave(ctx, f.place, 1, 0),
		"SetPlace": f.SetPlace(ctx, f.place),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want a canceled context", name, err)
		}
	}
	f.unchanged(before, f.place.Group, "calls with a dead context")
}
