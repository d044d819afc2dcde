package inventory

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// TestSnapshotsOfMany: watching many allotments takes no more for each than watching few, and what nobody watches any more takes no
// memory.
func TestSnapshotsOfMany(t *testing.T) {
	t.Parallel()
	const many, patience = 100_000, 20 * time.Second // looking through all that are known for each would take minutes
	s, began := newSnapshots(nil), time.Now()
	now := began
	for n := range many {
		s.keep(fmt.Sprint(n), store.Availability{Version: int64(n)}, now)
		if time.Since(began) > patience {
			t.Fatalf("%d of %d allotments were noted in %v", n, many, patience)
		}
	}
	if a, known := s.find("7", now.Add(watchTick/2-1)); !known || a.Version != 7 {
		t.Errorf("what was just read is %+v, known: %v", a, known)
	}
	if _, known := s.find("7", now.Add(watchTick/2)); known {
		t.Error("what was read half a tick ago is taken for new")
	}
	for range 2 {
		now = now.Add(watchTick + 1)
		s.keep("one", store.Availability{}, now)
	}
	if n := len(s.recent) + len(s.older); n != 2 {
		t.Errorf("%d snapshots are kept of one allotment that is watched", n)
	}
}
