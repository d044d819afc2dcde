package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// F31: somebody holds an allotment's row. Its confirms are pinned and told so when the server's own limit has passed; holds,
// and what is confirmed elsewhere, go on; and the ledger is not taken for down.
func TestF31RowLocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, func(w *world) { w.lockTime = 40 * time.Millisecond })
	a, other := w.open(10), w.open(10)
	pinned := w.buyers(a, 5)
	release := w.lockRow(a)
	for i, h := range pinned {
		_, err := w.tryConfirm(i, h, fmt.Sprint("order-", i))
		wantResultUnknown(t, err)
		if state := sqlState(err); state != "55P03" {
			t.Errorf("confirm %d: SQLSTATE %q, want 55P03, lock_not_available: %v", i, state, err)
		}
		w.wantState(h, store.Confirming)
	}
	w.decidesHolds(a)
	w.confirm(w.hold(other, "bob", "r1", 1), "order-bob")
	for i, r := range w.replicas {
		if r.ledger.Down() {
			t.Errorf("replica %d takes Postgres for down", i)
		}
	}
	w.wantSales(a, 0)
	release()
	for _, h := range pinned {
		w.finishedAlone(h)
	}
	w.wantSales(a, 5)
	w.wantStock(a, 5, 0, 5)
}

// F31 meets an adopt that an operator asked for: it cannot raise the epoch, has changed nothing, and so takes nothing away
// from buyers. It once left the allotment shut for as long as the row was locked, or Postgres away.
func TestF31RowLockedDuringAnAdopt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, func(w *world) { w.lockTime = 40 * time.Millisecond })
	a := w.open(10)
	w.hold(a, "ann", "r1", 1)
	release := w.lockRow(a)
	w.forge(a, -1)
	if found, _, err := w.next().Reconcile(w.ctx(), a, true); err == nil || !isTrouble(err) {
		t.Errorf("Reconcile: %+v, %v; want that it cannot be done", found, err)
	}
	w.until(func() error {
		_, err := w.tryHold(0, a, "bob", "r1", 1)
		return err
	})
	release()
	w.reconcile(a, true)
	w.wantStock(a, 8, 2, 0)
}
