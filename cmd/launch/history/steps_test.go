package history

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestSteps compares with counting moment by moment.
func TestSteps(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		const moments = 30
		var counts [moments]int64
		var most, least steps
		for range random.IntN(12) {
			from, until, by := random.IntN(moments), random.IntN(moments), 1+random.Int64N(3)
			end := time.Duration(until)
			if random.IntN(4) == 0 {
				until, end = moments, never
			}
			for i := from; i < until; i++ {
				counts[i] += by
			}
			most.add(time.Duration(from), end, by)
			least.add(time.Duration(from), end, by)
		}
		most.build(true)
		least.build(false)
		for from := range moments {
			high, low := counts[from], counts[from]
			for until := from; until < moments; until++ {
				high, low = max(high, counts[until]), min(low, counts[until])
				if got := most.over(time.Duration(from), time.Duration(until)); got != high {
					t.Fatalf("most from %d to %d: %d, want %d of %v", from, until, got, high, counts)
				}
				if got := least.over(time.Duration(from), time.Duration(until)); got != low {
					t.Fatalf("least from %d to %d: %d, want %d of %v", from, until, got, low, counts)
				}
			}
		}
		highest, at := int64(0), 0
		for i, n := range counts {
			if n > highest {
				highest, at = n, i
			}
		}
		if got, when := most.all(); got != highest || when != time.Duration(at) {
			t.Fatalf("all: %d at %d, want %d at %d of %v", got, when, highest, at, counts)
		}
	}
}
