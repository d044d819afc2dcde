package holds

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// name is an address that leads to another server from time to time, and leaves the connections that there are to the former one.
type name struct {
	net.Listener
	to atomic.Pointer[string]
}

func newName(t *testing.T, to string) *name {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	n := &name{Listener: listener}
	n.to.Store(&to)
	t.Cleanup(func() { _ = listener.Close() })
	go n.serve()
	return n
}

func (n *name) serve() {
	for {
		from, err := n.Accept()
		if err != nil {
			return // it is closed
		}
		to, err := net.Dial("tcp", *n.to.Load())
		if err != nil {
			_ = from.Close()
			continue
		}
		for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
			go func() {
				_, _ = io.Copy(way[0], way[1])
				_ = way[0].Close()
			}()
		}
	}
}

// A master that has become a replica keeps its connections; the server that its name leads to now is found all the same.
func TestNameLeadsToAnotherMaster(t *testing.T) {
	t.Parallel()
	first, second := storetest.NewRedis(t, local.RedisOptions{}), storetest.NewRedis(t, local.RedisOptions{})
	address := newName(t, first.Addr())
	f := onFleet(t, "redis://"+address.Addr().String())
	p := f.opened("show", 10)
	_, err := f.createAt(p, "before")
	must(t, err)

	successor := redis.NewClient(&redis.Options{Addr: second.Addr()})
	defer successor.Close()
	old := redis.NewClient(&redis.Options{Addr: first.Addr()})
	defer old.Close()
	_, port, err := net.SplitHostPort(second.Addr())
	must(t, err)
	address.to.Store(new(second.Addr()))
	must(t, old.ReplicaOf(f.ctx(), "127.0.0.1", port).Err())
	storetest.Eventually(t, patience, func() error {
		info, err := old.Info(f.ctx(), "replication").Result()
		if err == nil && !strings.Contains(info, "role:slave") {
			err = fmt.Errorf("not a replica yet: %s", info)
		}
		return err
	})
	if _, err := f.createAt(p, "meanwhile"); !needsAdopt(err) {
		t.Fatalf("a hold on a replica: %v", err)
	}

	f.openAt(p, 10, 2)
	_, err = f.createAt(p, "after")
	must(t, err)
	if n, err := successor.DBSize(f.ctx()).Result(); err != nil || n == 0 {
		t.Errorf("the successor has %d keys, %v", n, err)
	}
}
