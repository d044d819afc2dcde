package holds

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// Units that another replica gave back are granted in the order of arrival, with markers, though this replica did
// not expect any to be there; and a repeat is answered as ever.
func TestBriefCallIsMadeGood(t *testing.T) {
	t.Parallel()
	f := setup(t, 3, onRedis(storetest.NewRedis(t, local.RedisOptions{}).URL()))
	second := f.withSecond(1)
	taken := f.hold("x", "1", 3)
	must(t, errOf(f.Create(f.ctx(), cart("y", "1", line(second, 1)))))
	if !f.spent.all([]store.Place{f.place, second}) {
		t.Fatal("all is taken, and not known to be so")
	}
	g := f.another()
	must(t, errOf(g.Cancel(f.ctx(), f.placed(taken))))
	before := f.evalsha()
	requests := []store.CreateRequest{
		f.request("x", "1", 3), f.request("x", "1", 2), f.request("b", "1", 4), f.request("a", "1", 1), f.request("a", "1", 1),
		cart("c", "1", line(f.place, 1), line(second, 1)), f.request("x", "1", 3), f.request("b", "2", 2), f.request("d", "1", 1),
	}
	ops := f.send1(requests...)
	want := []status{statusKnown, statusMismatch, statusSoldOut, statusOK, statusKnown, statusAllHeld, statusKnown, statusOK, statusAllHeld}
	if diff := cmp.Diff(want, statuses(ops)); diff != "" {
		t.Fatalf("statuses (-want +got):\n%s", diff)
	}
	if n := f.evalsha() - before; n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
	s := f.mustState()
	for i, r := range requests {
		id := store.NewHoldID(f.place.Allotment, r.BuyerID, r.RequestID)
		if granted := want[i] == statusOK || want[i] == statusKnown && r.BuyerID == "a"; s.markers[packTag(id.Tag)] != granted {
			t.Errorf("request %d has a marker: %v", i, !granted)
		}
	}
	for range 2 { // the second batch is brief, and need not be more
		if got := f.send1(f.request("d", "1", 1))[0].reply[0].status(); got != statusAllHeld {
			t.Errorf("status %d, want ALL_HELD", got)
		}
	}
}

// Who asks again when all is taken gets what is known of the request, though the first call had no ids to compare.
func TestBriefCallKnowsCarts(t *testing.T) {
	t.Parallel()
	f := setup(t, 1, onRedis(storetest.NewRedis(t, local.RedisOptions{}).URL()))
	second := f.withSecond(1)
	held := cart("x", "1", line(f.place, 1), line(second, 1))
	must(t, errOf(f.Create(f.ctx(), held)))
	want := []status{statusAllHeld, statusKnown, statusMismatch, statusMismatch, statusAllHeld, statusAllHeld}
	for round := range 2 {
		before := f.evalsha()
		got := f.send1(f.request("a", "1", 1), held, f.request("x", "1", 1), cart("x", "1", line(f.place, 1), line(second, 2)),
			cart("b", "1", line(f.place, 1), line(second, 1)), f.request("x", "2", 1))
		if diff := cmp.Diff(want, statuses(got)); diff != "" {
			t.Errorf("round %d, statuses (-want +got):\n%s", round, diff)
		}
		if n := f.evalsha() - before; n != 2 {
			t.Errorf("round %d: %d calls, want 2", round, n)
		}
	}
}

// What this replica releases or cancels itself, it knows.
func TestBriefAfterOwnRelease(t *testing.T) {
	t.Parallel()
	f := setup(t, 1, onRedis(storetest.NewRedis(t, local.RedisOptions{}).URL()))
	h := f.hold("a", "1", 1)
	_, err := f.Create(f.ctx(), f.request("b", "1", 1))
	refusal(t, err, store.AllHeld)
	f.cancel(h)
	before := f.evalsha()
	h = f.hold("b", "1", 1)
	if n := f.evalsha() - before; n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
	f.advance(holdTime)
	f.hold("c", "1", 1) // on need
	if s := f.mustState(); !s.markers[packTag(store.NewHoldID(f.place.Allotment, "c", "1").Tag)] || h.Quantity != 1 {
		t.Error("no marker")
	}
}

func TestSpentIsBounded(t *testing.T) {
	t.Parallel()
	var s spent
	c := newCall(createScript)
	for i := range mostSpent + 10 {
		p := store.Place{Allotment: string(rune(i)) + "x"}
		c.places, c.facts = append(c.places, p), append(c.facts, facts{})
	}
	s.note(c)
	if len(s.of) == 0 || len(s.of) > mostSpent {
		t.Errorf("%d allotments are kept", len(s.of))
	}
}

// What a server runs only if it is announced is announced again when it is sent again in full.
func TestInFullKeepsAnnouncement(t *testing.T) {
	t.Parallel()
	c := newCall(createScript)
	c.brief, c.asking = true, true
	c.add(&op{script: createScript, places: []store.Place{{Allotment: "x", Group: "x"}}, reply: []result{{int64(statusBrief), int64(1)}}})
	if again := inFull([]*call{c}); len(again) != 1 || !again[0].asking {
		t.Errorf("sent again: %+v, want one call that is announced", again)
	}
}
