package holds

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
)

func TestAdoptBegin(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	f.hold("buyer", "request", 1)
	must(t, f.apply(grow(1, 1)))
	f.work() // notes the time
	noted := f.now()
	f.advance(time.Hour)
	past := f.adoptBegin(f.place, "claim")
	want := &store.Past{Epoch: 1, Feed: 1, Sequence: 1, Version: 3, Time: past.Time, Now: past.Now}
	if diff := cmp.Diff(want, past); diff != "" {
		t.Errorf("past (-want +got):\n%s", diff)
	}
	if !near(past.Time.Sub(noted), 0, patience) || !near(past.Now.Sub(noted), time.Hour, patience) {
		t.Errorf("noted %v, now %v, want %v and an hour later", past.Time, past.Now, noted)
	}
	if again := f.adoptBegin(f.place, "claim"); again.Epoch != 1 || again.Sequence != 1 {
		t.Errorf("again: %+v", again)
	}
	must(t, f.AdoptEnd(f.ctx(), newAllotment(f.place, 10), "claim", store.Counters{Epoch: 2, Capacity: 10, Available: 10, Version: 5}, 1))
	before := f.dump(f.place.Group)
	if past, left, err := f.AdoptBegin(f.ctx(), f.place, "late", lease, false); past != nil || left != 0 || err != nil {
		t.Errorf("of one that another has adopted meanwhile: %+v, %v, %v", past, left, err)
	}
	f.unchanged(before, f.place.Group, "a beginning that came too late")
	f.adoptBegin(f.place, "claim")
	f.advance(-time.Hour) // a clock that went back: nobody waits for a lease that has more left than one can have
	if past, _, err := f.AdoptBegin(f.ctx(), f.place, "another", lease, true); past == nil || err != nil {
		t.Errorf("after the clock went back: %v", err)
	}
	f.broken()

	nothing := store.Place{Allotment: f.place.Allotment + "-x", Group: f.place.Allotment + "-x", Buckets: 16}
	if past := f.adoptBegin(nothing, "claim"); past.Epoch != 0 || past.Sequence != 0 || !past.Time.IsZero() {
		t.Errorf("of an unknown allotment: %+v", past)
	}
	must(t, f.raw.Del(f.ctx(), base(nothing, "c")).Err())
}

// A claim is taken over only when its lease is out, and then steps under the old one change nothing.
func TestClaimOfAnAdopt(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 1)
	f.adoptBegin(f.place, "first")
	before := f.dump(f.place.Group)
	f.advance(lease - patience/4)
	past, left, err := f.AdoptBegin(f.ctx(), f.place, "second", lease, true)
	if past != nil || err != nil || left <= 0 || left > patience/4 {
		t.Errorf("before the lease is out: %+v, %v left, %v", past, left, err)
	}
	f.stale("second", h)
	f.unchanged(before, f.place.Group, "a second claim")

	must(t, f.AdoptRenew(f.ctx(), f.place, "first", lease))
	f.advance(lease - patience/4)
	if past, _, _ := f.AdoptBegin(f.ctx(), f.place, "second", lease, true); past != nil {
		t.Error("taken over although renewed")
	}
	f.advance(patience / 4)
	f.adoptBegin(f.place, "second")
	before = f.dump(f.place.Group)
	if past, _, _ := f.AdoptBegin(f.ctx(), f.place, "first", lease, true); past != nil {
		t.Error("the first took its claim back")
	}
	f.stale("first", h)
	f.unchanged(before, f.place.Group, "steps under an old claim")
	f.shutGate(h)
	must(t, f.AdoptEnd(f.ctx(), newAllotment(f.place, 10), "second", store.Counters{Epoch: 2, Capacity: 10, Available: 10, Version: 5}, 1))
	before = f.dump(f.place.Group)
	f.stale("second", h) // it is over
	f.unchanged(before, f.place.Group, "steps of an adopt that is over")
	f.broken()
}

// stale checks that each step under this claim returns ErrStale.
func (f *fixture) stale(claim string, h store.Hold) {
	f.t.Helper()
	record := store.Record{Hold: h, Index: h.ExpireTime}
	for name, err := range map[string]error{
		"AdoptRenew": f.AdoptRenew(f.ctx(), f.place, claim, lease),
		"Scan":       errOf(f.Scan(f.ctx(), f.place, claim, []int{0}, []string{""})),
		"AdoptReset": f.AdoptReset(f.ctx(), f.place, claim),
		"AdoptKeep":  f.AdoptKeep(f.ctx(), f.place, claim, []store.Kept{{Tag: record.ID.Tag, Index: record.Index}}),
		"AdoptWrite": f.AdoptWrite(f.ctx(), f.place, claim, []store.Record{record}, nil),
		"buyers":     f.AdoptWrite(f.ctx(), f.place, claim, nil, []store.BuyerEntry{{Held: 1, Live: 1}}),
		"AdoptDrop":  f.AdoptDrop(f.ctx(), f.place, claim, true),
		"AdoptEnd":   f.AdoptEnd(f.ctx(), newAllotment(f.place, 10), claim, store.Counters{Epoch: 9, Capacity: 10}, 1),
	} {
		if !errors.Is(err, store.ErrStale) {
			f.t.Errorf("%s under claim %s: %v, want ErrStale", name, claim, err)
		}
	}
}

// A claim made on another server, before a failover, is none here: it is taken over at once.
func TestClaimOfAnotherServer(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 1)
	f.adoptBegin(f.place, "first")
	f.setField("adoptee", "0123abcd")
	f.stale("first", h)
	if past, _, err := f.AdoptBegin(f.ctx(), f.place, "second", lease, true); past == nil || err != nil {
		t.Errorf("not taken over: %v", err)
	}
	f.broken()
}

// rebuild takes all steps of an adopt with what is given, and walks as often as told.
func (f *fixture) rebuild(claim string, epoch int64, walks int, records []store.Record, buyers []store.BuyerEntry, c store.Counters) {
	f.t.Helper()
	past := f.adoptBegin(f.place, claim)
	for range walks {
		for _, e := range f.walk(claim).Buyers { // who is not given has nothing
			must(f.t, f.AdoptWrite(f.ctx(), f.place, claim, nil, []store.BuyerEntry{{Key: e.Key}}))
		}
		must(f.t, f.AdoptReset(f.ctx(), f.place, claim))
		for chunk := range slices.Chunk(records, 3) {
			must(f.t, f.AdoptWrite(f.ctx(), f.place, claim, chunk, nil))
		}
		must(f.t, f.AdoptWrite(f.ctx(), f.place, claim, nil, buyers))
	}
	c.Epoch, c.Version = epoch, past.Version+1
	must(f.t, f.AdoptEnd(f.ctx(), newAllotment(f.place, c.Capacity), claim, c, past.Sequence))
}

// survivors walks all records under a claim.
func (f *fixture) survivors(claim string) (records []store.Record, damaged []string) {
	f.t.Helper()
	for bucket := range f.place.Buckets {
		for cursor, more := "", true; more; more = cursor != "" {
			parts, err := f.Scan(f.ctx(), f.place, claim, []int{bucket}, []string{cursor})
			must(f.t, err)
			records, damaged = append(records, parts[0].Records...), append(damaged, parts[0].Damaged...)
			cursor = parts[0].Next
		}
	}
	return records, damaged
}

// An adopt that sets what it found gives the same state, walked once or twice; holds go on as before.
func TestAdoptKeepsHolds(t *testing.T) {
	t.Parallel()
	f := setup(t, 40)
	all := f.ended()
	f.release(all["due"])
	live := f.hold("live", "request", 2)
	second := f.withSecond(10)
	carted := f.cartOf("cart", "request", second, 1, 1)
	pinned := f.cartOf("pinned", "request", second, 1, 1)
	f.begin("cart-order", pinned...)
	before := f.mustState()

	f.adoptBegin(f.place, "claim")
	records, damaged := f.survivors("claim")
	if len(damaged) != 0 || len(records) != len(before.holds) {
		t.Fatalf("%d records, damaged %v, want %d", len(records), damaged, len(before.holds))
	}
	for _, r := range records {
		h := before.holds[packTag(r.ID.Tag)]
		want := max(before.deadlines[packTag(r.ID.Tag)], before.leases[packTag(r.ID.Tag)], before.ended[packTag(r.ID.Tag)])
		if r.State != h.state || millis(r.Index) != want || r.State == store.Confirming && (r.Units != h.pin || millis(r.Lease) != h.lease) {
			t.Errorf("record %+v, want state %d and index %d", r, h.state, want)
		}
	}
	entries := f.buyersOf(records, map[string]int64{"sold": 1})
	counters := store.Counters{Capacity: 40, Available: 33, Held: 3, Confirming: 2, Shrinking: 1, Sold: 1}
	f.rebuild("claim", 2, 1, records, entries, counters)
	once := f.mustState()
	f.rebuild("claim", 2, 2, records, entries, counters)
	twice := f.mustState()

	kept := func(s *state) any { return []any{s.holds, s.deadlines, s.leases, s.ended, s.buyers, s.markers} }
	allow := cmp.AllowUnexported(heldRecord{}, buyerTotals{})
	if diff := cmp.Diff(kept(before), kept(once), allow); diff != "" {
		t.Errorf("an adopt changed what it found (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(kept(once), kept(twice), allow); diff != "" {
		t.Errorf("the second walk gave another state (-once +twice):\n%s", diff)
	}
	f.want("epoch 2, capacity 40, sequence 9")

	if got := f.get(live); got.Token != live.Token || got.State != store.Held {
		t.Errorf("a survivor: %+v", got)
	}
	if again := f.cartOf("cart", "request", second, 1, 1); again[0].Token != carted[0].Token {
		t.Errorf("a repeat after the adopt: %+v", again)
	}
	if b := f.begin("live-order", live); b[0].Epoch != 2 || b[0].Token.Epoch != 1 {
		t.Errorf("begun under %d with token %+v", b[0].Epoch, b[0].Token)
	}
	if h := f.hold("new", "request", 1); h.Token != (store.Token{Epoch: 2, Sequence: 10}) {
		t.Errorf("a new hold's token %+v", h.Token)
	}
}

// buyersOf sums up the live records as an adopt does.
func (f *fixture) buyersOf(records []store.Record, sold map[string]int64) []store.BuyerEntry {
	entries := map[string]*store.BuyerEntry{}
	for buyer, units := range sold {
		entries[buyer] = &store.BuyerEntry{Key: f.buyerKey(buyer), Sold: units}
	}
	for _, r := range records {
		units := r.Quantity
		if r.State == store.Confirming {
			units = r.Units
		} else if r.State != store.Held {
			continue
		}
		if r.BuyerID == "" {
			continue
		}
		if entries[r.BuyerID] == nil {
			entries[r.BuyerID] = &store.BuyerEntry{Key: f.buyerKey(r.BuyerID)}
		}
		e := entries[r.BuyerID]
		e.Held, e.Live, e.Tags = e.Held+units, e.Live+1, append(e.Tags, r.ID.Tag)
	}
	var all []store.BuyerEntry
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		all = append(all, *entries[name])
	}
	return all
}

// Records that an adopt ends, removes, or makes anew.
func TestAdoptChangesHolds(t *testing.T) {
	t.Parallel()
	f := setup(t, 40)
	ends, goes, stays := f.hold("ends", "request", 1), f.hold("goes", "request", 1), f.hold("stays", "request", 1)
	f.adoptBegin(f.place, "claim")
	now := f.now().Truncate(time.Millisecond)
	lapsed := store.Record{Hold: ends, Index: now.Add(retention)}
	lapsed.State = store.Lapsed
	removed := store.Record{Hold: store.Hold{ID: goes.ID}}
	longer := store.Record{Hold: stays}
	longer.ExpireTime = stays.ExpireTime.Add(time.Minute)
	longer.Index = longer.ExpireTime
	sold := store.Record{Hold: store.Hold{
		ID: store.NewHoldID(f.place.Allotment, "sold", "request"), BuyerID: "sold", RequestID: "request", Quantity: 2, State: store.Sold,
		Token: store.Token{Epoch: 1, Sequence: 9}, CreateTime: now, ExpireTime: now, OrderID: "order", Pinned: &store.Pinned{Quantity: 2},
	}, Index: now.Add(time.Hour)}
	f.rebuild("claim", 2, 2, []store.Record{lapsed, removed, longer, sold},
		[]store.BuyerEntry{{Key: f.buyerKey("stays"), Held: 1, Live: 1, Tags: []string{stays.ID.Tag}}, {Key: f.buyerKey("sold"), Sold: 2}},
		store.Counters{Capacity: 40, Available: 37, Held: 1, Sold: 2})
	if got := f.get(ends); got.State != store.Lapsed {
		t.Errorf("ended: state %d", got.State)
	}
	refusal(t, errOf(f.Get(f.ctx(), f.placed(goes))), store.HoldNotFound)
	if got := f.get(stays); !got.ExpireTime.Equal(longer.ExpireTime) {
		t.Errorf("ends at %v, want %v", got.ExpireTime, longer.ExpireTime)
	}
	if got := f.get(sold.Hold); got.OrderID != "order" || got.Pinned.Quantity != 2 {
		t.Errorf("sold: %+v", got)
	}
	s := f.mustState()
	if diff := cmp.Diff(map[string]bool{packTag(stays.ID.Tag): true}, s.markers); diff != "" {
		t.Errorf("markers (-want +got):\n%s", diff)
	}
	if len(s.holds) != 3 || len(s.ended) != 2 || len(s.deadlines) != 1 {
		t.Errorf("holds %d, ended %d, live %d", len(s.holds), len(s.ended), len(s.deadlines))
	}
	if again := f.hold("goes", "request", 1); again.Token.Epoch != 2 {
		t.Errorf("a new hold: %+v", again)
	}
}

// A live record that an adopt has set notes from when its deadline counts. It is a record like any other.
func TestAdoptNotesItsTime(t *testing.T) {
	t.Parallel()
	f := setup(t, 40)
	second := f.withSecond(10)
	names := []string{"get", "extend", "cancel", "lapse", "confirm", "refuse", "late", "sold"}
	holds := map[string]store.Hold{}
	for _, name := range names {
		holds[name] = f.hold(name, "request", 1)
	}
	inCart := f.cartOf("cart", "request", second, 1, 1)[0]
	f.advance(time.Second) // what counts from its very beginning notes nothing
	f.adoptBegin(f.place, "claim")
	records, _ := f.survivors("claim")
	now := f.now().Truncate(time.Millisecond)
	for i := range records {
		records[i].Base = now
	}
	counters := store.Counters{Capacity: 40, Available: 31, Held: 9}
	f.rebuild("claim", 2, 1, records, f.buyersOf(records, nil), counters)
	again, damaged := f.walk("").Records, f.walk("").Damaged
	if len(again) != 9 || len(damaged) > 0 {
		t.Fatalf("%d records, damaged %v", len(again), damaged)
	}
	for _, r := range again {
		if !r.Base.Equal(now) || r.OrderID != "" {
			t.Errorf("record %+v, want its deadline to count from %v", r, now)
		}
	}
	if got := f.get(inCart); got.Cart != inCart.Cart || got.OrderID != "" {
		t.Errorf("in a cart: %+v", got)
	}
	f.get(holds["get"])
	f.extend(holds["extend"])
	f.cancel(holds["cancel"])
	b := f.begin("order", holds["confirm"])
	f.finish(holds["confirm"], soldVerdict(b[0].Hold))
	b = f.begin("order-2", holds["refuse"])
	f.finish(holds["refuse"], store.Verdict{Kind: store.VerdictRefusedCart, Token: b[0].Token})
	f.finish(holds["sold"], store.Verdict{Kind: store.VerdictSold, Token: holds["sold"].Token, Sale: store.Sale{OrderID: "o", Quantity: 1}})
	f.advance(holdTime)
	if n := f.release(holds["lapse"], holds["late"]); n != 2 {
		t.Errorf("released %d", n)
	}
	f.begin("order-3", holds["late"])
	for name, want := range map[string]store.HoldState{
		"cancel": store.Cancelled, "confirm": store.Sold, "refuse": store.Cancelled, "sold": store.Sold, "lapse": store.Lapsed, "late": store.Confirming,
	} {
		if got := f.get(holds[name]); got.State != want {
			t.Errorf("%s: state %d, want %d", name, got.State, want)
		}
	}
	f.adoptBegin(f.place, "claim-2")
	if records, damaged := f.survivors("claim-2"); len(records) != 9 || len(damaged) != 0 {
		t.Errorf("a second adopt found %d records, damaged %v", len(records), damaged)
	}
	f.broken()
}

// A claim that is dropped keeps nobody waiting. Unused, what was in force is so again; used, nothing is before another adopt.
func TestDroppedClaim(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	f.hold("buyer", "request", 1)
	f.adoptBegin(f.place, "first")
	must(t, f.AdoptDrop(f.ctx(), f.place, "first", true))
	if got := f.counters(f.place)[0]; got.Available != 9 || got.Held != 1 {
		t.Errorf("after an unused claim: %+v", got)
	}
	f.adoptBegin(f.place, "second")
	if err := f.AdoptDrop(f.ctx(), f.place, "first", true); !errors.Is(err, store.ErrStale) {
		t.Errorf("a claim that is over: %v, want ErrStale", err)
	}
	must(t, f.AdoptDrop(f.ctx(), f.place, "second", false))
	if _, err := f.Counters(f.ctx(), []store.Place{f.place}); err == nil {
		t.Error("in force after a claim under which it may have been changed")
	}
	f.adoptBegin(f.place, "third")
	must(t, f.AdoptReset(f.ctx(), f.place, "third"))
	must(t, f.AdoptDrop(f.ctx(), f.place, "third", false))
	if past := f.adoptBegin(f.place, "fourth"); past.Epoch == 0 || past.Sequence == 0 {
		t.Errorf("what was before is forgotten: %+v", past)
	}
	must(t, f.AdoptDrop(f.ctx(), f.place, "fourth", true))
	if _, err := f.Counters(f.ctx(), []store.Place{f.place}); err == nil {
		t.Error("in force without its indexes, which an earlier adopt has emptied")
	}
	f.adoptBegin(f.place, "fifth")
	f.broken()
}
