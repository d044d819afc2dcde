package inventory

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// TestNothingIsKeptOfWhatLeft: an allotment that is retired, or gone from the ledger, takes no memory for ever.
func TestNothingIsKeptOfWhatLeft(t *testing.T) {
	s := newSupervisor(&Inventory{})
	rows := map[string]*store.Allotment{}
	for i := range 1000 {
		id := fmt.Sprint(i)
		rows[id] = &store.Allotment{Place: store.Place{Allotment: id}, Retired: true}
	}
	if n := len(s.turn(rows)); n != len(rows) {
		t.Errorf("looks at %d of %d retired allotments, to see whether they have left", n, len(rows))
	}
	for id := range rows {
		s.left[id] = true
	}
	if n := len(s.turn(rows)); n != 0 || len(s.watched) != 0 {
		t.Errorf("looks at %d of those that left, and watches %d", n, len(s.watched))
	}
	s.turn(map[string]*store.Allotment{})
	if len(s.left) != 0 {
		t.Errorf("%d allotments are remembered for having left", len(s.left))
	}
}

// TestSweeperForgets: when nothing is due any more, what was costs no memory.
func TestSweeperForgets(t *testing.T) {
	s := newSweeper(nil)
	for i := range 1000 {
		s.note(fmt.Sprint(i), time.Hour)
	}
	if due, _ := s.take(time.Now().Add(2 * time.Hour)); len(due) != 1000 || cap(s.order) != 0 || len(s.next) != 0 {
		t.Errorf("%d are due; %d and %d are kept", len(due), cap(s.order), len(s.next))
	}
}

// TestSweeperKeepsOneDeadline: looking at an allotment earlier than its next deadline, however often, takes no memory until that.
func TestSweeperKeepsOneDeadline(t *testing.T) {
	s := newSweeper(nil)
	for range 1000 {
		s.note("x", 24*time.Hour)
		s.note("y", time.Hour)
		s.note("x", 0)
		if due, _ := s.take(time.Now().Add(time.Minute)); !slices.Equal(due, []string{"x"}) {
			t.Fatalf("due: %v", due)
		}
	}
	s.note("x", 24*time.Hour)
	if n := len(s.order); n > 2 {
		t.Errorf("%d deadlines of two allotments are kept", n)
	}
	if due, wait := s.take(time.Now().Add(2 * time.Hour)); !slices.Equal(due, []string{"y"}) || wait < 21*time.Hour {
		t.Errorf("due after two hours: %v, and then after %v", due, wait)
	}
}

// TestSums: what gauges show is of all allotments, as of the last look at each.
func TestSums(t *testing.T) {
	s, now := newSupervisor(&Inventory{}), time.Now()
	found := func(id string) store.Work {
		return store.Work{Counters: store.Counters{Place: store.Place{Allotment: id}, Held: 3, Confirming: 2, Shrinking: 1, Now: now}, Pending: 4}
	}
	for _, id := range []string{"a", "b"} {
		s.watched[id] = &watch{nextLook: now, adopt: true}
		s.note(found(id))
	}
	late := found("b")
	late.NextLapse, late.Confirms = now.Add(-7*time.Second), make([]store.HoldID, 2)
	s.note(late)
	s.adopt(store.Place{Allotment: "a"}, &store.AdoptNeeded{})
	s.watched["a"].off, s.watched["a"].offSince = -5, now.Add(-time.Minute)
	for id, look := range map[string]time.Duration{"a": 9 * time.Second, "b": -time.Minute} {
		s.watched[id].nextLook = now.Add(-look)
	}
	want := sums{
		off: 1, offUnits: 5, offFor: time.Minute, held: 6, confirming: 6, confirms: 8, overdue: 2, rebuilding: 1,
		lapseOverdue: 7 * time.Second, lag: 9 * time.Second,
	}
	if got := s.sums(now); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestOverdueBetweenClaims: while supervisors claim a confirm again and again and cannot end it, it stays overdue.
func TestOverdueBetweenClaims(t *testing.T) {
	w := &watch{}
	w.note(store.Work{Confirms: make([]store.HoldID, 1)})
	w.note(store.Work{})
	if w.overdue != 1 {
		t.Errorf("%d overdue just after the lease was renewed, want 1", w.overdue)
	}
	w.overdueSeen = w.overdueSeen.Add(-overdueKept - time.Millisecond)
	w.note(store.Work{})
	if w.overdue != 0 {
		t.Errorf("%d overdue some time after the last was seen, want none", w.overdue)
	}
}

// TestExpectedBeforeItsRow: a confirm left open in an allotment that is younger than the rows which the supervisor has read is
// not forgotten for that.
func TestExpectedBeforeItsRow(t *testing.T) {
	s := newSupervisor(&Inventory{})
	s.knownAt = time.Now()
	s.expect([]store.PlacedHold{{Place: store.Place{Allotment: "young"}}})
	if n := len(s.turn(map[string]*store.Allotment{})); n != 1 {
		t.Errorf("looks at %d allotments, want 1", n)
	}
	s.knownAt = time.Now().Add(time.Second) // the rows are read again, and it is not among them
	if n := len(s.turn(map[string]*store.Allotment{})); n != 0 || len(s.watched) != 0 {
		t.Errorf("looks at %d allotments that are not there, and watches %d", n, len(s.watched))
	}
}
