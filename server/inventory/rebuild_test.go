package inventory_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// slowLedger takes longer for buyers' totals than a claim lasts.
type slowLedger struct{ inventory.Ledger }

func (s slowLedger) BuyerTotals(ctx context.Context, allotment string, feed int64, f func(string, int64) error) error {
	timer := time.NewTimer(400 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C: // not a wait: the time itself is the fault
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Ledger.BuyerTotals(ctx, allotment, feed, f)
}

// TestSlowAdoptKeepsItsClaim: replicas do not take a claim from each other while its owner works, however long that
// takes. They once did, each starting anew, for as long as there were two of them.
func TestSlowAdoptKeepsItsClaim(t *testing.T) {
	w := newWorld(t, 3, withOptions(func(o *inventory.Options) {
		o.AdoptLease = 100 * time.Millisecond
		o.Ledger, o.Background = slowLedger{o.Ledger}, slowLedger{o.Background}
	}))
	a := w.open(5)
	together(6, func(i int) {
		if _, err := w.at(i).Availability(w.ctx(), a); err != nil {
			t.Errorf("availability: %v", err)
		}
	})
	var epoch int64
	w.query("select epoch from allotments where id = $1", []any{a}, &epoch)
	if epoch > 3 {
		t.Errorf("epoch %d after one loss: claims were taken over", epoch)
	}
}

// careless panics in the next renewals of a claim.
type careless struct {
	inventory.Redis
	panics *atomic.Int64
}

func (c careless) AdoptRenew(ctx context.Context, p store.Place, claim string, lease time.Duration) error {
	if c.panics.Add(-1) >= 0 {
		panic("a bug in the renewal")
	}
	return c.Redis.AdoptRenew(ctx, p, claim, lease)
}

// TestPanicInRenewal: a bug there costs the claim at most, not the process.
func TestPanicInRenewal(t *testing.T) {
	var panics atomic.Int64
	panics.Store(1)
	w := newWorld(t, 1, withOptions(func(o *inventory.Options) {
		o.AdoptLease = 100 * time.Millisecond
		o.Redis, o.Background = careless{o.Redis, &panics}, slowLedger{o.Background}
	}))
	w.wantStock(w.open(5), 5, 0, 0)
	if panics.Load() > 0 {
		t.Error("the fault did not hit")
	}
}

// endless fails the last step of the next adopts.
type endless struct {
	inventory.Redis
	fails *atomic.Int64
}

func (e endless) AdoptEnd(ctx context.Context, a store.Allotment, claim string, c store.Counters, sequence int64) error {
	if e.fails.Add(-1) >= 0 {
		return store.ErrUnavailable
	}
	return e.Redis.AdoptEnd(ctx, a, claim, c, sequence)
}

// TestRepeatedAdoptAddsNoTime: a hold gets back the time that an outage took from it, once, however many adopts are
// begun before one is ended.
func TestRepeatedAdoptAddsNoTime(t *testing.T) {
	var fails atomic.Int64
	w := newWorld(t, 1, withOptions(func(o *inventory.Options) {
		quiet(o)
		o.Redis = endless{o.Redis, &fails}
		o.AdoptLease = 20 * time.Millisecond
	}))
	a := w.open(5)
	h := w.hold(a, "ann", "r", 1)
	w.advance(10 * time.Minute) // an outage
	fails.Store(3)
	if err := storetest.MakeForeign(w.ctx(), w.raw, "hf:{"+a+"}:c"); err != nil {
		t.Fatal(err)
	}
	id := h.ID
	storetest.Eventually(t, patience, func() (err error) {
		h, err = w.at(0).Hold(w.ctx(), id)
		return err
	})
	if fails.Load() > 0 {
		t.Error("the fault did not hit")
	}
	if h.State != store.Held || h.Remaining > store.DefaultHoldDuration || h.Remaining < store.DefaultHoldDuration-30*time.Second {
		t.Errorf("after the adopts it is in state %d with %s left", h.State, h.Remaining)
	}
}

// dated notes when the last adopt began, by the clock of the scripts.
type dated struct {
	inventory.Redis
	began *atomic.Pointer[time.Time]
}

func (d dated) AdoptBegin(ctx context.Context, p store.Place, claim string, lease time.Duration, renew bool) (*store.Past, time.Duration, error) {
	past, left, err := d.Redis.AdoptBegin(ctx, p, claim, lease, renew)
	if past != nil {
		d.began.Store(&past.Now)
	}
	return past, left, err
}

// TestAdoptGivesNoMoreThanThereWas: a hold gets back the time that an outage took from it, but never has more left than
// it could have before, however long ago the allotment was looked at last. It keeps what an earlier rule gave it.
// What it has left is told by the moment of the adopt, to the millisecond: when a busy machine reads it afterwards says nothing.
func TestAdoptGivesNoMoreThanThereWas(t *testing.T) {
	for _, c := range []struct {
		name   string
		after  func(w *world, h store.Hold) // what happens to a hold that is made 50 s after the last look
		outage time.Duration
		most   time.Duration // left, and
		lost   time.Duration // at most less than that
	}{
		{"new", func(w *world, _ store.Hold) { w.advance(time.Second) }, 0, 10 * time.Second, time.Second},
		{"outage", func(w *world, _ store.Hold) { w.advance(9 * time.Second) }, time.Hour, 10 * time.Second, 9 * time.Second},
		{"extended", func(w *world, h store.Hold) {
			for range 3 {
				w.advance(9 * time.Second)
				if _, err := w.at(0).ExtendHold(w.ctx(), h.ID); err != nil {
					w.t.Fatal(err)
				}
			}
			w.advance(time.Second)
		}, time.Minute, 10 * time.Second, time.Second},
		{"rules changed", func(w *world, h store.Hold) {
			w.setRules(h.ID.Allotment, func(r *store.Rules) { r.HoldDuration = time.Second })
			w.advance(2 * time.Second)
		}, time.Hour, 10 * time.Second, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var adopt atomic.Pointer[time.Time]
			w := newWorld(t, 0, withOptions(func(o *inventory.Options) { o.Redis = dated{o.Redis, &adopt} }))
			w.start(false)
			w.stopClock()
			a := w.open(3, func(a *store.Allotment) { a.HoldDuration, a.MaxHoldDuration = 10*time.Second, time.Minute })
			w.advance(50 * time.Second)
			h := w.hold(a, "ann", "r", 1)
			c.after(w, h)
			w.advance(c.outage)
			if err := storetest.MakeForeign(w.ctx(), w.raw, "hf:{"+a+"}:c"); err != nil {
				t.Fatal(err)
			}
			before := adopt.Load() // the allotment's first
			got, err := w.at(0).Hold(w.ctx(), h.ID)
			if adopt.Load() == before {
				t.Fatal("nothing was adopted")
			}
			left := got.ExpireTime.Sub(*adopt.Load())
			if err != nil || got.State != store.Held || left > c.most || left < c.most-c.lost {
				t.Errorf("in state %d with %s left, %v; want at most %s, of which %s may be lost", got.State, left, err, c.most, c.lost)
			}
		})
	}
}

// TestOldHoldWithNewerRefusal: a hold that came back with an older Redis, whose id the ledger has refused under a newer
// token meanwhile, is ended by the adopt. It once stayed CONFIRMING for ever when it was confirmed.
func TestOldHoldWithNewerRefusal(t *testing.T) {
	r := storetest.NewRedis(t, local.RedisOptions{})
	w := newWorld(t, 1, withRedis(r.URL()))
	a := w.open(5)
	h := w.hold(a, "ann", "1", 1)
	old := w.copied(a)
	w.raw.FlushAll(w.ctx())
	w.confirm(w.hold(a, "ann", "0", 1), "A")
	again := w.hold(a, "ann", "1", 1)
	_, err := w.at(0).ConfirmHold(w.ctx(), store.ConfirmHold{ID: again.ID, OrderID: "A"})
	wantRefusal(t, err, store.OrderExists)
	w.goBack(a, old)
	if got, err := w.at(0).Hold(w.ctx(), h.ID); err != nil || got.State != store.Cancelled {
		t.Errorf("the old hold is %+v, %v", got, err)
	}
	_, err = w.at(0).ConfirmHold(w.ctx(), store.ConfirmHold{ID: h.ID, OrderID: "B"})
	wantRefusal(t, err, store.HoldCancelled)
	w.wantStock(a, 4, 0, 1)
}

// TestOrderExistsIsForItsOrder: an order that never bought is not told that it did.
func TestOrderExistsIsForItsOrder(t *testing.T) {
	w := newWorld(t, 1)
	a := w.open(5)
	first, second := w.hold(a, "ann", "1", 1), w.hold(a, "ann", "2", 1)
	w.confirm(first, "A")
	for range 2 {
		_, err := w.at(0).ConfirmHold(w.ctx(), store.ConfirmHold{ID: second.ID, OrderID: "A"})
		if no := wantRefusal(t, err, store.OrderExists); no.HoldID != first.ID.String() {
			t.Errorf("ORDER_EXISTS names %s, want %s", no.HoldID, first.ID)
		}
	}
	_, err := w.at(0).ConfirmHold(w.ctx(), store.ConfirmHold{ID: second.ID, OrderID: "B"})
	wantRefusal(t, err, store.HoldCancelled)
}

// TestListHoldsOfAHugeAllotment: a page comes within its time, full or not, and the pages lead to the end.
func TestListHoldsOfAHugeAllotment(t *testing.T) {
	w := newWorld(t, 1)
	a := w.open(200_000)
	h := w.hold(a, "ann", "1", 1)
	found := 0
	for page, pages := "", 0; ; pages++ {
		holds, next, err := w.at(0).ListHolds(w.ctx(), store.HoldFilter{Allotment: a}, page, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range holds {
			if got.ID == h.ID {
				found++
			}
		}
		if page = next; page == "" {
			break
		}
		if pages > 1000 {
			t.Fatal("the pages do not end")
		}
	}
	if found != 1 {
		t.Errorf("found %d times", found)
	}
}
