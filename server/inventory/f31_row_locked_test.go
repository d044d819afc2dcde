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
