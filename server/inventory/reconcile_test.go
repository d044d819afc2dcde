package inventory_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
)

// TestBuyersFindings: reconcile names the buyers whose totals are off, and makes them anew.
func TestBuyersFindings(t *testing.T) {
	w := newWorld(t, 0)
	w.start(false)
	a := w.open(10)
	w.hold(a, "ann", "r", 2)
	w.confirm(w.hold(a, "bob", "r", 3), "order-1")
	w.hold(a, "cid", "r", 1)
	for _, key := range w.raw.Keys(w.ctx(), "hf:{"+a+"}:b:*").Val() {
		for field := range w.raw.HGetAll(w.ctx(), key).Val() {
			if field == "cid" {
				w.raw.HSet(w.ctx(), key, field, "garbage")
			} else {
				w.raw.HDel(w.ctx(), key, field)
			}
		}
	}
	got := map[string][]int64{}
	for _, f := range w.reconcile(a, true) {
		if f.Kind != store.FindingBuyer || f.Allotment != a || f.Action == "" {
			t.Errorf("found %+v", f)
		}
		got[f.BuyerID] = append(got[f.BuyerID], f.Difference)
	}
	// Of an entry that cannot be read, it also misses what the entry should say.
	if diff := cmp.Diff(map[string][]int64{"ann": {-2}, "bob": {-3}, "cid": {0, -1}}, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if found := w.reconcile(a, false); len(found) > 0 {
		t.Errorf("after it was applied: %+v", found)
	}
}
