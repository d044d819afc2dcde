package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/holds"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// onMaster is a new name whose slot a master has.
func onMaster(t *testing.T, c *local.RedisCluster, master int) string {
	t.Helper()
	for {
		name := storetest.UniqueID(t)
		owner, err := c.Owner(t.Context(), slotOf(t, c, name))
		must(t, err)
		if owner == c.Masters[master] {
			return name
		}
	}
}

// TestGroupedWithoutTheMasterOfItsHint: an allotment whose hint, which tells its group, is on a master that is down is created,
// and adopted, nevertheless. When that master is back, though it has lost everything, the hints are there again.
func TestGroupedWithoutTheMasterOfItsHint(t *testing.T) {
	t.Parallel()
	c := storetest.NewRedisCluster(t, local.ClusterOptions{})
	w := newWorld(t, 2, onSet(c.URL(), c.Masters[0], holds.Durability{}))
	group, first, second := onMaster(t, c, 0), onMaster(t, c, 1), onMaster(t, c, 1)
	w.openAs(first, group, 10)
	c.Masters[1].Kill()
	must(t, w.raw.FlushAll(w.ctx()).Err())
	insistOn(t, func() (store.Hold, error) { return w.tryHold(0, first, "ann", "r1", 1) })
	w.opened(second)
	insistOn(t, func() (store.Allotment, error) {
		return w.at(0).CreateAllotment(w.ctx(), allotment(second, group, 10))
	})
	insistOn(t, func() (store.Hold, error) { return w.tryHold(1, second, "ann", "r1", 1) })
	must(t, c.Masters[1].Restart(context.WithoutCancel(t.Context())))
	options, err := redis.ParseURL(c.Masters[1].URL())
	must(t, err)
	back := redis.NewClient(options)
	defer back.Close()
	w.until(func() error {
		var missing error
		for _, id := range []string{first, second} {
			if err := back.Get(w.ctx(), "hf:{"+id+"}:h").Err(); err != nil {
				missing = errors.Join(missing, fmt.Errorf("the hint of %s: %w", id, err))
			}
		}
		return missing
	})
}
