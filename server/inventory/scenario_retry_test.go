package inventory_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// Section E: retries and idempotency.

// The key was read, then inserted; concurrent copies failed with a server error.
func TestS43TwentyEqualRequestsAtOnce(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(10)
		got := w.each(20, func(i int) (store.Hold, error) { return w.tryHold(i, a, "ann", "r1", 2) })
		got.want(t, 20, "", 0)
		for _, h := range got.granted {
			wantSame(t, h, got.granted[0])
		}
		w.wantStock(a, 8, 2, 0)
	})
}

// The key alone decided; method and body were not compared.
func TestS44SameKeyOtherContent(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a1, a2 := w.pair(10, 10)
		h := w.hold(a1, "ann", "r1", 2)
		cancel := store.CancelSale{ID: h.ID, RequestID: "r1"}

		_, err := w.tryHold(1, a1, "ann", "r1", 5)
		wantRefusal(t, err, store.RequestMismatch)
		_, err = w.cart(0, "ann", "r1", line(a1, 2), line(a2, 1))
		wantRefusal(t, err, store.RequestMismatch)
		_, err = w.at(1).CancelSale(w.ctx(), cancel)
		wantRefusal(t, err, store.RequestMismatch)
		w.wantStock(a1, 8, 2, 0)
		w.wantStock(a2, 10, 0, 0)

		w.confirm(h, "order-1")
		_, err = w.at(0).CancelSale(w.ctx(), cancel)
		wantRefusal(t, err, store.RequestMismatch)
		w.wantStock(a1, 8, 0, 2)
	})
}

// The client made a fresh key per attempt, so the server could not see the repeat.
func TestS46ANewKeyOnEveryRetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	a := w.open(10, limit(2))
	lost := w.hold(a, "ann", "r1", 2) // the reply is lost
	_, err := w.tryHold(0, a, "ann", "r2", 2)
	no := wantRefusal(t, err, store.BuyerLimit)
	if no.HoldID != lost.ID.String() || no.Limit != 2 || no.BuyerHeld != 2 || no.BuyerSold != 0 {
		t.Errorf("refusal is %+v, want the live hold %s and 2 held of 2", no, lost.ID)
	}
	w.wantStock(a, 8, 2, 0)
	id, err := store.ParseHoldID(no.HoldID)
	if err != nil {
		t.Fatal(err)
	}
	w.confirm(store.Hold{ID: id}, "order-1") // the client goes on with it
}

// After a broken attempt the same request answered conflict again and again.
func TestS47KeyStuckInProgress(t *testing.T) {
	for name, fail := range map[string]func(*faults, string){"before stock is taken": (*faults).cut, "after": (*faults).lose} {
		t.Run(name, func(t *testing.T) {
			onReplicas(t, func(t *testing.T, w *world) {
				a := w.open(10)
				f := &faults{}
				broken := w.with(false, f.into)
				fail(f, "create")
				_, err := broken.CreateHold(w.ctx(), "ann", "r1", line(a, 1))
				wantTrouble(t, err)
				f.kill()
				broken.stop()
				var first store.Hold
				for i, wait := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} { // +1 s, +3 s, +6 s
					w.advance(wait)
					h := w.hold(a, "ann", "r1", 1)
					if i == 0 {
						first = h
					}
					wantSame(t, h, first)
				}
				w.wantStock(a, 9, 1, 0)
			})
		})
	}
}

// A failed id stays failed for ever so that outcomes never flip: not with us.
func TestS48RefusedOnceThenStockReturns(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(1)
		h := w.hold(a, "ann", "r1", 1)
		_, err := w.tryHold(0, a, "bob", "k1", 1)
		wantRefusal(t, err, store.AllHeld)
		w.cancel(h)
		granted := w.hold(a, "bob", "k1", 1)
		wantSame(t, w.hold(a, "bob", "k1", 1), granted)
		w.wantStock(a, 0, 1, 0)
		w.confirm(granted, "order-b")
		if again := w.hold(a, "bob", "k1", 1); again.ID != granted.ID || again.State != store.Sold {
			t.Errorf("k1 returns %+v, want its sold hold", again)
		}
	})
}

// The slower of two confirmations failed and its clean-up damaged the finished order.
func TestS50WebhookAndBrowserConfirmTogether(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(2)
		h := w.hold(a, "ann", "r1", 1)
		var sales [2]store.Sale
		var errs [2]error
		together(2, func(i int) { sales[i], errs[i] = w.tryConfirm(i, h, "order-1") })
		if errs[0] != nil || errs[1] != nil || sales[0] != sales[1] {
			t.Errorf("got %+v (%v) and %+v (%v), want the same sale twice", sales[0], errs[0], sales[1], errs[1])
		}
		_, err := w.at(1).CancelHold(w.ctx(), h.ID) // the undo
		wantRefusal(t, err, store.HoldSold)
		_, err = w.tryConfirm(1, h, "order-2")
		wantRefusal(t, err, store.OrderMismatch)
		w.wantState(h, store.Sold)
		w.wantSales(a, 1)
		w.wantStock(a, 1, 0, 1)
	})
}

// UNAVAILABLE was taken to mean "not executed"; it can come after the work was done.
func TestS51ConnectionLostAfterCommit(t *testing.T) {
	reserve := func(r *replica, ctx context.Context, a string) (store.Hold, error) {
		return r.CreateHold(ctx, "ann", "r1", line(a, 1))
	}
	confirm := func(r *replica, ctx context.Context, h store.Hold) (store.Sale, error) {
		return r.ConfirmHold(ctx, store.ConfirmHold{ID: h.ID, OrderID: "order-1"})
	}
	t.Run("connection lost", func(t *testing.T) {
		onReplicas(t, func(t *testing.T, w *world) {
			a := w.open(10)
			f := &faults{}
			r := w.with(false, f.into)
			f.lose("create")
			_, err := reserve(r, w.ctx(), a)
			wantTrouble(t, err)
			h, err := reserve(w.next(), w.ctx(), a)
			if err != nil {
				t.Fatalf("the retry: %v", err)
			}
			for i, lost := range []string{"begin", "settle", "finish"} {
				f.lose(lost)
				_, err = confirm(r, w.ctx(), h)
				if lost == "finish" || i > 1 { // once it is sold, no step is left to lose
					if err != nil {
						t.Errorf("confirm with %s lost: %v", lost, err)
					}
					continue
				}
				wantTrouble(t, err)
			}
			first, err := confirm(w.next(), w.ctx(), h)
			again, err2 := confirm(r, w.ctx(), h)
			if err != nil || err2 != nil || first != again || first.Quantity != 1 {
				t.Errorf("the retries: %+v (%v) and %+v (%v), want one sale", first, err, again, err2)
			}
			w.wantSales(a, 1)
			w.wantStock(a, 9, 0, 1)
		})
	})
	t.Run("deadline exceeded", func(t *testing.T) {
		onReplicas(t, func(t *testing.T, w *world) {
			a := w.open(10)
			f := &faults{}
			r := w.with(false, f.into)
			slow := func(step string) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(w.ctx()) // cancelled when the store has done it
				f.set(func(_ context.Context, s string, done bool) error {
					if s != step || !done {
						return nil
					}
					cancel()
					return fmt.Errorf("%w: %w", store.ErrUnavailable, context.DeadlineExceeded)
				})
				return ctx, cancel
			}
			ctx, cancel := slow("create")
			defer cancel()
			if _, err := reserve(r, ctx, a); err == nil || refusalOf(err) != "" {
				t.Errorf("reserve past its deadline: %v", err)
			}
			f.set(nil)
			h, err := reserve(w.next(), w.ctx(), a)
			if err != nil {
				t.Fatalf("the retry: %v", err)
			}
			ctx, cancel = slow("settle")
			defer cancel()
			_, err = confirm(r, ctx, h)
			wantTrouble(t, err)
			f.set(nil)
			w.confirm(h, "order-1")
			w.wantSales(a, 1)
			w.wantStock(a, 9, 0, 1)
		})
	})
}
