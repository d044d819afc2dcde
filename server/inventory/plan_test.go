package inventory

import (
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
)

// TestDecidedCartIsForgotten: like finish, an adopt does not keep which holds the cart of an ended one had.
func TestDecidedCartIsForgotten(t *testing.T) {
	t.Parallel()
	id := store.NewHoldID("concert", "buyer", "request")
	r := store.Record{Hold: store.Hold{ID: id, State: store.Confirming, Pinned: &store.Pinned{Quantity: 1, Cart: []store.HoldID{id, id}}}}
	o := store.Outcome{ID: id, Verdict: store.Verdict{Kind: store.VerdictSold, Sale: store.Sale{ID: id, Quantity: 1}}}
	if h := decidedHold(r, o); h.State != store.Sold || h.Pinned == nil || h.Pinned.Cart != nil {
		t.Errorf("hold %+v", h)
	}
}
