package inventory

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// Only so many allotments are shown, whatever is asked for: those that were asked for most of late.
func TestHottest(t *testing.T) {
	s := newSupervisor(&Inventory{})
	asked := map[string]int64{}
	for i := range 1000 {
		asked[fmt.Sprintf("show-%04d", i)] = int64(i)
	}
	now := time.Now()
	s.hot.turn(asked, now)
	shown := map[string]bool{}
	for _, a := range s.hottest() {
		shown[a.id] = true
	}
	if len(shown) != hotShown || !shown["show-0999"] || !shown[fmt.Sprintf("show-%04d", 1000-hotShown)] {
		t.Errorf("shown are %v", shown)
	}
	if len(s.hot.of) > hotKept {
		t.Errorf("%d are remembered, want at most %d", len(s.hot.of), hotKept)
	}

	now = now.Add(time.Second)
	s.hot.turn(map[string]int64{"new": 100_000}, now)
	if !s.hot.isShown("new") {
		t.Error("one that is asked for most is not shown")
	}
	s.hot.turn(nil, now.Add(time.Hour))
	if len(s.hot.of) != 0 {
		t.Errorf("an hour later %d are remembered", len(s.hot.of))
	}
}

// A rate is that of requests asked for evenly.
func TestHotRate(t *testing.T) {
	var h hot
	now := time.Now()
	for range 60 {
		h.turn(map[string]int64{"show": 500}, now)
		now = now.Add(time.Second)
	}
	if got := h.of["show"].perSecond; got < 450 || got > 501 {
		t.Errorf("%v requests a second, want 500", got)
	}
}

// Numbers are kept of those alone that are shown, and show no less than nothing.
func TestHotNumbers(t *testing.T) {
	var h hot
	h.turn(map[string]int64{"show": 1}, time.Now())
	h.note(store.Counters{Place: store.Place{Allotment: "show"}, Available: -1, Held: 2, Confirming: 3, Shrinking: 4, Sold: 5})
	h.note(store.Counters{Place: store.Place{Allotment: "other"}})
	if a := h.of["show"]; !a.seen || a.available != 0 || a.held != 9 || a.sold != 5 || len(h.of) != 1 {
		t.Errorf("%+v", a)
	}
}
