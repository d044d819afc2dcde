package inventory_test

import (
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// F30: a confirm waits for a lock when the network between it and Postgres becomes a black hole. It gives up; the server
// does not know, and writes the sale when the lock is free: before anybody asks again, or when others are in the same queue.
func TestF30ClientPartitioned(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"row before the repeat": false, "row after the repeat": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, url := ownPostgres(t, local.PostgresOptions{})
			link := storetest.NewLink(t, server.Addr())
			w := newWorld(t, 2, withPostgres(url), through(at(t, url, link.Addr())), patient)
			a := w.open(3)
			h := w.hold(a, "ann", "r1", 2)
			release := w.lockRow(a)
			answer := w.confirming(h, "order-1")
			link.Swallow()
			wantResultUnknown(t, w.told(answer))
			w.knowsDown(true)
			w.decidesHolds(a)
			w.wantSales(a, 0)
			if late {
				link.Heal()
				w.knowsDown(false)
				repeat := w.confirming(h, "order-1")
				release()
				if err := w.told(repeat); err != nil {
					t.Errorf("the repeat: %v", err)
				}
			} else {
				release()
				w.until(func() error { return w.saleRow(h) }) // by a client that has given up
				w.wantState(h, store.Confirming)
				link.Heal()
			}
			sale := w.finishedAlone(h)
			if again := w.confirm(h, "order-1"); again != sale || sale.Quantity != 2 {
				t.Errorf("the repeat gets %+v, want %+v", again, sale)
			}
			w.wantSales(a, 1)
			w.wantStock(a, 1, 0, 2)
		})
	}
}
