package compare

import (
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
)

// TestTooShortToTell: less than a few ticks are not called a figure, least of all one of 0.
func TestTooShortToTell(t *testing.T) {
	t.Parallel()
	for _, spent := range []time.Duration{-machine.Tick, 0, leastSpent - machine.Tick} {
		if got := perDecision(spent, 1000); got != nil {
			t.Errorf("%v for 1,000 decisions: %v us each", spent, *got)
		}
	}
	if _, known := spentBy(nil); known {
		t.Error("the CPU of servers that are not ours is known")
	}
	if got := perDecision(200*time.Millisecond, 1000); got == nil || *got != 200 {
		t.Errorf("200 ms for 1,000 decisions: %v", got)
	}
}
