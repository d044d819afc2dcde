package holds

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func (f *fixture) claim(holds ...store.Hold) []store.Begun {
	f.t.Helper()
	claimed, err := f.Claim(f.ctx(), f.place, ids(holds), lease)
	must(f.t, err)
	return claimed
}

func TestClaim(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h, shrunk := f.hold("buyer", "request", 3), f.shrink("shrink", 2)
	b := f.begin("order", h)
	before := f.dump(f.place.Group)
	if got := f.claim(h, shrunk.Hold); len(got) != 0 {
		t.Errorf("claimed %+v before the lease ran out", got)
	}
	f.unchanged(before, f.place.Group, "a claim too early")
	f.advance(lease)
	work := f.work()
	if len(work.Confirms) != 2 {
		t.Errorf("due confirms %v, want two", work.Confirms)
	}
	got := f.claim(h, shrunk.Hold)
	if len(got) != 2 || got[0].OrderID != "order" || got[0].Token != b[0].Token || got[0].Epoch != 1 || got[0].Pinned.Quantity != 3 ||
		got[1].BuyerID != "" || got[1].Pinned.Quantity != 2 {
		t.Errorf("claimed %+v", got)
	}
	if again := f.claim(h, shrunk.Hold); len(again) != 0 {
		t.Errorf("claimed again under the new lease: %+v", again)
	}
	f.want("confirming 3, shrinking 2, available 5")
}

// Of many supervisors one gets it.
func TestConcurrentClaims(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	replicas := []*fixture{f, f.another(), f.another()}
	h := f.hold("buyer", "request", 3)
	f.begin("order", h)
	f.advance(lease)
	var won atomic.Int32
	storetest.Together(15, func(i int) {
		got, err := replicas[i%3].Claim(f.ctx(), f.place, ids([]store.Hold{h}), lease)
		if err != nil {
			t.Errorf("Claim: %v", err)
		}
		won.Add(int32(len(got)))
	})
	if won.Load() != 1 {
		t.Errorf("%d supervisors claimed it, want one", won.Load())
	}
}

// Only what is CONFIRMING is claimed; the index is mended where it says otherwise than the records.
func TestClaimMendsTheIndex(t *testing.T) {
	t.Parallel()
	f := setup(t, 20)
	all := f.ended()
	live := f.hold("live", "request", 1)
	early := f.hold("early", "request", 1)
	f.advance(second)
	f.begin("early", early) // its lease is not over when the index says so
	f.index("l", live, "1")
	for _, name := range []string{"lapsed", "cancelled", "sold", "unknown"} {
		f.index("l", all[name], "1")
	}
	f.index("l", early, "1")
	f.advance(lease - second)
	if n := len(f.work().Confirms); n != 8 {
		t.Errorf("%d are due, want the 6 that were put there, the confirm and the shrink", n)
	}
	var holds []store.Hold
	for _, id := range f.work().Confirms {
		holds = append(holds, store.Hold{ID: id})
	}
	var told atomic.Int64
	f.OnDamage(func(store.Place) { told.Add(1) })
	if got := f.claim(holds...); len(got) != 2 {
		t.Errorf("claimed %d, want the confirm and the shrink", len(got))
	}
	if n := len(f.work().Confirms); n != 0 {
		t.Errorf("%d are still due: the index was not mended", n)
	}
	if told.Load() != 1 {
		t.Errorf("told of %d damaged records, want the one that is missing", told.Load())
	}
}

// A record that a script takes for sound, but whose cart is none, is told of, and keeps no other from being driven on.
func TestClaimPastAnUnreadableCart(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	bad, good := f.hold("bad", "request", 1), f.hold("good", "request", 1)
	f.begin("order-1", bad)
	f.begin("order-2", good)
	f.overwrite(f.place, bad.ID, f.packed(`{2, 1, 1, 1, 5, 5, "bad", "request", "", "order-1", 1, 5, "no hold id", 0, 1}`))
	f.index("l", bad, "1")
	f.advance(lease)
	var told atomic.Int64
	f.OnDamage(func(store.Place) { told.Add(1) })
	if got := f.claim(bad, good); len(got) != 1 || got[0].ID != good.ID {
		t.Errorf("claimed %+v, want the good one", got)
	}
	for name, err := range map[string]error{
		"Get": errOf(f.Get(f.ctx(), f.placed(bad))), "Begin": errOf(f.Begin(f.ctx(), f.beginRequest("order-1", bad))),
	} {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
	}
	if told.Load() < 2 {
		t.Errorf("told %d times", told.Load())
	}
	f.broken()
}

// index puts a hold into an index of the fixture's allotment, past the product.
func (f *fixture) index(kind string, h store.Hold, score string) {
	f.t.Helper()
	must(f.t, f.raw.Do(f.ctx(), "ZADD", base(f.place, kind), score, packTag(h.ID.Tag)).Err())
}

func TestShrink(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 4)
	dry := f.shrinkRequest("r", 6)
	dry.DryRun = true
	before := f.dump(f.place.Group)
	got, err := f.Shrink(f.ctx(), dry)
	must(t, err)
	if got.Epoch != 1 || got.State != 0 {
		t.Errorf("dry run: %+v", got)
	}
	dry.Units = 7
	_, err = f.Shrink(f.ctx(), dry)
	refusal(t, err, store.CapacityInUse)
	f.unchanged(before, f.place.Group, "a dry run")

	b := f.shrink("r", 6)
	if b.State != store.Confirming || b.BuyerID != "" || b.RequestID != "r" || b.Quantity != 6 || b.Epoch != 1 || b.Pinned.Quantity != 6 {
		t.Errorf("shrink %+v", b)
	}
	f.want("available 0, held 4, shrinking 6, capacity 10")
	before = f.dump(f.place.Group)
	if again := f.shrink("r", 6); again.Token != b.Token {
		t.Errorf("a repeat: %+v", again)
	}
	_, err = f.Shrink(f.ctx(), f.shrinkRequest("r", 5))
	if no := refusal(t, err, store.RequestMismatch); no.Field != "delta" {
		t.Errorf("field %s", no.Field)
	}
	_, err = f.Shrink(f.ctx(), f.shrinkRequest("another", 1))
	no := refusal(t, err, store.CapacityInUse)
	if no.SmallestCapacity != 10 || no.Capacity != 10 || no.Held != 10 || no.Requested != 1 {
		t.Errorf("refusal %+v", no)
	}
	f.unchanged(before, f.place.Group, "a repeat")

	f.finish(b.Hold, soldVerdict(b.Hold))
	f.want("available 0, held 4, shrinking 0, capacity 4, sold 0")
	before = f.dump(f.place.Group)
	if again := f.shrink("r", 6); again.State != store.Sold {
		t.Errorf("a repeat of a finished one: %+v", again)
	}
	f.finish(b.Hold, soldVerdict(b.Hold))
	f.unchanged(before, f.place.Group, "a repeat")
	f.cancel(h)
	f.want("available 4, capacity 4")
}

// What is due is free for a shrink, too.
func TestShrinkReleasesOnNeed(t *testing.T) {
	t.Parallel()
	f := setup(t, 150)
	f.take(150)
	_, err := f.Shrink(f.ctx(), f.shrinkRequest("r", 100))
	if no := refusal(t, err, store.CapacityInUse); no.SmallestCapacity != 150 {
		t.Errorf("smallest capacity %d, want 150", no.SmallestCapacity)
	}
	f.advance(holdTime)
	f.shrink("r", 100)
	f.want("shrinking 100") // what else lapsed is not needed
}

// A refused shrink gives the units back, and the same request may be tried again.
func TestShrinkRefused(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	b := f.shrink("r", 6)
	f.finish(b.Hold, store.Verdict{Kind: store.VerdictRefusedCart, Token: b.Token})
	f.want("available 10, shrinking 0, capacity 10")
	again := f.shrink("r", 4)
	if again.State != store.Confirming || again.Token == b.Token || again.Quantity != 4 {
		t.Errorf("again: %+v", again)
	}
	f.finish(b.Hold, store.Verdict{Kind: store.VerdictRefusedCart, Token: b.Token}) // of the first
	f.want("available 6, shrinking 4")
	// The first was done after all, under its own token: this one's units go back.
	f.finish(again.Hold, store.Verdict{Kind: store.VerdictSold, Token: b.Token, Sale: store.Sale{Quantity: 6}})
	f.want("available 10, shrinking 0, capacity 10")
}

func TestShrinkOfNothing(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	before := f.dump(f.place.Group)
	for _, units := range []int64{0, -1, -1 << 40} {
		_, err := f.Shrink(f.ctx(), f.shrinkRequest("r", units))
		invalidField(t, err, "delta")
	}
	f.unchanged(before, f.place.Group, "a shrink by nothing")
}

// A shrink is not a hold of anybody: callers' methods do not know it, and it never lapses.
func TestShrinkNeverLapses(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	b := f.shrink("r", 6)
	f.advance(48 * time.Hour)
	if n := f.release(b.Hold); n != 0 {
		t.Error("released")
	}
	must(t, f.Purge(f.ctx(), f.place, ids([]store.Hold{b.Hold})))
	f.want("available 4, shrinking 6")
	_, err := f.Begin(f.ctx(), f.beginRequest("order", b.Hold))
	refusal(t, err, store.HoldNotFound)
	if errors.Is(err, store.ErrUnavailable) {
		t.Error("trouble")
	}
}
