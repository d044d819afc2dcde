package holds

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestBegin(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 3)
	got := f.begin("order", h)
	want := h
	want.State, want.OrderID, want.Remaining, want.Pinned = store.Confirming, "order", 0, &store.Pinned{Quantity: 3}
	if diff := cmp.Diff([]store.Begun{{Hold: want, Epoch: 1}}, got); diff != "" {
		t.Errorf("begun (-want +got):\n%s", diff)
	}
	f.want("available 7, held 0, confirming 3")
	s := f.mustState()
	if s.markers[packTag(h.ID.Tag)] || len(s.deadlines) != 0 {
		t.Errorf("a pinned hold has markers %v, deadlines %v", s.markers, s.deadlines)
	}
	if until := s.leases[packTag(h.ID.Tag)] - f.now().UnixMilli(); until > lease.Milliseconds() || until < lease.Milliseconds()-patience.Milliseconds() {
		t.Errorf("the lease lasts %d ms", until)
	}
	// It cannot lapse any more.
	f.advance(10 * holdTime)
	if n := f.release(h); n != 0 {
		t.Error("a pinned hold was released")
	}
	before := f.dump(f.place.Group)
	if again := f.begin("order", h); again[0].State != store.Confirming || again[0].Token != h.Token {
		t.Errorf("a repeat: %+v", again)
	}
	f.unchanged(before, f.place.Group, "a repeat") // the lease neither
}

func TestBeginPart(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 3)
	r := f.beginRequest("order", h)
	for _, q := range []int64{4, -1} {
		r.Quantity = q
		before := f.dump(f.place.Group)
		_, err := f.Begin(f.ctx(), r)
		invalidField(t, err, "quantity")
		f.unchanged(before, f.place.Group, "a bad quantity")
	}
	r.Quantity = 2
	begun, err := f.Begin(f.ctx(), r)
	must(t, err)
	if begun[0].Pinned.Quantity != 2 || begun[0].Quantity != 3 {
		t.Errorf("begun %+v, pinned %+v", begun[0], begun[0].Pinned)
	}
	f.want("available 7, confirming 3") // the rest goes back at finish
	must(t, errOf(f.Begin(f.ctx(), r)))
	for _, q := range []int64{0, 1, 3} {
		r.Quantity = q
		_, err := f.Begin(f.ctx(), r)
		if no := refusal(t, err, store.RequestMismatch); no.Field != "quantity" {
			t.Errorf("quantity %d: field %s", q, no.Field)
		}
	}
}

func TestBeginToken(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	f.hold("first", "request", 1)
	h := f.hold("buyer", "request", 1)
	r := f.beginRequest("order", h)
	before := f.dump(f.place.Group)
	for _, token := range []store.Token{
		{Epoch: h.Token.Epoch, Sequence: h.Token.Sequence - 1}, {Epoch: h.Token.Epoch + 1, Sequence: h.Token.Sequence},
		{Epoch: h.Token.Epoch, Sequence: h.Token.Sequence + 1},
	} {
		r.Token = &token
		_, err := f.Begin(f.ctx(), r)
		refusal(t, err, store.StaleToken)
	}
	f.unchanged(before, f.place.Group, "a stale token")
	r.Token = &h.Token
	must(t, errOf(f.Begin(f.ctx(), r)))
	stale := store.Token{Epoch: 9, Sequence: 9}
	r.Token = &stale
	_, err := f.Begin(f.ctx(), r) // on what is confirming, too
	refusal(t, err, store.StaleToken)
}

func TestBeginRefuses(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	all := f.ended()
	orderTaken := f.hold("other", "order", 1)
	b := f.begin("twice", orderTaken)
	f.finish(orderTaken, store.Verdict{Kind: store.VerdictRefusedOrder, Token: b[0].Token})
	all["refused for the order"] = orderTaken
	noCart := f.hold("other", "cart", 1)
	b = f.begin("cart", noCart)
	f.finish(noCart, store.Verdict{Kind: store.VerdictRefusedCart, Token: b[0].Token})
	all["refused for the cart"] = noCart
	before := f.dump(f.place.Group)
	for name, reason := range map[string]store.Reason{
		"cancelled": store.HoldCancelled, "sold": store.OrderMismatch, "confirming": store.OrderMismatch,
		"unknown": store.HoldNotFound, "shrink": store.HoldNotFound,
		"refused for the order": store.HoldCancelled, "refused for the cart": store.HoldCancelled,
	} {
		_, err := f.Begin(f.ctx(), f.beginRequest("another order", all[name]))
		no := store.Refused(err, reason)
		if no == nil || no.HoldID != all[name].ID.String() {
			t.Errorf("%s: %v, want refusal %s", name, err, reason)
			continue
		}
		if want := map[string]string{"sold": "order-soldrequest", "confirming": "order"}[name]; reason == store.OrderMismatch && no.OrderID != want {
			t.Errorf("%s: the refusal names order %q, want %q", name, no.OrderID, want)
		}
	}
	if no := refusal(t, errOf(f.Begin(f.ctx(), f.beginRequest("twice", orderTaken))), store.OrderExists); no.OrderID != "twice" {
		t.Errorf("ORDER_EXISTS names order %q", no.OrderID) // on every repeat
	}
	// A repeat of what was sold finds it sold.
	got := f.begin("order-soldrequest", all["sold"])
	if got[0].State != store.Sold || got[0].OrderID != "order-soldrequest" || got[0].Pinned.Quantity != 1 {
		t.Errorf("sold: %+v", got[0])
	}
	f.unchanged(before, f.place.Group, "a refused begin")
}

// Late confirm: taken again and pinned if the stock is still free, whether or not it was released.
func TestLateConfirm(t *testing.T) {
	t.Parallel()
	for _, released := range []bool{false, true} {
		for _, part := range []int64{0, 1} {
			t.Run(fmt.Sprintf("released %v, part %d", released, part), func(t *testing.T) {
				t.Parallel()
				f := setup(t, 5, limited(2))
				h := f.hold("buyer", "request", 2)
				f.advance(holdTime)
				if released {
					f.release(h)
				}
				r := f.beginRequest("order", h)
				r.Quantity = part
				begun, err := f.Begin(f.ctx(), r)
				must(t, err)
				want := int64(2)
				if part > 0 {
					want = part
				}
				if begun[0].State != store.Confirming || begun[0].Pinned.Quantity != want || begun[0].Token != h.Token {
					t.Errorf("begun %+v", begun[0])
				}
				f.finish(h, soldVerdict(begun[0].Hold))
				f.want(fmt.Sprintf("available %d, sold %d, confirming 0, held 0", 5-want, want))
			})
		}
	}
}

func TestLateConfirmRefused(t *testing.T) {
	t.Parallel()
	late := func(t *testing.T, capacity int64, rules ...any) (*fixture, store.Hold) {
		f := setup(t, capacity, rules...)
		h := f.hold("buyer", "request", 2)
		f.advance(holdTime)
		f.release(h)
		return f, h
	}
	check := func(f *fixture, h store.Hold) {
		before := f.dump(f.place.Group)
		_, err := f.Begin(f.ctx(), f.beginRequest("order", h))
		refusal(f.t, err, store.HoldLapsed)
		f.unchanged(before, f.place.Group, "a late confirm that is refused")
	}
	t.Run("somebody holds it", func(t *testing.T) { // S24
		t.Parallel()
		f, h := late(t, 2)
		other := f.hold("other", "request", 1)
		check(f, h)
		f.advance(holdTime) // but a lapsed hold is free, noticed or not
		f.begin("order", h)
		if got := f.get(other); got.State != store.Lapsed {
			t.Errorf("the other hold is in state %d", got.State)
		}
	})
	t.Run("sold", func(t *testing.T) { // S03
		t.Parallel()
		f, h := late(t, 20)
		f.sell("other", "request", 20)
		check(f, h)
	})
	t.Run("the rule", func(t *testing.T) {
		t.Parallel()
		f, h := late(t, 20, func(r *store.Rules) { r.LateConfirm = store.LateReject })
		check(f, h)
		due := f.hold("due", "request", 1)
		f.advance(holdTime)
		check(f, due)
	})
	t.Run("the buyer's limit", func(t *testing.T) {
		t.Parallel()
		f, h := late(t, 20, limited(3))
		newer := f.hold("buyer", "newer", 2)
		check(f, h)
		f.advance(holdTime)
		f.begin("order", h)
		if got := f.get(newer); got.State != store.Lapsed {
			t.Errorf("the newer hold is in state %d", got.State)
		}
	})
	t.Run("part of it would fit", func(t *testing.T) { // S25: never 1 of 2
		t.Parallel()
		f, h := late(t, 2)
		f.hold("other", "request", 1)
		check(f, h)
		r := f.beginRequest("order", h)
		r.Quantity = 1 // asked for one
		must(t, errOf(f.Begin(f.ctx(), r)))
		f.want("available 0, held 1, confirming 1")
	})
}

// A begin that was given up may land when another server has told its caller HOLD_LAPSED, and units are free again. Its time is over then.
func TestLateConfirmThatLandsLate(t *testing.T) {
	t.Parallel()
	for name, lapse := range map[string]func(*fixture, store.Hold){
		"unreleased": func(*fixture, store.Hold) {},
		"released":   func(f *fixture, h store.Hold) { f.release(h) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 5)
			h := f.hold("buyer", "request", 2)
			f.advance(holdTime)
			lapse(f, h)
			run := func(latest int64) *op {
				o := beginOp(f.beginRequest("order", h), []store.Place{f.place}, latest)
				must(t, f.do(f.ctx(), laneCaller, o))
				return o
			}
			before := f.dump(f.place.Group)
			told := run(0)
			latest := told.now + patience.Milliseconds()
			f.advance(patience)
			for _, o := range []*op{told, run(told.now), run(latest)} {
				if got := o.reply[0].status(); got != statusLapsed {
					t.Errorf("status %d, want LAPSED", got)
				}
			}
			f.unchanged(before, f.place.Group, "a begin whose time is over")
			if got := run(latest + patience.Milliseconds()).reply[0].status(); got != statusOK {
				t.Errorf("in time: status %d, want OK", got)
			}
			f.want("available 3, confirming 2, held 0")
		})
	}
}

// Begin gives a lapsed hold no more than the time of a batch, and takes no refusal for an answer that came after it.
func TestLateConfirmHasItsTime(t *testing.T) {
	t.Parallel()
	f := setup(t, 5)
	h := f.hold("buyer", "request", 2)
	f.advance(holdTime)
	calls := 0
	f.offset = func() time.Duration {
		if calls++; calls == 2 {
			f.advance(f.timeout)
		}
		return time.Duration(f.clock.Load())
	}
	f.begin("order", h)
	if calls != 3 {
		t.Errorf("%d calls, want one that takes no lapsed hold, one whose time was over and one in time", calls)
	}
}

// Nor any time past its caller's: who asks another server then may be told there that the hold lapsed.
func TestLateConfirmHasItsCallersTime(t *testing.T) {
	t.Parallel()
	f := setup(t, 5)
	h := f.hold("buyer", "request", 2)
	f.advance(holdTime)
	calls := 0
	f.offset = func() time.Duration {
		if calls++; calls == 2 {
			f.advance(f.timeout / 2)
		}
		return time.Duration(f.clock.Load())
	}
	ctx, cancel := context.WithTimeout(f.ctx(), f.timeout/2)
	defer cancel()
	must(t, errOf(f.Begin(ctx, f.beginRequest("order", h))))
	if calls != 3 {
		t.Errorf("%d calls, want one that takes no lapsed hold, one after its caller's time and one in time", calls)
	}
}

// Who was perhaps told by another server that a hold has lapsed keeps to it, whatever is free.
func TestPromptBegin(t *testing.T) {
	t.Parallel()
	f := setup(t, 5)
	h, live := f.hold("buyer", "request", 2), f.hold("other", "request", 1)
	prompt := func(h store.Hold) error {
		r := f.beginRequest("order", h)
		r.Prompt = true
		return errOf(f.Begin(f.ctx(), r))
	}
	must(t, prompt(live))
	f.advance(holdTime)
	for range 2 {
		before := f.dump(f.place.Group)
		refusal(t, prompt(h), store.HoldLapsed)
		f.unchanged(before, f.place.Group, "a prompt begin")
		f.release(h)
	}
}

// PAUSED and CLOSED stop new holds only.
func TestBeginWhenShut(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	a, b, late := f.hold("a", "request", 1), f.hold("b", "request", 1), f.hold("late", "request", 1)
	rules := defaultRules()
	rules.State = store.StatePaused
	must(t, f.apply(store.Change{Number: 1, Kind: store.ChangeRules, Rules: rules}))
	f.begin("order-a", a)
	rules.State = store.StateClosed
	must(t, f.apply(store.Change{Number: 2, Kind: store.ChangeRules, Rules: rules}))
	f.begin("order-b", b)
	f.advance(holdTime)
	f.release(late)
	f.begin("order-late", late)
	f.want("confirming 3, available 7")
}

func TestBeginCart(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	second := f.withSecond(10)
	holds := f.cartOf("buyer", "request", second, 2, 3)
	begun := f.begin("order", holds...)
	for i, b := range begun {
		if b.State != store.Confirming || b.OrderID != "order" || b.Epoch != 1 {
			t.Errorf("line %d: %+v", i, b)
		}
		if diff := cmp.Diff(ids(holds), b.Pinned.Cart); diff != "" {
			t.Errorf("line %d: members (-want +got):\n%s", i, diff)
		}
	}
	before := f.dump(f.place.Group)
	f.begin("order", holds...)
	for _, h := range holds { // one of them alone is another request
		_, err := f.Begin(f.ctx(), f.beginRequest("order", h))
		if no := refusal(t, err, store.RequestMismatch); no.Field != "hold_ids" {
			t.Errorf("field %s, want hold_ids", no.Field)
		}
	}
	f.unchanged(before, f.place.Group, "a repeat")
	f.want("confirming 2")
	f.wantAt(second, "confirming 3")
}

// One line that cannot be pinned leaves the others as they are.
func TestBeginCartIsAllOrNothing(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*fixture, store.Hold) store.Reason{
		"cancelled": func(f *fixture, h store.Hold) store.Reason { f.cancel2(h); return store.HoldCancelled },
		"confirming for another": func(f *fixture, h store.Hold) store.Reason {
			f.begin("another order", h)
			return store.OrderMismatch
		},
		"gone": func(f *fixture, h store.Hold) store.Reason {
			f.removeRecord(f.placeOf(h.ID), h.ID)
			return store.HoldNotFound
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 10)
			second := f.withSecond(10)
			holds := f.cartOf("buyer", "request", second, 2, 3)
			reason := spoil(f, holds[1])
			before := f.dump(f.place.Group)
			_, err := f.Begin(f.ctx(), f.beginRequest("order", holds...))
			if no := refusal(t, err, reason); no.HoldID != holds[1].ID.String() {
				t.Errorf("names %s, want %s", no.HoldID, holds[1].ID)
			}
			f.unchanged(before, f.place.Group, "a refused cart")
			if got := f.get(holds[0]); got.State != store.Held {
				t.Errorf("the other line is in state %d", got.State)
			}
			if name == "gone" {
				must(t, f.raw.Del(f.ctx(), base(second, "c")).Err())
			}
		})
	}
}

// A late cart is taken again all or nothing; lines that are still HELD stay HELD if it fails.
func TestLateCart(t *testing.T) {
	t.Parallel()
	f := setup(t, 3)
	second := f.withSecond(3, func(r *store.Rules) { r.HoldDuration = 30 * time.Second })
	holds := f.cartOf("buyer", "request", second, 2, 3)
	f.advance(60 * time.Second) // the second line's deadline has passed
	must(t, errOf(f.Release(f.ctx(), second, ids(holds[1:]), store.LapseBySweep)))
	other, err := f.Create(f.ctx(), cart("other", "request", line(second, 1)))
	must(t, err)
	before := f.dump(f.place.Group)
	_, err = f.Begin(f.ctx(), f.beginRequest("order", holds...))
	if no := refusal(t, err, store.HoldLapsed); no.HoldID != holds[1].ID.String() {
		t.Errorf("names %s", no.HoldID)
	}
	f.unchanged(before, f.place.Group, "a refused late cart")
	f.cancel2(other[0])
	f.begin("order", holds...)
	f.want("confirming 2, held 0")
	f.wantAt(second, "confirming 3, available 0")
}

// A line that is SOLD already under the same order is kept.
func TestBeginCartWithSoldLine(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	second := f.withSecond(10)
	holds := f.cartOf("buyer", "request", second, 1, 1)
	begun := f.begin("order", holds...)
	f.finish(holds[0], soldVerdict(begun[0].Hold))
	again := f.begin("order", holds...)
	if again[0].State != store.Sold || again[1].State != store.Confirming {
		t.Errorf("states %d and %d, want SOLD and CONFIRMING", again[0].State, again[1].State)
	}
}

// The same confirm from many callers at once pins once.
func TestConcurrentBegins(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	replicas := []*fixture{f, f.another()}
	h := f.hold("buyer", "request", 4)
	storetest.Together(20, func(i int) {
		_, err := replicas[i%2].Begin(f.ctx(), f.beginRequest("order", h))
		if err != nil {
			t.Errorf("Begin: %v", err)
		}
	})
	f.want("confirming 4, available 6, held 0")
	var refusedCount [2]int
	other := f.hold("buyer", "second", 1)
	results := make([]error, 20)
	storetest.Together(20, func(i int) {
		_, results[i] = replicas[i%2].Begin(f.ctx(), f.beginRequest(fmt.Sprintf("order-%d", i%2), other))
	})
	for i, err := range results {
		if err != nil {
			refusal(t, err, store.OrderMismatch)
			refusedCount[i%2]++
		}
	}
	if refusedCount[0]+refusedCount[1] != 10 || refusedCount[0]*refusedCount[1] != 0 {
		t.Errorf("refused %v: one order of the two must win for all its callers", refusedCount)
	}
}
