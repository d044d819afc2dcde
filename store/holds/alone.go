package holds

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// reconnectApart is the least time between two times that the connections to a single server are made anew.
const reconnectApart = time.Second

// confirmAlone asks a server that nobody else names whether it is master. One that has become a replica keeps the connections
// that it has, while its address, if that is a name or leads to a proxy, may lead to its successor: so they are made anew.
// Nothing else would end them: scripts write nothing there, so that they never meet READONLY.
func (f *fleet) confirmAlone(ctx context.Context) error {
	n := f.view.Load().masters[0]
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	info, err := n.client.Info(ctx, "replication").Result()
	if err != nil {
		return fmt.Errorf("%w: role of %s: %w", store.ErrUnavailable, n.addr, err)
	}
	if strings.Contains(info, "role:master") {
		return nil
	}
	f.reconnect(n)
	return fmt.Errorf("%w: %s is a replica", store.ErrUnavailable, n.addr)
}

// reconnect leads to the server that the address of n leads to now.
func (f *fleet) reconnect(n *node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.nodes[n.addr] != n || time.Since(f.reconnected) < reconnectApart {
		return
	}
	delete(f.nodes, n.addr)
	next, err := f.nodeLocked(n.addr)
	if err != nil { // as its URL is no other, and was good, it is
		f.nodes[n.addr] = n
		return
	}
	f.reconnected = time.Now()
	f.view.Store(&view{masters: []*node{next}})
	f.drop(n)
	f.log.Warn("this Redis is a replica; connections are made anew, in case that its address leads to the master now", slog.String("address", n.addr))
	f.announce()
}
