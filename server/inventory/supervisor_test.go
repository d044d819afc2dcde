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
