package inventory

import (
	"fmt"
	"testing"
	"time"
)

// TestBackoff: adopts on suspicion that follow each other are delayed, more and more, up to a minute.
func TestBackoff(t *testing.T) {
	var s backoffs
	now := time.Now()
	if !s.due("x", now) || s.due("x", now) || !s.due("y", now) {
		t.Error("want the first of each allotment at once, and no second one")
	}
	for delay := backoffFirst; delay < 4*backoffMost; delay *= 2 {
		wait := min(delay, backoffMost)
		if s.due("x", now.Add(wait-1)) {
			t.Errorf("due before %s have passed", wait)
		}
		now = now.Add(wait)
		if !s.due("x", now) {
			t.Errorf("not due after %s", wait)
		}
	}
	now = now.Add(backoffCalm + 1)
	if !s.due("x", now) || s.due("x", now.Add(backoffFirst-1)) || !s.due("x", now.Add(backoffFirst)) {
		t.Error("after a calm time it does not begin anew")
	}
}

// TestBackoffIsForgotten: an allotment that is no longer suspected takes no memory.
func TestBackoffIsForgotten(t *testing.T) {
	var s backoffs
	now := time.Now()
	for i := range 100_000 {
		s.due(fmt.Sprint(i), now)
	}
	for range 6 { // minutes, more than until a turn
		s.due("x", now)
		now = now.Add(backoffMost)
	}
	s.forget(now)
	if s.due("0", now) != true || len(s.recent) != 1 || len(s.older) != 100_001 {
		t.Errorf("%d and %d are remembered after a turn", len(s.recent), len(s.older))
	}
	s.forget(now.Add(backoffCalm + 1))
	if len(s.recent)+len(s.older) != 1 {
		t.Errorf("%d allotments are remembered after a calm time", len(s.recent)+len(s.older))
	}
	s.forget(now.Add(time.Hour))
	if s.recent != nil || s.older != nil {
		t.Error("something is remembered after an hour")
	}
}
