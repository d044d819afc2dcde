package inventory_test

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
)

// The load of docs/model/mistake_test.go, under which four replicas with a mutex each oversell 500 seats.
const (
	mistakeSeats    = 500
	mistakeReplicas = 4
	mistakeBuyers   = 1_000
	mistakeAtOnce   = 64
)

// rushed is what one buyer of a rush met. The instants are those of a clock that ticks at each event.
type rushed struct {
	asked, answered int64
	refusal         *store.Refusal // nil: got a seat, and paid for it
}

// rush lets buyers ask for a seat each, the replicas in turn, and confirm at once what they get.
func rush(t *testing.T, w *world, allotment string, buyers int) []rushed {
	t.Helper()
	var clock, next atomic.Int64
	all := make([]rushed, buyers)
	together(mistakeAtOnce, func(int) {
		for i := int(next.Add(1)) - 1; i < buyers; i = int(next.Add(1)) - 1 {
			r := rushed{asked: clock.Add(1)}
			h, err := w.tryHold(i, allotment, fmt.Sprintf("buyer-%d", i), "r", 1)
			r.answered = clock.Add(1)
			switch {
			case err == nil:
				// Another replica than the one that gave the hold.
				sale := store.ConfirmHold{ID: h.ID, OrderID: fmt.Sprintf("order-%d", i)}
				if _, err := w.at(i+1).ConfirmHold(w.ctx(), sale); err != nil {
					t.Errorf("buyer %d: confirm: %v", i, err)
				}
			case isSoldOut(err):
				r.refusal = store.Refused(err, refusalOf(err))
			default:
				t.Errorf("buyer %d: hold: %v", i, err)
			}
			all[i] = r
		}
	})
	return all
}

// TestTheMistakeIsNotMade: 1,000 buyers for 500 seats through four replicas. The promises are checked at the end, too.
func TestTheMistakeIsNotMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mistakeReplicas)
	a := w.open(mistakeSeats)
	all := rush(t, w, a, mistakeBuyers)

	firstNo := int64(math.MaxInt64)
	for i, r := range all {
		if no := r.refusal; no != nil {
			firstNo = min(firstNo, r.answered)
			if no.Capacity != mistakeSeats || no.Sold+no.Held != mistakeSeats {
				t.Errorf("buyer %d: refused as %s with %d sold and %d held", i, no.Reason, no.Sold, no.Held)
			}
		}
	}
	// Nothing comes back here, so whoever got a seat must have asked before the first refusal was answered.
	got, taken := 0, 0
	for _, r := range all {
		if r.refusal == nil {
			got++
			if r.asked < firstNo {
				taken++
			}
		}
	}
	if got != mistakeSeats || taken != got {
		t.Errorf("%d buyers got a seat, %d of them before the first refusal; want %d", got, taken, mistakeSeats)
	}
	if _, sold := w.row(a); sold != mistakeSeats {
		t.Errorf("the ledger has %d of %d seats sold", sold, mistakeSeats)
	}
	w.wantStock(a, 0, 0, mistakeSeats)
}

// TestEverySeatFindsItsBuyer: with as many buyers as seats, any refusal would be a valid one.
func TestEverySeatFindsItsBuyer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mistakeReplicas)
	a := w.open(mistakeSeats)
	for i, r := range rush(t, w, a, mistakeSeats) {
		if r.refusal != nil {
			t.Errorf("buyer %d: refused as %s, with a seat for everyone", i, r.refusal.Reason)
		}
	}
	w.wantStock(a, 0, 0, mistakeSeats)
}
