package inventory

import (
	"context"
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
)

// sparse has a record in each hash from one on, and notes how many of those are walked at a time.
type sparse struct {
	Redis
	filled int
	calls  int
	most   int
	walked []int // how often each hash was
}

func (s *sparse) Scan(_ context.Context, _ store.Place, _ string, buckets []int, _ []string) ([]store.Part, error) {
	s.calls++
	parts := make([]store.Part, len(buckets))
	for i, b := range buckets {
		s.walked[b]++
		if b >= s.filled {
			parts[i].Records = make([]store.Record, 1)
		}
	}
	if buckets[0] > s.filled {
		s.most = max(s.most, len(buckets))
	}
	return parts, nil
}

// TestWalk: each hash is walked once. Most hashes of a huge allotment are not there at first, and then take few calls; those
// that are there keep Redis busy, so fewer of them are taken at a time.
func TestWalk(t *testing.T) {
	t.Parallel()
	const buckets = 65_536
	for name, c := range map[string]struct{ filled, calls, most int }{
		"nothing is there": {buckets, 150, 0},
		"then something":   {buckets / 2, 600, scanBuckets},
	} {
		s := &sparse{filled: c.filled, walked: make([]int, buckets)}
		v := &Inventory{redis: s}
		if err := v.walk(t.Context(), store.Place{Buckets: buckets}, "", func(store.Part) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if s.calls > c.calls || s.most > c.most {
			t.Errorf("%s: %d calls of up to %d hashes that are there, want at most %d of %d", name, s.calls, s.most, c.calls, c.most)
		}
		for b, n := range s.walked {
			if n != 1 {
				t.Fatalf("%s: hash %d is walked %d times", name, b, n)
			}
		}
	}
}
