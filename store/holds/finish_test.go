package holds

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestFinishSold(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 3)
	b := f.begin("order", h)
	f.finish(h, soldVerdict(b[0].Hold))
	got := f.get(h)
	if got.State != store.Sold || got.OrderID != "order" || got.Pinned.Quantity != 3 || got.Token != h.Token {
		t.Errorf("hold %+v", got)
	}
	f.want("available 7, held 0, confirming 0, sold 3")
	if b, _ := f.buyer("buyer"); b.sold != 3 || b.held != 0 || b.live != 0 {
		t.Errorf("buyer %+v", b)
	}
	before := f.dump(f.place.Group)
	for range 2 {
		f.finish(h, soldVerdict(b[0].Hold))
		f.finish(h, store.Verdict{Kind: store.VerdictRefusedCart, Token: h.Token}) // whatever has ended stays
	}
	f.unchanged(before, f.place.Group, "a repeat")
}

// TestFinishForgetsTheCart: of a cart that has ended it is not kept which holds it had, and its repeat is answered all the same.
func TestFinishForgetsTheCart(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	second := f.withSecond(10)
	for name, end := range map[string]func(store.Hold) store.Verdict{
		"sold":    soldVerdict,
		"refused": func(h store.Hold) store.Verdict { return store.Verdict{Kind: store.VerdictRefusedCart, Token: h.Token} },
	} {
		holds := f.cartOf("buyer", name, second, 2, 3)
		members := fmt.Sprintf("%x", joinMembers(ids(holds))) // as a dump has it
		begun := f.begin(name, holds...)
		if kept := f.dump(f.place.Group); !strings.Contains(fmt.Sprint(kept), members) {
			t.Fatalf("%s: nothing kept while it is confirming: %v", name, kept)
		}
		for i, b := range begun {
			f.finish(holds[i], end(b.Hold))
		}
		if kept := f.dump(f.place.Group); strings.Contains(fmt.Sprint(kept), members) {
			t.Errorf("%s: still kept: %v", name, kept)
		}
		_, err := f.Begin(f.ctx(), f.beginRequest(name, holds...))
		if name == "sold" {
			must(t, err)
		} else {
			refusal(t, err, store.HoldCancelled)
		}
	}
}

// What a partial confirm leaves over goes back; a sale cancelled since is still SOLD here.
func TestFinishPart(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 5)
	r := f.beginRequest("order", h)
	r.Quantity = 2
	b, err := f.Begin(f.ctx(), r)
	must(t, err)
	v := soldVerdict(b[0].Hold)
	v.Sale.Cancelled = 2
	f.finish(h, v)
	f.want("available 8, confirming 0, sold 2")
	if b, _ := f.buyer("buyer"); b.sold != 2 || b.held != 0 {
		t.Errorf("buyer %+v", b)
	}
}

func TestFinishRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind   store.VerdictKind
		reason store.EndReason
	}{
		"order": {store.VerdictRefusedOrder, store.EndedByOrder}, "cart": {store.VerdictRefusedCart, store.EndedByCart},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 10)
			h := f.hold("buyer", "request", 3)
			b := f.begin("order", h)
			f.finish(h, store.Verdict{Kind: c.kind, Token: b[0].Token})
			if got := f.get(h); got.State != store.Cancelled || got.Ended != c.reason {
				t.Errorf("hold %+v", got)
			}
			f.want("available 10, held 0, confirming 0, sold 0")
			before := f.dump(f.place.Group)
			f.finish(h, store.Verdict{Kind: c.kind, Token: b[0].Token})
			f.finish(h, soldVerdict(b[0].Hold))
			f.unchanged(before, f.place.Group, "a repeat")
		})
	}
}

// No room in the ledger means that the units do not exist: the hold ends, the buyer is free of it,
// nothing goes back.
func TestFinishNoRoom(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 3)
	b := f.begin("order", h)
	f.finish(h, store.Verdict{Kind: store.VerdictRefusedRoom, Token: b[0].Token})
	if got := f.get(h); got.State != store.Cancelled || got.Ended != store.EndedByRoom {
		t.Errorf("hold %+v", got)
	}
	f.want("available 7, held 0, confirming 0, sold 0")
	if b, ok := f.buyer("buyer"); ok {
		t.Errorf("the buyer's entry is kept: %+v", b)
	}
	if off := f.counters(f.place)[0].Off(); off != -3 {
		t.Errorf("the counters are off by %d, want -3", off)
	}
	f.broken()
}

// STALE ends nothing.
func TestFinishStale(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 3)
	f.begin("order", h)
	before := f.dump(f.place.Group)
	f.finish(h, store.Verdict{Kind: store.VerdictStale, Token: h.Token})
	f.unchanged(before, f.place.Group, "STALE")
}

// recreated is a hold that was sold, whose record was purged, and that was made again by the same request.
func (f *fixture) recreated(sold, quantity int64) (old, again store.Hold) {
	f.t.Helper()
	old = f.sell("buyer", "request", sold)
	f.advance(retention)
	must(f.t, f.Purge(f.ctx(), f.place, []store.HoldID{old.ID}))
	again = f.hold("buyer", "request", quantity)
	if again.Token == old.Token || again.State != store.Held {
		f.t.Fatalf("made again: %+v", again)
	}
	return old, again
}

// Finish compares the outcome's token with the record's. A sale of an older token is counted already:
// the record becomes SOLD, and what this one took goes back.
func TestFinishWithAnotherToken(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"confirming", "held"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 10)
			old, again := f.recreated(3, 3)
			if state == "confirming" {
				f.begin("order-2", again)
			}
			f.finish(again, soldVerdict(old))
			got := f.get(again)
			if got.State != store.Sold || got.OrderID != old.OrderID || got.Token != old.Token || got.Pinned.Quantity != 3 {
				t.Errorf("hold %+v", got)
			}
			f.want("available 7, held 0, confirming 0, sold 3")
			if b, _ := f.buyer("buyer"); b.sold != 3 || b.held != 0 || b.live != 0 {
				t.Errorf("buyer %+v", b)
			}
		})
	}
}

// Who confirmed a hold that was made again repeats the call with its quantity and token: the sale is the earlier
// hold's, and stays the answer.
func TestRepeatedConfirmOfAnEarlierSale(t *testing.T) {
	t.Parallel()
	f := setup(t, 20)
	old, again := f.recreated(5, 2)
	f.begin(old.OrderID, again)
	f.finish(again, soldVerdict(old))
	for range 2 {
		r := f.beginRequest(old.OrderID, again)
		for _, r.Token = range []*store.Token{nil, &again.Token} {
			b, err := f.Begin(f.ctx(), r)
			must(t, err)
			if b[0].State != store.Sold || b[0].Pinned.Quantity != 5 || b[0].Ended != store.SoldEarlier {
				t.Errorf("begun %+v", b[0])
			}
		}
	}
	refusal(t, errOf(f.Begin(f.ctx(), f.beginRequest("order-2", again))), store.OrderMismatch)
	f.want("available 15, held 0, confirming 0, sold 5")
}

// A refusal of an older token says nothing about this hold.
func TestFinishRefusedWithAnotherToken(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	old, again := f.recreated(3, 3)
	f.begin("order-2", again)
	before := f.dump(f.place.Group)
	for _, kind := range []store.VerdictKind{store.VerdictRefusedOrder, store.VerdictRefusedRoom, store.VerdictRefusedCart} {
		f.finish(again, store.Verdict{Kind: kind, Token: old.Token})
	}
	f.unchanged(before, f.place.Group, "another token's refusal")
}

// A refusal ends only what is CONFIRMING.
func TestFinishRefusedOfOthers(t *testing.T) {
	t.Parallel()
	f := setup(t, 20)
	all := f.ended()
	all["held"] = f.hold("held", "request", 1)
	before := f.dump(f.place.Group)
	for _, name := range []string{"due", "lapsed", "cancelled", "sold", "unknown", "held"} {
		f.finish(all[name], store.Verdict{Kind: store.VerdictRefusedOrder, Token: all[name].Token})
	}
	// And what ended otherwise is not sold: the ledger's word on it is for an adopt.
	for _, name := range []string{"lapsed", "cancelled", "unknown"} {
		f.finish(all[name], store.Verdict{Kind: store.VerdictSold, Token: all[name].Token, Sale: store.Sale{Quantity: 1, OrderID: "o"}})
	}
	f.unchanged(before, f.place.Group, "a verdict on what has ended")
}

// A HELD hold that the ledger knows as sold is sold.
func TestFinishSoldOfHeld(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 3)
	f.finish(h, store.Verdict{Kind: store.VerdictSold, Token: h.Token, Sale: store.Sale{Quantity: 2, OrderID: "order"}})
	if got := f.get(h); got.State != store.Sold || got.OrderID != "order" || got.Pinned.Quantity != 2 {
		t.Errorf("hold %+v", got)
	}
	f.want("available 8, held 0, sold 2")
}

// The lines of a cart, of two allotments, in one call; a damaged one fails alone.
func TestFinishCart(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	second := f.withSecond(10)
	holds := f.cartOf("buyer", "request", second, 2, 3)
	begun := f.begin("order", holds...)
	other := f.hold("other", "request", 1)
	otherBegun := f.begin("other", other)
	f.damageRecord(other.ID, "rubbish")
	err := f.Finish(f.ctx(), []store.FinishLine{
		f.finishLine(other, soldVerdict(otherBegun[0].Hold)),
		f.finishLine(holds[0], soldVerdict(begun[0].Hold)), f.finishLine(holds[1], soldVerdict(begun[1].Hold)),
	})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("with a damaged line: %v, want ErrUnavailable", err)
	}
	f.want("sold 2, confirming 1")
	f.wantAt(second, "sold 3, available 7, confirming 0")
	f.broken()
}

func TestConcurrentFinishes(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	replicas := []*fixture{f, f.another()}
	h := f.hold("buyer", "request", 5)
	b := f.begin("order", h)
	storetest.Together(20, func(i int) {
		if err := replicas[i%2].Finish(f.ctx(), []store.FinishLine{f.finishLine(h, soldVerdict(b[0].Hold))}); err != nil {
			t.Errorf("Finish: %v", err)
		}
	})
	f.want("sold 5, available 95, confirming 0")
}

func TestFinishNothing(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	must(t, f.Finish(f.ctx(), nil))
}
