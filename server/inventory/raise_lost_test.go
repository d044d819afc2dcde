package inventory_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// lostRaise is a ledger that raises an epoch, and whose answer is lost once.
type lostRaise struct {
	inventory.Ledger
	lose *atomic.Bool
}

func (l lostRaise) RaiseEpoch(ctx context.Context, id string, seen, redisEpoch, redisFeed int64) (store.Allotment, bool, error) {
	row, wentBack, err := l.Ledger.RaiseEpoch(ctx, id, seen, redisEpoch, redisFeed)
	if err == nil && l.lose.CompareAndSwap(true, false) {
		return store.Allotment{}, false, store.ErrUnavailable
	}
	return row, wentBack, err
}

// TestRaiseReplyLost: an adopt that was not told that it has raised the epoch puts the older one in force again. The rows of
// the feed are gone with it, so the next adopt must not wait until a difference has stood for 10 s.
func TestRaiseReplyLost(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	w := newWorld(t, 1, withOptions(func(o *inventory.Options) { o.Background = lostRaise{o.Background, &lose} }))
	a := w.open(3)
	w.forge(a, -1)
	lose.Store(true)
	if _, _, err := w.next().Reconcile(w.ctx(), a, true); !isTrouble(err) {
		t.Errorf("Reconcile: %v, want that it is not known", err)
	}
	w.forge(a, 1) // else that is what is repaired
	storetest.Eventually(t, 9*time.Second, func() error {
		c, err := w.replicas[0].holds.Counters(w.ctx(), []store.Place{w.place(a)})
		if err == nil && c[0].Epoch < w.epoch(a) {
			err = fmt.Errorf("in force under epoch %d", c[0].Epoch)
		}
		return err
	})
}
