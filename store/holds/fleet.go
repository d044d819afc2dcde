package holds

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	lookEvery  = 2 * time.Second       // between two looks at who is master, when nothing calls for one
	lookApart  = 50 * time.Millisecond // and when everything does
	askTimeout = 250 * time.Millisecond
	askGrace   = 25 * time.Millisecond // for the others, once enough have answered
)

// node is one Redis server and the connections to it. When it is no longer master they are closed, and calls on
// them fail; if it comes back, it does so as another node.
type node struct {
	addr    string
	client  *redis.Client
	closed  chan struct{}
	silence silence
	alone   atomic.Bool  // as many replicas as must have a decision did not have the last batch
	hints   atomic.Int64 // under way
	// evicted is how many keys it has evicted since it started, as of the last look at its settings.
	evicted atomic.Int64
	// memory is as of that look; nil: there was none.
	memory atomic.Pointer[memory]
}

// view is which server has what. It is not changed once it is made.
type view struct {
	masters []*node
	slots   []int16            // of a cluster: the number of the master that has the slot, or noOwner
	tags    map[*node][]string // of a cluster: hash tags whose slots, each another one, the master has
	votes   func(int) string   // of a cluster: who has the slot by the word of most masters; empty: no such word
}

const noOwner = -1

// fleet knows the servers: by its URL, by Sentinels, or by the nodes of a cluster. It looks at who is master now and then, when
// a Sentinel announces another, and when a call fails in a way that calls for it.
type fleet struct {
	target *target
	open   func(addr string, closed chan struct{}) (*redis.Client, error)
	log    *slog.Logger

	sentinels []*redis.Client
	looking   singleflight.Group
	kick      chan struct{}
	stop      context.CancelFunc
	loops     sync.WaitGroup

	view    atomic.Pointer[view]
	mu      sync.Mutex
	nodes   map[string]*node
	changed chan struct{} // closed when there is another view
	unsure  bool          // the last look went wrong
	ended   bool

	reconnected time.Time // when the connections to a single server were last made anew
}

// newFleet makes a fleet. Nothing is asked before it is watched.
func newFleet(t *target, log *slog.Logger, open func(string, chan struct{}) (*redis.Client, error)) (*fleet, error) {
	f := &fleet{
		target: t, open: open, log: log, kick: make(chan struct{}, 1), nodes: map[string]*node{},
		changed: make(chan struct{}), stop: func() {},
	}
	f.view.Store(&view{})
	if t.kind != standalone {
		return f, nil
	}
	n, err := f.node(t.hosts[0])
	if err != nil {
		return nil, err
	}
	f.view.Store(&view{masters: []*node{n}})
	return f, nil
}

// watch looks at who is master until close.
func (f *fleet) watch() {
	if f.target.kind == standalone {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	if f.target.kind == sentinel {
		for _, host := range f.target.hosts {
			client := redis.NewClient(f.target.sentinelOptions(host))
			f.sentinels = append(f.sentinels, client)
			f.loops.Go(func() { f.hearSwitches(ctx, client) })
		}
	}
	f.loops.Go(func() { f.lookOn(ctx) })
}

func (f *fleet) lookOn(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		_ = f.look(ctx) // it says itself what is wrong
		if pause(ctx, lookApart) != nil {
			return
		}
		select {
		case <-f.kick:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// suspect makes the fleet look soon.
func (f *fleet) suspect() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// look asks who is master, once for all who want to know at the same time. An error: those who know do not answer, or
// not with one voice; what was known is still believed then.
func (f *fleet) look(ctx context.Context) error {
	result := f.looking.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		err := f.lookNow(ctx)
		f.say(err)
		return nil, err
	})
	select {
	case r := <-result:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fleet) lookNow(ctx context.Context) error {
	switch f.target.kind {
	case sentinel:
		return f.askSentinels(ctx)
	case cluster:
		return f.askNodes(ctx)
	default:
		return nil
	}
}

// say logs when looks begin to go wrong, and when they are right again.
func (f *fleet) say(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.unsure == (err != nil) {
		return
	}
	if f.unsure = err != nil; f.unsure {
		f.log.Warn("who is master of Redis is not known for sure", slog.Any("error", err))
	} else {
		f.log.Info("who is master of Redis is known again")
	}
}

// confirm asks whether the server that has a group by what is known is so by the word of those who decide it, and
// goes over to the one that they name. Nothing is adopted without it: of two servers that both think they are masters,
// only one is named. A single server says itself that it is.
func (f *fleet) confirm(ctx context.Context, group string) error {
	if f.target.kind == standalone {
		return f.confirmAlone(ctx)
	}
	if err := f.look(ctx); err != nil {
		return fmt.Errorf("%w: the master is not confirmed: %w", store.ErrUnavailable, err)
	}
	v := f.view.Load()
	if f.target.kind == sentinel {
		return nil
	}
	n, err := f.route(group)
	if err != nil {
		return err
	}
	if slot := slotOf(group); v.votes(slot) != n.addr {
		return fmt.Errorf("%w: most masters of the cluster do not say that slot %d is on %s", store.ErrUnavailable, slot, n.addr)
	}
	return nil
}

// route is the server that has a group.
func (f *fleet) route(group string) (*node, error) {
	v := f.view.Load()
	if v.slots != nil {
		if i := v.slots[slotOf(group)]; i != noOwner {
			return v.masters[i], nil
		}
	} else if len(v.masters) == 1 {
		return v.masters[0], nil
	}
	f.suspect()
	return nil, fmt.Errorf("%w: no Redis is known to have group %s", store.ErrUnavailable, group)
}

// masters are those who have something, and what is closed when that changes.
func (f *fleet) masters() ([]*node, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view.Load().masters, f.changed
}

// keysOn are names whose keys are on this server: on a cluster they have hash tags added. None: the server has nothing.
func (f *fleet) keysOn(n *node, name string) []string {
	if f.target.kind != cluster {
		return []string{name}
	}
	var keys []string
	for _, tag := range f.view.Load().tags[n] {
		keys = append(keys, name+"{"+tag+"}")
	}
	return keys
}

// node is the server at an address.
func (f *fleet) node(addr string) (*node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodeLocked(addr)
}

func (f *fleet) nodeLocked(addr string) (*node, error) {
	if n := f.nodes[addr]; n != nil {
		return n, nil
	}
	if f.ended {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, net.ErrClosed)
	}
	closed := make(chan struct{})
	client, err := f.open(addr, closed)
	if err != nil {
		return nil, err
	}
	n := &node{addr: addr, client: client, closed: closed}
	f.nodes[addr] = n
	return n, nil
}

// follow makes these the masters, and drops the connections to those who are not any more.
func (f *fleet) follow(addrs []string, complete func(*view)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, next := f.view.Load(), &view{}
	same := len(old.masters) == len(addrs)
	for i, addr := range addrs {
		n, err := f.nodeLocked(addr)
		if err != nil {
			return err
		}
		next.masters = append(next.masters, n)
		same = same && old.masters[i] == n
	}
	if complete != nil {
		complete(next)
	}
	f.view.Store(next)
	if same {
		return nil
	}
	for _, n := range old.masters {
		if !slices.Contains(next.masters, n) {
			f.drop(n)
		}
	}
	f.log.Info("masters of Redis", slog.Any("addresses", addrs))
	f.announce()
	return nil
}

// announce tells those who wait for it that there is another view.
func (f *fleet) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fleet) drop(n *node) {
	if f.nodes[n.addr] == n {
		delete(f.nodes, n.addr)
	}
	close(n.closed)
	_ = n.client.Close() // calls on it fail, as they are meant to
}

// close ends the watch and closes all connections.
func (f *fleet) close() {
	f.stop()
	f.mu.Lock()
	f.ended = true
	for _, n := range f.nodes {
		f.drop(n)
	}
	f.mu.Unlock()
	for _, s := range f.sentinels {
		_ = s.Close() // it was only asked
	}
	f.loops.Wait()
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
