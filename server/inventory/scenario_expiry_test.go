package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
)

// Section C: expiry and time. The rest of it is in scenario_time_test.go.

// Rows had an expiry time but nothing acted on it.
func TestS18NobodyComesNothingIsFreed(t *testing.T) {
	scenario := func(t *testing.T, w *world) {
		a := w.open(1)
		w.hold(a, "ann", "r1", 1)
		w.advance(121 * time.Second)
		w.hold(a, "bob", "r1", 1)
		w.wantStock(a, 0, 1, 0)

		b := w.open(1)
		w.hold(b, "ann", "r1", 1)
		w.advance(121 * time.Second)
		w.wantStock(b, 1, 0, 0)
	}
	t.Run("without events", func(t *testing.T) {
		onReplicas(t, scenario, withOptions(func(o *inventory.Options) { o.WithoutEvents = true }))
	})
	t.Run("without events and sweep", func(t *testing.T) {
		onReplicas(t, scenario, withOptions(quiet))
	})
}

// Redis announces an expired key tens of seconds late when there are many others.
func TestS19ExpiryNoticeComesLate(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		others := w.open(10_000, func(a *store.Allotment) {
			a.HoldDuration, a.MaxHoldDuration = time.Hour, time.Hour
		})
		w.buyers(others, 10_000)
		a := w.open(1)
		w.hold(a, "ann", "r1", 1)
		w.advance(120*time.Second + 200*time.Millisecond)
		w.hold(a, "bob", "r1", 1)
		w.wantStock(others, 0, 10_000, 0)
	})
}

// A subscriber got nothing after reconnecting; the channel keeps no history.
func TestS20NoticesLostWhileDisconnected(t *testing.T) {
	eachNumber(t, func(t *testing.T, n int) {
		events := &announcer{} // says nothing from the start on: the listeners are cut
		w := newWorld(t, n, withOptions(func(o *inventory.Options) {
			o.WithoutSweep = true
			events.into(o)
		}))
		a := w.open(5)
		lapsed := w.buyers(a, 5)
		w.advance(121 * time.Second)
		w.each(5, func(i int) (store.Hold, error) {
			return w.tryHold(i, a, fmt.Sprint("new-buyer-", i), "r1", 1)
		}).want(t, 5, "", 0)

		w.advance(19 * time.Second)
		events.reconnect()
		if listeners := events.announce(lapsed); listeners != n { // late, after all
			t.Fatalf("%d replicas listen, want %d", listeners, n)
		}
		w.until(func() error {
			if events.releases() < n {
				return fmt.Errorf("%d of %d replicas have acted on the notices", events.releases(), n)
			}
			return nil
		})
		w.wantStock(a, 0, 5, 0)
		w.wantAvailableCounter(a, 0)
	})
}

// An expired key that was not yet deleted could be given a new lifetime.
func TestS22ExtendingADeadHoldRevivesIt(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(1)
		dead := w.hold(a, "ann", "r1", 1)
		w.advance(121 * time.Second)
		_, err := w.at(0).ExtendHold(w.ctx(), dead.ID) // nobody has noticed the lapse
		wantRefusal(t, err, store.HoldLapsed)
		live := w.hold(a, "bob", "r1", 1)
		w.advance(time.Second)
		_, err = w.at(1).ExtendHold(w.ctx(), dead.ID)
		wantRefusal(t, err, store.HoldLapsed)
		w.wantState(dead, store.Lapsed)
		w.wantState(live, store.Held)
		w.wantStock(a, 0, 1, 0)
	}, withOptions(quiet))
}

// Pressing "+" restarted the countdown even when no ticket could be added.
func TestS23HoldForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.stopClock()
	a := w.open(1)
	h := w.hold(a, "ann", "r1", 1)
	at := func(seconds int) { w.advanceTo(h.CreateTime.Add(time.Duration(seconds) * time.Second)) }
	at(50)
	_, err := w.tryHold(0, a, "ann", "r2", 1)
	wantRefusal(t, err, store.AllHeld)
	wantSame(t, w.get(h), h)
	for _, step := range []struct{ at, end int }{{100, 220}, {200, 320}} {
		at(step.at)
		extended, err := w.at(0).ExtendHold(w.ctx(), h.ID)
		if err != nil {
			t.Fatalf("extend at %d s: %v", step.at, err)
		}
		if end := extended.ExpireTime.Sub(h.CreateTime).Round(time.Second / 10); end != time.Duration(step.end)*time.Second {
			t.Errorf("extended at %d s: it ends at T0+%v, want %d s", step.at, end, step.end)
		}
	}
	at(300)
	last, err := w.at(0).ExtendHold(w.ctx(), h.ID)
	if err != nil || !last.ExpireTime.Equal(h.CreateTime.Add(360*time.Second)) {
		t.Errorf("extended at 300 s: %+v, %v; want an end at T0+360 s exactly", last, err)
	}
	at(350)
	_, err = w.at(0).ExtendHold(w.ctx(), h.ID)
	wantRefusal(t, err, store.ExtensionLimit)
	at(359)
	w.wantStock(a, 0, 1, 0)
	at(361)
	w.wantStock(a, 1, 0, 0)
	_, err = w.at(0).ExtendHold(w.ctx(), h.ID)
	wantRefusal(t, err, store.HoldLapsed)
}

// The order was cancelled by the timer while the money was taken.
func TestS24PaymentSlowerThanTheHold(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(1)
		slow := w.hold(a, "ann", "r1", 1)
		w.advance(121 * time.Second)
		quick := w.hold(a, "bob", "r1", 1)
		w.advance(4 * time.Second)
		_, err := w.tryConfirm(0, slow, "order-a")
		if no := wantRefusal(t, err, store.HoldLapsed); no.HoldID != slow.ID.String() {
			t.Errorf("refusal names hold %q, want %s", no.HoldID, slow.ID)
		}
		w.confirm(quick, "order-b")
		w.wantStock(a, 0, 0, 1)
		w.wantSales(a, 1)
	})
}

// Late payments were dropped although inventory was free.
func TestS25LatePaymentStockStillThere(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		free := w.open(5)
		h := w.hold(free, "ann", "r1", 2)
		released := w.open(5)
		h2 := w.hold(released, "ann", "r1", 2)
		strict := w.open(5, lateReject())
		h3 := w.hold(strict, "ann", "r1", 2)
		short := w.open(2)
		h4 := w.hold(short, "ann", "r1", 2)
		w.advance(125 * time.Second)

		if s := w.confirm(h, "order-1"); s.Quantity != 2 {
			t.Errorf("sold %d, want 2", s.Quantity)
		}
		w.wantStock(free, 3, 0, 2)

		w.wantStock(released, 5, 0, 0) // reading it releases the hold
		if s := w.confirm(h2, "order-1"); s.Quantity != 2 {
			t.Errorf("sold %d, want 2", s.Quantity)
		}
		w.wantStock(released, 3, 0, 2)

		_, err := w.tryConfirm(0, h3, "order-1")
		wantRefusal(t, err, store.HoldLapsed)
		w.wantStock(strict, 5, 0, 0)

		w.hold(short, "bob", "r1", 1) // one of two is gone: never 1 of 2
		_, err = w.tryConfirm(0, h4, "order-1")
		wantRefusal(t, err, store.HoldLapsed)
		w.wantStock(short, 1, 1, 0)
	}, withOptions(quiet))
}
