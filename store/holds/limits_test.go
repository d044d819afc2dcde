package holds

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func limited(n int64) func(*store.Rules) { return func(r *store.Rules) { r.MaxPerBuyer = n } }

func TestBuyerLimit(t *testing.T) {
	t.Parallel()
	f := setup(t, 100, limited(4))
	f.sell("a", "sold", 1)
	own := f.hold("a", "held", 2)
	before := f.dump(f.place.Group)
	for i := range 20 { // S14
		_, err := f.Create(f.ctx(), f.request("a", fmt.Sprint(i), 2))
		no := refusal(t, err, store.BuyerLimit)
		if no.Limit != 4 || no.BuyerHeld != 2 || no.BuyerSold != 1 || no.HoldID != own.ID.String() ||
			!near(no.HoldRemaining, holdTime, patience) {
			t.Fatalf("BUYER_LIMIT: %+v", no)
		}
	}
	f.unchanged(before, f.place.Group, "a refusal")
	f.hold("a", "fits", 1)
	f.hold("b", "another buyer", 4)
	_, err := f.Create(f.ctx(), f.request("c", "too many at once", 5))
	if no := refusal(t, err, store.BuyerLimit); no.HoldID != "" || no.BuyerHeld != 0 {
		t.Errorf("a buyer without a hold: %+v", no)
	}
}

// What the limit counts: live holds, confirms under way, sales less cancelled ones; nothing that ended.
func TestBuyerLimitCounts(t *testing.T) {
	t.Parallel()
	f := setup(t, 100, limited(2))
	full := func(what string) {
		t.Helper()
		_, err := f.Create(f.ctx(), f.request("a", "probe", 1))
		if store.Refused(err, store.BuyerLimit) == nil {
			t.Fatalf("with %s: got %v, want BUYER_LIMIT", what, err)
		}
	}
	h := f.hold("a", "1", 2)
	full("a live hold")
	f.cancel(h)
	h = f.hold("a", "2", 2)
	begun := f.begin("order", h)
	full("a confirm under way")
	f.finish(h, soldVerdict(begun[0].Hold))
	full("a sale")
	must(t, f.apply(store.Change{Number: 1, Kind: store.ChangeCancel, Quantity: 2, BuyerID: "a"}))
	h = f.hold("a", "3", 2)
	refused := f.begin("order-2", h)
	f.finish(h, store.Verdict{Kind: store.VerdictRefusedOrder, Token: refused[0].Token})
	h = f.hold("a", "4", 2)
	f.advance(holdTime)
	f.release(h)
	f.hold("a", "5", 2)
	full("a live hold")
}

// R2: a lapsed hold is not counted, whether or not anyone has noticed; also among more holds than a
// buyer's entry names.
func TestBuyerLimitReleasesOnNeed(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, shownTags, shownTags + 1, 3 * shownTags} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			f := setup(t, 1000, limited(int64(n)))
			for i := range n {
				f.hold("a", fmt.Sprint(i), 1)
			}
			for i := range 100 { // others' holds are due first
				f.hold(fmt.Sprintf("other-%d", i), "request", 1)
			}
			_, err := f.Create(f.ctx(), f.request("a", "more", 1))
			refusal(t, err, store.BuyerLimit)
			f.advance(holdTime)
			f.hold("a", "more", int64(n))
			if b, _ := f.buyer("a"); b.held != int64(n) {
				t.Errorf("the buyer holds %+v", b)
			}
		})
	}
}

const shownTags = 16 // of a buyer's live holds are named in its entry

// A buyer with many holds: the newest live one is named, and the entry stays right.
func TestManyHoldsOfABuyer(t *testing.T) {
	t.Parallel()
	const n = 3 * shownTags
	f := setup(t, n)
	var all []store.Hold
	for i := range n {
		all = append(all, f.hold("a", fmt.Sprint(i), 1))
	}
	newest := func(want store.Hold) {
		t.Helper()
		_, err := f.Create(f.ctx(), f.request("a", "more", 5))
		if no := refusal(t, err, store.AllHeld); no.HoldID != want.ID.String() {
			t.Errorf("names %s, want %s", no.HoldID, want.ID)
		}
	}
	newest(all[n-1])
	f.cancel(all[n-1])
	newest(all[n-2])
	for _, h := range all[:n-1] {
		f.cancel(h)
	}
	if b, ok := f.buyer("a"); ok {
		t.Errorf("the entry of a buyer with nothing is kept: %+v", b)
	}
}

// A limit set later counts what is there already.
func TestLimitSetLater(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	f.hold("a", "1", 5)
	rules := defaultRules()
	rules.MaxPerBuyer = 6
	must(t, f.apply(store.Change{Number: 1, Kind: store.ChangeRules, Rules: rules}))
	_, err := f.Create(f.ctx(), f.request("a", "2", 2))
	refusal(t, err, store.BuyerLimit)
	f.hold("a", "3", 1)
}

// R2 with nobody sweeping: CreateHold itself releases what it needs, however much lapsed (S18, S28).
func TestCreateReleasesOnNeed(t *testing.T) {
	t.Parallel()
	const n = 200 // more than a script names at once
	f := setup(t, n)
	f.take(n)
	_, err := f.Create(f.ctx(), f.request("late", "request", 1))
	refusal(t, err, store.AllHeld)
	f.advance(holdTime)
	f.hold("late", "request", n)
	f.want("available 0, held 200")
	f.want("confirming 0, sold 0")
}

// A hold is free from its deadline on, not a millisecond earlier.
func TestFreeAtTheDeadline(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	h := f.hold("a", "request", 1)
	left := h.ExpireTime.Sub(f.now())
	f.advance(left - 5*second) // the test takes less than that
	_, err := f.Create(f.ctx(), f.request("b", "request", 1))
	refusal(t, err, store.AllHeld)
	f.advance(5*second + 2*time.Millisecond) // the scripts count whole ms
	f.hold("b", "request", 1)
	if got := f.get(h); got.State != store.Lapsed {
		t.Errorf("the first hold is in state %d, want LAPSED", got.State)
	}
}

// Requests that meet the same lapsed holds at once all get theirs.
func TestNeedIsShared(t *testing.T) {
	t.Parallel()
	const n = 150
	f := setup(t, n)
	f.take(n)
	f.advance(holdTime)
	start := time.Now()
	storetest.Together(n, func(i int) {
		if _, err := f.Create(f.ctx(), f.request(fmt.Sprintf("new-%d", i), "request", 1)); err != nil {
			t.Errorf("Create %d: %v", i, err)
		}
	})
	t.Logf("%d holds taken over in %v", n, time.Since(start))
	f.want("available 0, held 150")
}
