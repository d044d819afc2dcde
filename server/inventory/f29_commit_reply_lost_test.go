package inventory_test

import (
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// F29: a sale is committed and the answer lost, with the connection. Its caller is told that the result is not known, and
// whoever asks later finds the one sale by the hold's id.
func TestF29CommitReplyLost(t *testing.T) {
	t.Parallel()
	server, url := ownPostgres(t, local.PostgresOptions{})
	link := storetest.NewLink(t, server.Addr())
	w := newWorld(t, 2, withPostgres(url), through(at(t, url, link.Addr())))
	a := w.open(3)
	h := w.hold(a, "ann", "r1", 2)
	release := w.lockRow(a)
	answer := w.confirming(h, "order-1") // all of its transaction is sent, the COMMIT too
	link.LoseAnswers()
	release()
	wantResultUnknown(t, w.told(answer))
	w.until(func() error { return w.saleRow(h) }) // it was committed
	w.wantState(h, store.Confirming)

	link.Heal()
	sale := w.finishedAlone(h)
	if again := w.confirm(h, "order-1"); again != sale || sale.Quantity != 2 {
		t.Errorf("the repeat gets %+v, want %+v", again, sale)
	}
	w.wantSales(a, 1)
	w.wantStock(a, 1, 0, 2)
}
