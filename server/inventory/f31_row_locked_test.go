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

// F31 meets an adopt behind one that was given up when it had emptied the indexes. It cannot raise the epoch, and has itself changed
// nothing; but what the first one left was once in force again by that, and as nobody finds lapsed holds in it, bob was refused.
func TestF31RowLockedAfterAnAdopt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, withOptions(quiet), func(w *world) { w.lockTime = 40 * time.Millisecond })
	a := w.open(1)
	w.hold(a, "ann", "r1", 1)
	r := w.at(0)
	row, err := r.Allotment(w.ctx(), a)
	if err != nil {
		t.Fatal(err)
	}
	const claim = "claim of a replica that stops"
	past, _, err := r.holds.AdoptBegin(w.ctx(), row.Place, claim, 10*time.Second, true)
	if err != nil || past == nil {
		t.Fatalf("AdoptBegin: %+v, %v", past, err)
	}
	if _, _, err := r.ledger.RaiseEpoch(w.ctx(), a, row.Epoch, past.Epoch, past.Feed); err != nil {
		t.Fatal(err)
	}
	if err := r.holds.AdoptReset(w.ctx(), row.Place, claim); err != nil {
		t.Fatal(err)
	}
	release := w.lockRow(a)
	if err := r.holds.AdoptDrop(w.ctx(), row.Place, claim, false); err != nil {
		t.Fatal(err)
	}
	if found, _, err := w.next().Reconcile(w.ctx(), a, true); err == nil || !isTrouble(err) {
		t.Errorf("Reconcile: %+v, %v; want that it cannot be done", found, err)
	}
	w.advance(store.DefaultHoldDuration + time.Second)
	if _, err := w.tryHold(0, a, "bob", "r1", 1); isSoldOut(err) {
		t.Errorf("the hold of ann has lapsed, and bob is told %v", err)
	}
	release()
	w.reconcile(a, true) // which gives ann the time that nobody could use
	w.wantStock(a, 0, 1, 0)
}
