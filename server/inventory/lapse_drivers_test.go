package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func shortHolds(d time.Duration) func(*store.Allotment) {
	return func(a *store.Allotment) { a.HoldDuration = d }
}

// rawAvailable reads the counter past the product, which would release what is due.
func (w *world) rawAvailable(id string) int64 {
	w.t.Helper()
	return storetest.Counters(w.ctx(), w.t, w.raw, "hf:{"+id+"}:c")["available"]
}

// TestLapseByEventAlone: Redis's announcement leads to the release, with the sweeper off and nobody asking.
func TestLapseByEventAlone(t *testing.T) {
	lapseUnasked(t, func(o *inventory.Options) { o.WithoutSweep = true })
}

// TestLapseBySweepAlone: the sweeper releases on time, with events off and nobody asking.
func TestLapseBySweepAlone(t *testing.T) {
	lapseUnasked(t, func(o *inventory.Options) { o.WithoutEvents = true })
}

func lapseUnasked(t *testing.T, drivers func(*inventory.Options)) {
	t.Helper()
	w := newWorld(t, 2, withOptions(drivers))
	a := w.open(5, shortHolds(time.Second))
	for i := range 5 {
		w.hold(a, fmt.Sprintf("buyer-%d", i), "r", 1)
	}
	storetest.Eventually(t, patience, func() error {
		if n := w.rawAvailable(a); n != 5 {
			return fmt.Errorf("available is %d", n)
		}
		return nil
	})
}

// TestLapseByNeedAlone: with events and sweeper off, the last unit is sellable the millisecond after its
// deadline, and availability shows it.
func TestLapseByNeedAlone(t *testing.T) {
	w := newWorld(t, 1, withOptions(quiet))
	a, b := w.open(1), w.open(1)
	h := w.hold(a, "ann", "r", 1)
	w.hold(b, "ann", "r", 1)
	w.advance(h.Remaining - time.Millisecond)
	w.advance(2 * time.Millisecond)
	w.hold(a, "bob", "r", 1)
	w.wantStock(b, 1, 0, 0)
	if n := w.rawAvailable(a); n != 0 {
		t.Errorf("available is %d", n)
	}
}

// TestLapseOfThousands: a wave of lapses is released in bounded batches by every driver at once, each hold once.
func TestLapseOfThousands(t *testing.T) {
	const units = 5000
	w := newWorld(t, 3)
	a := w.open(units, shortHolds(2*time.Second))
	together(64, func(k int) {
		for i := k; i < units; i += 64 {
			if _, err := w.tryHold(k, a, fmt.Sprintf("buyer-%d", i), "r", 1); err != nil {
				t.Errorf("hold %d: %v", i, err)
			}
		}
	})
	storetest.Eventually(t, patience, func() error {
		if n := w.rawAvailable(a); n != units {
			return fmt.Errorf("available is %d", n)
		}
		return nil
	})
}
