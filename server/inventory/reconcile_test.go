package inventory_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store"
)

// TestBuyersFindings: reconcile names the buyers whose totals are off, and makes them anew.
func TestBuyersFindings(t *testing.T) {
	w := newWorld(t, 0)
	w.start(false)
	a := w.open(10)
	w.hold(a, "ann", "r", 2)
	w.confirm(w.hold(a, "bob", "r", 3), "order-1")
	w.cancel(w.hold(a, "cid", "first", 1)) // its record is beside the entry
	w.hold(a, "cid", "r", 1)
	spoil := redis.NewScript(`
		local e, r = cmsgpack.unpack(redis.call('HGET', KEYS[1], ARGV[1]))
		local spoilt = cmsgpack.pack({0, 0, 0, e[4]}, r)
		redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] == 'cid' and 'garbage' or spoilt)`)
	for _, buyer := range []string{"ann", "bob", "cid"} {
		key := store.NewBuyerKey(a, buyer)
		if err := spoil.Run(w.ctx(), w.raw, []string{"hf:{" + a + "}:h:" + strconv.Itoa(key.Bucket(store.BucketsFor(10)))}, key[:], buyer).Err(); !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	got := map[string][]int64{}
	for _, f := range w.reconcile(a, true) {
		if f.Kind != store.FindingBuyer || f.Allotment != a || f.Action == "" {
			t.Errorf("found %+v", f)
		}
		got[f.BuyerID] = append(got[f.BuyerID], f.Difference)
	}
	if diff := cmp.Diff(map[string][]int64{"ann": {-2}, "bob": {-3}, "cid": {0}}, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if found := w.reconcile(a, false); len(found) > 0 {
		t.Errorf("after it was applied: %+v", found)
	}
}
