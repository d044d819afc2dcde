package holds

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-inventory/holdfast/store"
)

// machine drives the real scripts and the model side by side.
type machine struct {
	*fixture
	m      *model
	before dump
}

// draws of the few names that there are, so that repeats are common
var (
	someBuyer   = rapid.SampledFrom([]string{"a", "b", "c"})
	someRequest = rapid.SampledFrom([]string{"1", "2", "3", "4"})
	someOrder   = rapid.SampledFrom([]string{"o1", "o2", "verdict"}) // the last is what a sale of another token names
)

// known draws a hold: mostly one that exists.
func (x *machine) known(t *rapid.T) (store.PlacedHold, *modelHoldState, string) {
	key := modelKey(someBuyer.Draw(t, "buyer"), someRequest.Draw(t, "request"))
	if len(x.m.order) > 0 && rapid.IntRange(0, 9).Draw(t, "known") > 0 {
		key = rapid.SampledFrom(x.m.order).Draw(t, "hold")
	}
	buyer, request, _ := strings.Cut(key, "/")
	return store.PlacedHold{Place: x.place, ID: store.NewHoldID(x.place.Allotment, buyer, request)}, x.m.holds[key], key
}

// same checks that the answer is the model's. A call that was refused has changed nothing, unless lapsed
// holds had to be released for it.
func (x *machine) same(t *rapid.T, what string, err error, want store.Reason, needed bool) bool {
	t.Helper()
	var no *store.Refusal
	var invalid *store.InvalidField
	got := store.Reason("")
	switch {
	case errors.As(err, &no):
		got = no.Reason
	case errors.As(err, &invalid):
		got = badQuantity
	case err != nil:
		t.Fatalf("%s: %v", what, err)
	}
	if got != want {
		t.Fatalf("%s: got %q, the model says %q", what, got, want)
	}
	if want != "" && !needed {
		x.untouched(t, what)
	}
	return want == ""
}

func (x *machine) untouched(t *rapid.T, what string) {
	t.Helper()
	if diff := cmp.Diff(x.before, x.dump(x.place.Group)); diff != "" {
		t.Fatalf("%s changed the state (-before +after):\n%s", what, diff)
	}
}

// anyDue says whether something may be released on need.
func (x *machine) anyDue() bool {
	for _, h := range x.m.holds {
		if h.due(x.m.now) {
			return true
		}
	}
	return false
}

func (x *machine) answer(t *rapid.T, what string, got store.Hold, h *modelHoldState) {
	t.Helper()
	if got.State != x.m.shown(h) || got.Quantity != h.qty || got.BuyerID != h.buyer || got.Token.Epoch != h.epoch {
		t.Fatalf("%s: answer %+v, the model says %+v", what, got, *h)
	}
}

func (x *machine) create(t *rapid.T) {
	buyer, request, q := someBuyer.Draw(t, "buyer"), someRequest.Draw(t, "request"), rapid.Int64Range(1, 6).Draw(t, "quantity")
	due := x.anyDue()
	holds, err := x.Create(x.ctx(), x.request(buyer, request, q))
	no, h := x.m.create(buyer, request, q)
	if x.same(t, "Create", err, no, due) {
		x.answer(t, "Create", holds[0], h)
	}
}

func (x *machine) get(t *rapid.T) {
	p, h, _ := x.known(t)
	got, err := x.Get(x.ctx(), p)
	want := store.Reason("")
	if h == nil || h.buyer == "" {
		want = store.HoldNotFound
	}
	if x.same(t, "Get", err, want, false) {
		x.answer(t, "Get", got, h)
		x.untouched(t, "Get")
	}
}

func (x *machine) extend(t *rapid.T) {
	p, h, _ := x.known(t)
	got, err := x.Extend(x.ctx(), p)
	if x.same(t, "Extend", err, x.m.extend(h), false) {
		x.answer(t, "Extend", got, h)
	}
}

func (x *machine) cancel(t *rapid.T) {
	p, h, _ := x.known(t)
	got, err := x.Cancel(x.ctx(), p)
	if x.same(t, "Cancel", err, x.m.cancel(h), false) {
		x.answer(t, "Cancel", got, h)
	}
}

func (x *machine) begin(t *rapid.T) {
	p, h, _ := x.known(t)
	due := x.anyDue()
	r := store.BeginRequest{
		OrderID: someOrder.Draw(t, "order"), Holds: []store.PlacedHold{p}, Quantity: rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 7}).Draw(t, "part"),
		Lease: modelLease,
	}
	got, err := x.Begin(x.ctx(), r)
	if x.same(t, "Begin", err, x.m.begin(h, r.OrderID, r.Quantity), due) {
		x.answer(t, "Begin", got[0].Hold, h)
		if got[0].Epoch != x.m.epoch || got[0].OrderID != h.order || got[0].Pinned.Quantity != h.want {
			t.Fatalf("Begin: %+v, pinned %+v, the model says %+v", got[0], got[0].Pinned, *h)
		}
	}
}

func (x *machine) finish(t *rapid.T) {
	p, h, _ := x.known(t)
	kind := rapid.SampledFrom([]store.VerdictKind{
		store.VerdictSold, store.VerdictSold, store.VerdictRefusedOrder, store.VerdictRefusedCart, store.VerdictStale,
	}).Draw(t, "verdict")
	same := rapid.IntRange(0, 4).Draw(t, "same token") > 0
	v := store.Verdict{Kind: kind, Token: store.Token{Epoch: 77, Sequence: 77}}
	if h != nil {
		v.Sale = store.Sale{OrderID: "verdict", Quantity: h.want}
		if h.state == store.Held {
			v.Sale.Quantity = h.qty
		}
		if same {
			r := x.mustState().holds[packTag(p.ID.Tag)]
			v.Token = store.Token{Epoch: r.epoch, Sequence: r.seq}
		}
	}
	x.same(t, "Finish", x.Finish(x.ctx(), []store.FinishLine{{PlacedHold: p, Verdict: v}}), "", false)
	live := h != nil && (h.state == store.Held || h.state == store.Confirming)
	x.m.finish(h, kind, same)
	if live && h.state == store.Sold && !same {
		h.epoch = 77
	}
}

func (x *machine) claim(t *rapid.T) {
	p, h, _ := x.known(t)
	got, err := x.Claim(x.ctx(), x.place, []store.HoldID{p.ID}, modelLease)
	x.same(t, "Claim", err, "", false)
	due := h != nil && h.state == store.Confirming && h.leased <= x.m.now
	if due != (len(got) == 1) {
		t.Fatalf("Claim: %+v, the model says %v", got, due)
	}
	if !due {
		x.untouched(t, "Claim")
		return
	}
	h.leased = x.m.now + modelLease
	x.answer(t, "Claim", got[0].Hold, h)
}

func (x *machine) shrink(t *rapid.T) {
	request, units := someRequest.Draw(t, "request"), rapid.Int64Range(1, 6).Draw(t, "units")
	due := x.anyDue()
	r := x.shrinkRequest(request, units)
	r.Lease = modelLease
	_, err := x.Shrink(x.ctx(), r)
	x.same(t, "Shrink", err, x.m.shrink(request, units), due)
}

func (x *machine) release(t *rapid.T) {
	p, h, _ := x.known(t)
	got, err := x.Release(x.ctx(), x.place, []store.HoldID{p.ID, p.ID}, store.LapseByEvent)
	x.same(t, "Release", err, "", false)
	want := 0
	if h != nil && h.due(x.m.now) {
		x.m.lapse(h)
		want = 1
	}
	if got != want {
		t.Fatalf("Release: %d, the model says %d", got, want)
	}
	if want == 0 {
		x.untouched(t, "Release")
	}
}

// sweep is what a supervisor does in a pass.
func (x *machine) sweep(t *rapid.T) {
	work := x.work()
	if _, err := x.Release(x.ctx(), x.place, work.Lapsed, store.LapseBySweep); err != nil && len(work.Lapsed) > 0 {
		t.Fatalf("Release: %v", err)
	}
	x.m.releaseDue("", true)
	if len(work.Ended) > 0 {
		if err := x.Purge(x.ctx(), x.place, work.Ended); err != nil {
			t.Fatalf("Purge: %v", err)
		}
	}
	for key, h := range x.m.holds {
		x.m.purge(h, key)
	}
	if w := x.work(); len(w.Lapsed)+len(w.Ended) > 0 {
		t.Fatalf("still due after a sweep: %+v", w)
	}
}

func (x *machine) applyFeed(t *rapid.T) {
	c := store.Change{Number: x.m.feed + rapid.SampledFrom([]int64{1, 1, 1, 0, 2, -1, 100}).Draw(t, "number"), Kind: store.ChangeGrow, Quantity: 1}
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		c.Quantity = rapid.Int64Range(1, 5).Draw(t, "units")
	case 1:
		c.Kind, c.BuyerID = store.ChangeCancel, someBuyer.Draw(t, "buyer")
		if c.Quantity = x.m.buyers[c.BuyerID]; c.Quantity == 0 {
			c.Kind, c.BuyerID, c.Quantity = store.ChangeGrow, "", 1
		}
	default:
		c.Kind, c.Rules = store.ChangeRules, x.m.rules
		c.Rules.State = rapid.SampledFrom([]store.AllotmentState{store.StateOpen, store.StateOpen, store.StateOpen, store.StatePaused, store.StateClosed}).Draw(t, "state")
		c.Rules.LateConfirm = rapid.SampledFrom([]store.LateConfirm{store.LateAccept, store.LateReject}).Draw(t, "late")
		c.Rules.MaxPerBuyer = rapid.SampledFrom([]int64{0, 5, 8}).Draw(t, "limit")
	}
	_, got, err := x.Apply(x.ctx(), x.place, []store.Change{c})
	if x.same(t, "Apply", err, "", false); c.Number != x.m.feed+1 {
		x.untouched(t, "Apply of another number than the next")
	} else {
		x.m.feed = c.Number
		switch c.Kind {
		case store.ChangeGrow:
			x.m.capacity, x.m.available = x.m.capacity+c.Quantity, x.m.available+c.Quantity
		case store.ChangeCancel:
			x.m.sold, x.m.available = x.m.sold-c.Quantity, x.m.available+c.Quantity
			x.m.buyers[c.BuyerID] -= c.Quantity
		default:
			x.m.rules = c.Rules
		}
	}
	if got != x.m.feed {
		t.Fatalf("Apply(%d): feed %d, the model says %d", c.Number, got, x.m.feed)
	}
}

// readopt walks the records and sets them again under a raised epoch.
func (x *machine) readopt(t *rapid.T) {
	past, _, err := x.AdoptBegin(x.ctx(), x.place, "claim", lease, true)
	if err != nil || past == nil || past.Epoch != x.m.epoch || past.Feed != x.m.feed {
		t.Fatalf("AdoptBegin: %+v, %v", past, err)
	}
	records, damaged := x.survivors("claim")
	if len(damaged) > 0 {
		t.Fatalf("damaged: %v", damaged)
	}
	m := x.m
	m.epoch++
	a := newAllotment(x.place, m.capacity, func(r *store.Rules) { *r = m.rules })
	must(x.t, x.AdoptReset(x.ctx(), x.place, "claim"))
	must(x.t, x.AdoptWrite(x.ctx(), x.place, "claim", records, x.buyersOf(records, m.buyers)))
	must(x.t, x.AdoptEnd(x.ctx(), a, "claim", store.Counters{
		Epoch: m.epoch, Capacity: m.capacity, Available: m.available, Held: m.held, Confirming: m.confirming, Shrinking: m.shrinking,
		Sold: m.sold, Feed: m.feed, Version: past.Version + 1,
	}, past.Sequence))
}

func (x *machine) advanceClock(t *rapid.T) {
	steps := rapid.SampledFrom([]int{1, 1, 5, 10, 100}).Draw(t, "steps")
	x.m.now += time.Duration(steps) * modelStep
	x.advance(time.Duration(steps) * modelStep)
}

func (x *machine) look(t *rapid.T) {
	due := x.anyDue()
	c, err := x.Counters(x.ctx(), []store.Place{x.place})
	x.same(t, "Counters", err, "", false)
	for x.m.releaseDue("", true) {
	}
	if got := c[0]; got.Available != x.m.available || got.Held != x.m.held || got.Sold != x.m.sold || got.Capacity != x.m.capacity || got.Off() != 0 {
		t.Fatalf("Counters: %+v, the model says %+v", got, x.m)
	}
	if !due {
		x.untouched(t, "Counters")
	}
}

// check runs after every step.
func (x *machine) check(t *rapid.T) {
	s, err := x.state(x.place)
	if err != nil {
		t.Fatalf("state: %v", err)
	}
	if wrong := append(s.wrong(), x.m.compare(x.place.Allotment, s)...); len(wrong) > 0 {
		t.Fatalf("%s", strings.Join(wrong, "\n"))
	}
	x.before = x.dump(x.place.Group)
}

// TestModel: random calls in a random order, against the model: every answer is the model's, after
// every step all fits together (R6), and what was refused changed nothing.
func TestModel(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Int64Range(0, 20).Draw(t, "capacity")
		rules := defaultRules()
		rules.HoldDuration, rules.MaxHoldDuration, rules.MaxPerHold, rules.MaxPerBuyer = modelHold, modelLongest, 4, 8
		f.restart(capacity)
		f.adopt(newAllotment(f.place, capacity, func(r *store.Rules) { *r = rules }), 1)
		x := &machine{fixture: f, m: newModel(capacity, rules)}
		x.check(t)
		t.Repeat(map[string]func(*rapid.T){
			"create": x.create, "create again": x.create, "get": x.get, "extend": x.extend, "cancel": x.cancel, "begin": x.begin,
			"begin again": x.begin, "finish": x.finish, "claim": x.claim, "shrink": x.shrink, "release": x.release, "sweep": x.sweep,
			"feed": x.applyFeed, "adopt": x.readopt, "time": x.advanceClock, "counters": x.look, "": x.check,
		})
	})
	if n := f.logs.count("a script failed"); n != 0 {
		t.Errorf("%d scripts failed:\n%s", n, f.logs)
	}
}
