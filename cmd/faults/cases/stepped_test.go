package cases

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
)

// TestWatchClock: a step is found, there and back; what one reading alone shows is none, nor is what a clock may differ by.
func TestWatchClock(t *testing.T) {
	for _, c := range []struct {
		name  string
		shows []time.Duration // one reading after the other, and then 0
		want  time.Duration
	}{
		{"steady", nil, 0},
		{"there and back", []time.Duration{0, 0, 0, -7 * time.Millisecond, -7 * time.Millisecond}, 7 * time.Millisecond},
		{"held up", []time.Duration{0, 9 * time.Millisecond, 0}, 0},
		{"a little", []time.Duration{0, time.Millisecond, time.Millisecond}, 0},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		got := watchClock(ctx, func() time.Duration {
			if len(c.shows) == 0 {
				cancel()
				return 0
			}
			now := c.shows[0]
			c.shows = c.shows[1:]
			return now
		})
		if got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestClockExcusesNoSale: what is sold too often is not the clock's doing.
func TestClockExcusesNoSale(t *testing.T) {
	for promise, want := range map[string]bool{"R1": false, "R2": true, "R3": true, "R4": false, "R5": false} {
		p := &Played{
			Result: record.Result{Failures: []string{promise}}, Stepped: time.Second,
			Verdict: &history.Verdict{Promises: []*history.Promise{{ID: promise, Breaches: 1}}},
		}
		if p.Void() != want {
			t.Errorf("%s is broken while the clock is stepped: void: %t", promise, p.Void())
		}
	}
}
