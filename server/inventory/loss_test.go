package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestRedisLostUnderLoad: FLUSHALL, a restart that keeps the data and one that loses it, while buyers hold and
// confirm on three replicas. Nothing is oversold, every acknowledged sale stands, nobody is refused for trouble, and
// what is left can be sold to the last unit.
func TestRedisLostUnderLoad(t *testing.T) {
	for _, loss := range []struct {
		name    string
		persist bool
		lose    func(ctx context.Context, w *world, r *local.Redis) error
	}{
		{"FLUSHALL", false, func(ctx context.Context, w *world, _ *local.Redis) error { return w.raw.FlushAll(ctx).Err() }},
		{"restart with data", true, func(ctx context.Context, _ *world, r *local.Redis) error { r.Kill(); return r.Restart(ctx) }},
		{"restart without data", false, func(ctx context.Context, _ *world, r *local.Redis) error { r.Kill(); return r.Restart(ctx) }},
		{"SCRIPT FLUSH", false, func(ctx context.Context, w *world, _ *local.Redis) error { return w.raw.ScriptFlush(ctx).Err() }},
	} {
		t.Run(loss.name, func(t *testing.T) {
			r := storetest.NewRedis(t, local.RedisOptions{Persist: loss.persist})
			w := newWorld(t, 3, withRedis(r.URL()))
			a := w.open(400)
			load := startLoad(w, a)
			load.until(100)
			if err := loss.lose(t.Context(), w, r); err != nil {
				t.Fatal(err)
			}
			w.broken = true
			load.until(load.sold.Load() + 100)
			load.stop()
			load.sellOut(a)
		})
	}
}

// load is buyers who hold one unit and confirm it, as long as it runs.
type load struct {
	w      *world
	sold   atomic.Int64
	ended  chan struct{}
	cancel context.CancelFunc
}

func startLoad(w *world, id string) *load {
	ctx, cancel := context.WithCancel(w.ctx())
	l := &load{w: w, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		together(8, func(k int) {
			for i := 0; ctx.Err() == nil; i++ {
				l.buy(ctx, k, id, fmt.Sprintf("buyer-%d-%d", k, i))
			}
		})
	}()
	w.t.Cleanup(cancel)
	return l
}

// buy repeats each call until it is decided, as callers are told to.
func (l *load) buy(ctx context.Context, k int, id, buyer string) {
	var h store.Hold
	for {
		var err error
		if h, err = l.w.tryHold(k, id, buyer, "r", 1); err == nil {
			break
		}
		if !trouble(err) {
			if !isSoldOut(err) {
				l.w.t.Errorf("hold: %v", err)
			}
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
	for ctx.Err() == nil {
		_, err := l.w.at(k+1).ConfirmHold(ctx, store.ConfirmHold{ID: h.ID, OrderID: buyer})
		if err == nil {
			l.sold.Add(1)
			return
		}
		if !trouble(err) {
			if store.Refused(err, store.HoldLapsed) == nil { // lost with Redis: the one clear answer
				l.w.t.Errorf("confirm: %v", err)
			}
			return
		}
	}
}

func trouble(err error) bool {
	return isTrouble(err) || errors.Is(err, context.Canceled)
}

func (l *load) until(sold int64) {
	l.w.t.Helper()
	storetest.Eventually(l.w.t, 2*patience, func() error {
		if n := l.sold.Load(); n < min(sold, 390) {
			return fmt.Errorf("%d sold", n)
		}
		return nil
	})
}

func (l *load) stop() {
	l.cancel()
	<-l.ended
}

// sellOut sells the rest to the last unit, and checks that every sale that was acknowledged is there.
func (l *load) sellOut(id string) {
	w := l.w
	w.t.Helper()
	for i := 0; ; i++ {
		late := fmt.Sprintf("late-%d", i)
		var h store.Hold
		err := insist(func() (err error) { // connections of old may still be found dead
			h, err = w.tryHold(i, id, late, "r", 1)
			return err
		})
		if isSoldOut(err) {
			break
		}
		if err != nil {
			w.t.Fatal(err)
		}
		w.confirm(h, late)
		l.sold.Add(1)
	}
	w.advance(121 * time.Second) // holds that nobody confirmed lapse, confirms cut off are driven on
	storetest.Eventually(w.t, patience, func() error {
		capacity, sold := w.row(id)
		if available := w.availability(id).Available; sold+available != capacity || sold < l.sold.Load() {
			return fmt.Errorf("sold %d of %d, %d acknowledged, %d available", sold, capacity, l.sold.Load(), available)
		}
		return nil
	})
}

// TestRestartKeepsPromises: after a restart with its data, live holds keep the time that they had, can be
// confirmed, and their tokens are the old ones; the epoch is a new one.
func TestRestartKeepsPromises(t *testing.T) {
	r := storetest.NewRedis(t, local.RedisOptions{Persist: true})
	w := newWorld(t, 2, withRedis(r.URL()))
	a := w.open(3)
	h := w.hold(a, "ann", "r", 2)
	r.Kill()
	if err := r.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.broken = true
	var again store.Hold
	storetest.Eventually(t, patience, func() (err error) {
		again, err = w.at(1).Hold(w.ctx(), h.ID)
		return err
	})
	if again.State != store.Held || again.Token != h.Token || again.Remaining < h.Remaining-30*time.Second {
		t.Errorf("after the restart: %+v, before: %+v", again, h)
	}
	next := w.hold(a, "bob", "r", 1)
	if next.Token.Epoch <= h.Token.Epoch {
		t.Errorf("the new hold's epoch is %d, the old one's %d", next.Token.Epoch, h.Token.Epoch)
	}
	if s := w.confirm(h, "order-1"); s.Token != h.Token || s.Quantity != 2 {
		t.Errorf("sale %+v", s)
	}
	w.wantStock(a, 0, 1, 2)
}

// TestForgedRedis: with Redis made to show far too much stock, the ledger refuses every unit too many, exactly, loudly,
// and the allotment is put right.
func TestForgedRedis(t *testing.T) {
	w := newWorld(t, 3)
	a := w.open(5)
	storetest.AddToCounter(w.ctx(), t, w.raw, "hf:{"+a+"}:c", "available", 45)
	storetest.AddToCounter(w.ctx(), t, w.raw, "hf:{"+a+"}:c", "capacity", 45)
	var held []store.Hold
	for i := range 20 {
		held = append(held, w.hold(a, fmt.Sprintf("buyer-%d", i), "r", 1))
	}
	var sold, refused atomic.Int64
	together(20, func(i int) {
		_, err := w.at(i).ConfirmHold(w.ctx(), store.ConfirmHold{ID: held[i].ID, OrderID: fmt.Sprintf("order-%d", i)})
		switch {
		case err == nil:
			sold.Add(1)
		case refusalOf(err) == store.HoldCancelled || refusalOf(err) == store.HoldLapsed:
			refused.Add(1)
		default:
			t.Errorf("confirm %d: %v", i, err)
		}
	})
	if sold.Load() != 5 || refused.Load() != 15 {
		t.Errorf("sold %d, refused %d; want 5 and 15", sold.Load(), refused.Load())
	}
	storetest.Eventually(t, patience, func() error {
		if av := w.availability(a); av.Capacity != 5 || av.Sold != 5 || av.Available != 0 {
			return fmt.Errorf("%+v", av)
		}
		return nil
	})
}
