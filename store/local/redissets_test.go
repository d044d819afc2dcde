package local_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestSentinelPromotesAReplica(t *testing.T) {
	t.Parallel()
	// Longer than a restart takes on a busy machine, which is to be no failover.
	s := storetest.NewSentinel(t, local.SentinelOptions{Replicas: 2, DownAfter: 3 * time.Second})
	old, err := s.Master(t.Context())
	must(t, err)
	if old != s.Servers[0] {
		t.Fatal("the first server is not the master")
	}
	must(t, client(t, old).Set(t.Context(), "kept", "yes", 0).Err())
	if n := client(t, old).Wait(t.Context(), 2, 5*time.Second).Val(); n != 2 {
		t.Fatalf("%d replicas have it, want 2", n)
	}
	old.Kill()
	master := old
	storetest.Eventually(t, time.Minute, func() error {
		if master, err = s.Master(t.Context()); err == nil && master == old {
			err = fmt.Errorf("the master is still %s", old.Addr())
		}
		return err
	})
	if got := client(t, master).Get(t.Context(), "kept").Val(); got != "yes" {
		t.Errorf("the new master has %q, want yes", got)
	}
	must(t, old.Restart(t.Context()))
	isReplica(t, old)
	must(t, master.Restart(t.Context())) // its file says by now that it is no replica
	now, err := s.Master(t.Context())
	must(t, err)
	if now != master {
		t.Errorf("the master is %s, want the promoted %s after its restart", now.Addr(), master.Addr())
	}
}

func isReplica(t *testing.T, r *local.Redis) {
	t.Helper()
	storetest.Eventually(t, time.Minute, func() error {
		role, err := client(t, r).Do(t.Context(), "role").Slice()
		if err == nil && role[0] != "slave" {
			err = fmt.Errorf("%s is a %v", r.Addr(), role[0])
		}
		return err
	})
}

func TestRedisClusterMovesASlot(t *testing.T) {
	t.Parallel()
	c := storetest.NewRedisCluster(t, local.ClusterOptions{})
	const key, slot = "foo", 12182 // as the cluster specification says
	from, err := c.Owner(t.Context(), slot)
	must(t, err)
	must(t, client(t, from).Set(t.Context(), key, "bar", 0).Err())
	to := c.Masters[0]
	if from == to {
		t.Fatal("the slot is on the first master")
	}
	must(t, c.MoveSlot(t.Context(), slot, to))
	if got := client(t, to).Get(t.Context(), key).Val(); got != "bar" {
		t.Errorf("on its new node the key is %q, want bar", got)
	}
	if err := client(t, from).Get(t.Context(), key).Err(); !redis.HasErrorPrefix(err, "MOVED") {
		t.Errorf("the old node says %v, want MOVED", err)
	}
}

func TestRedisClusterPromotesAReplica(t *testing.T) {
	t.Parallel()
	c := storetest.NewRedisCluster(t, local.ClusterOptions{Replicas: 1})
	lost := c.Masters[1]
	lost.Kill()
	storetest.Eventually(t, time.Minute, func() error {
		owner, err := c.Owner(t.Context(), 8000)
		if err == nil && owner == lost {
			err = fmt.Errorf("the owner is still %s", lost.Addr())
		}
		return err
	})
	must(t, lost.Restart(t.Context()))
	isReplica(t, lost)
	storetest.Eventually(t, time.Minute, func() error { return c.Whole(t.Context()) })
}
