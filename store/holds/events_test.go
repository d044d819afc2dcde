package holds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// listener runs Listen until the test ends.
type listener struct {
	f     *fixture
	gap   atomic.Int64
	mu    sync.Mutex
	heard map[store.HoldID]int
	at    []func(store.Place) bool // of the gaps
}

func (f *fixture) listen1() *listener {
	l := &listener{f: f, heard: map[store.HoldID]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Listen(ctx, func(id store.HoldID) {
			l.mu.Lock()
			l.heard[id]++
			l.mu.Unlock()
		}, func(at func(store.Place) bool) {
			l.gap.Add(1)
			l.mu.Lock()
			l.at = append(l.at, at)
			l.mu.Unlock()
		})
	}()
	f.t.Cleanup(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(patience):
			f.t.Error("Listen does not end with its context")
		}
	})
	return l
}

// hears waits until all of these holds were announced.
func (l *listener) hears(ids ...store.HoldID) {
	l.f.t.Helper()
	storetest.Eventually(l.f.t, patience, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, id := range ids {
			if l.heard[id] == 0 {
				return fmt.Errorf("hold %s was not announced", id)
			}
		}
		return nil
	})
}

// subscribes waits until the server has been subscribed to n times.
func (f *fixture) subscribes(n int) {
	f.t.Helper()
	storetest.Eventually(f.t, 2*patience, func() error {
		if got := f.calls("subscribe"); got < n {
			return fmt.Errorf("subscribed %d times, want %d", got, n)
		}
		return nil
	})
}

// gaps waits until gap was called n times.
func (l *listener) gaps(n int64) {
	l.f.t.Helper()
	storetest.Eventually(l.f.t, 2*patience, func() error {
		if got := l.gap.Load(); got < n {
			return fmt.Errorf("gap was called %d times, want %d", got, n)
		}
		return nil
	})
}

// gapsAt is how many gaps were at the server that a place is at.
func (l *listener) gapsAt(p store.Place) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.at {
		if at(p) {
			n++
		}
	}
	return n
}

func (f *fixture) hears(l *listener, name string) {
	f.t.Helper()
	l.hears(f.shortHold(name).ID)
}

// Events alone bring lapsed units back: each names its hold, in any database, in a group or alone.
func TestEventsRelease(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{ExtraArgs: []string{"--hz", "100"}})
	for _, db := range []string{"0", "3"} {
		t.Run("database "+db, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 10, onRedis("redis://"+server.Addr()+"/"+db), func(r *store.Rules) { r.HoldDuration = 50 * time.Millisecond })
			second := f.withSecond(10, func(r *store.Rules) { r.HoldDuration = 50 * time.Millisecond })
			l := f.listen1()
			l.gaps(1) // subscribed
			holds := append(f.cartOf("cart", "request", second, 2, 3), f.hold("alone", "request", 1))
			l.hears(ids(holds)...)
			for _, h := range holds {
				n, err := f.Release(f.ctx(), f.placeOf(h.ID), []store.HoldID{h.ID}, store.LapseByEvent)
				if n != 1 || err != nil {
					t.Errorf("released %d of what was announced, %v", n, err)
				}
			}
			f.want("available 10, held 0")
			f.wantAt(second, "available 10, held 0")
			l.mu.Lock()
			defer l.mu.Unlock()
			for id := range l.heard {
				if id.Allotment != f.place.Allotment && id.Allotment != second.Allotment {
					t.Errorf("heard of %s, of another database", id)
				}
			}
		})
	}
}

// A hold that ended is announced by nobody: whatever ends or pins it takes the marker away.
func TestEndedHoldsAreNotAnnounced(t *testing.T) {
	t.Parallel()
	f := setup(t, 20)
	all := f.ended()
	s := f.mustState()
	for name, h := range all {
		if s.markers[packTag(h.ID.Tag)] && name != "due" { // which nobody has noticed
			t.Errorf("%s: the marker is still there", name)
		}
	}
	h := f.hold("extended", "request", 1)
	f.advance(holdTime / 2)
	f.extend(h)
	if ttl := f.raw.PTTL(f.ctx(), markerKey(f.place, h.ID.Tag)).Val(); ttl < holdTime-patience {
		t.Errorf("after an extension the marker lasts %v", ttl)
	}
}

// The connection is cut while holds lapse. gap is called anew, and a sweep then brings all back.
func TestEventsAfterACut(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{ExtraArgs: []string{"--hz", "100"}})
	f := setup(t, 100, onRedis(server.URL()))
	l := f.listen1()
	l.gaps(1)
	f.hears(l, "before")
	for i := range 20 {
		f.hold(fmt.Sprint(i), "short", 1)
	}
	killed, err := f.raw.Do(f.ctx(), "CLIENT", "KILL", "TYPE", "pubsub").Int()
	if killed != 1 || err != nil {
		t.Fatalf("killed %d subscriptions, %v", killed, err)
	}
	l.gaps(2)
	storetest.Eventually(t, patience, func() error { // the sweep that follows a gap
		f.release(workHolds(f)...)
		if c := f.mustState().counters; c["held"] != 0 {
			return fmt.Errorf("held %d", c["held"])
		}
		return nil
	})
	f.hears(l, "after")
	storetest.Eventually(t, patience, func() error {
		if f.logs.count("heard again") != 1 || f.logs.count("no expiry notifications") != 1 {
			return errors.New("the cut and its end are not logged once each: " + f.logs.String())
		}
		return nil
	})
}

func workHolds(f *fixture) (holds []store.Hold) {
	for _, id := range f.work().Lapsed {
		holds = append(holds, store.Hold{ID: id})
	}
	return holds
}

// Whoever switches the notifications off, or a restart that forgets them: they are switched on again.
func TestEventsAreSwitchedOn(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{ExtraArgs: []string{"--notify-keyspace-events", "", "--hz", "100"}})
	f := setup(t, 100, onRedis(server.URL()))
	l := f.listen1()
	l.gaps(1)
	f.hears(l, "first")
	must(t, f.raw.ConfigSet(f.ctx(), "notify-keyspace-events", "Kg").Err())
	l.gaps(2) // the canary fell silent
	f.hears(l, "second")
	if flags := f.raw.ConfigGet(f.ctx(), "notify-keyspace-events").Val()["notify-keyspace-events"]; !strings.Contains(flags, "K") {
		t.Errorf("the flags are %q: those of others must stay", flags)
	}
	if n := f.logs.count("cannot set"); n != 0 {
		t.Errorf("warned that it cannot be set:\n%s", f.logs)
	}
}

// A deaf time is one gap, however often it is subscribed meanwhile, and is told when it is over. What makes it deaf is said:
// a server without memory refuses the canary (P32).
func TestGapAfterADeafTime(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{ExtraArgs: []string{"--hz", "100"}})
	f := setup(t, 100, onRedis(server.URL()))
	l := f.listen1()
	l.gaps(1)
	must(t, f.raw.ConfigSet(f.ctx(), "maxmemory", "1").Err())
	f.subscribes(4)
	if n := l.gap.Load(); n != 1 {
		t.Errorf("gap was called %d times, want once, when it was first heard", n)
	}
	if f.logs.count("the canary could not be set") != 1 || f.logs.count("OOM") == 0 {
		t.Errorf("why it is deaf is not said once:\n%s", f.logs)
	}
	must(t, f.raw.ConfigSet(f.ctx(), "maxmemory", "0").Err())
	f.hears(l, "after")
	l.gaps(2)
}

// link is a proxy that can go deaf: it keeps connections, and swallows what comes.
type link struct {
	addr string
	deaf atomic.Bool
}

func newLink(t *testing.T, target string) *link {
	t.Helper()
	server, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	l := &link{addr: server.Addr().String()}
	go func() {
		for {
			near, err := server.Accept()
			if err != nil {
				return
			}
			far, err := new(net.Dialer).DialContext(t.Context(), "tcp", target)
			if err != nil {
				_ = near.Close()
				continue
			}
			go l.pass(near, far)
			go l.pass(far, near)
		}
	}()
	return l
}

func (l *link) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if l.deaf.Load() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// A link that is silent without an error is noticed by the canary, and left; when the path is back, events
// are heard again (F15).
func TestDeafLink(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{ExtraArgs: []string{"--hz", "100"}})
	l := newLink(t, server.Addr())
	direct := setup(t, 100, onRedis(server.URL()))
	u := url.URL{Scheme: "redis", Host: l.addr, Path: "/0"}
	far := direct.another(onRedis(u.String()), withTimeout(100*time.Millisecond))
	heard := far.listen1()
	heard.gaps(1)
	direct.hears(heard, "before")
	l.deaf.Store(true)
	storetest.Eventually(t, patience, func() error {
		if far.logs.count("no expiry notifications") == 0 {
			return errors.New("the deaf link was not noticed")
		}
		return nil
	})
	if err := errOf(far.Create(t.Context(), far.request("x", "request", 1))); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Create over a deaf link: %v, want ErrUnavailable", err)
	}
	gaps := heard.gap.Load()
	l.deaf.Store(false)
	heard.gaps(gaps + 1)
	direct.hears(heard, "after")
	storetest.Eventually(t, patience, func() error {
		if far.logs.count("heard again") != 1 || far.logs.count("no expiry notifications") != 1 {
			return errors.New("not logged once each: " + far.logs.String())
		}
		return nil
	})
}

// A server that is not there yet when Listen starts: nothing is warned of but the silence, and events
// are heard, and switched on, when it is.
func TestListenBeforeTheServer(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{ExtraArgs: []string{"--notify-keyspace-events", "", "--hz", "100"}})
	f := setup(t, 10, onRedis(server.URL()))
	server.Kill()
	l := f.listen1()
	storetest.Eventually(t, patience, func() error {
		if f.logs.count("no expiry notifications") != 1 {
			return errors.New("nothing logged")
		}
		return nil
	})
	must(t, server.Restart(context.Background()))
	l.gaps(1)
	f.needsAdopt()
	f.adopt(newAllotment(f.place, 10), 2)
	f.hears(l, "after")
	if n := f.logs.count("cannot set"); n != 0 {
		t.Errorf("a dead server was taken for one that does not allow CONFIG:\n%s", f.logs)
	}
}
