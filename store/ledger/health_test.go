package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// setupServer is a ledger with an allotment on a server of this test's own. Its calls take for ever, so that nothing but
// the knowledge that the server is down ends one before the test's patience.
func setupServer(t *testing.T, change ...func(*Options)) (*fixture, *local.Postgres) {
	t.Helper()
	server, at := ownServer(t)
	patient := func(o *Options) {
		o.CallTimeout, o.LockTimeout, o.StatementTimeout = time.Hour, time.Hour, time.Hour
	}
	f := setupAt(t, at, append([]func(*Options){patient, noticing}, change...)...)
	f.create(show, 100)
	return f, server
}

// noticing has a server taken for down as soon as in production, and not only after what a busy machine may need.
func noticing(o *Options) { o.ProbeTime = 0 }

// TestKnownToBeDown: whoever waits for a server that has stopped answering is let go when that is known, and whoever comes
// later is told at once, on connections that are no more than there were, until it answers again.
func TestKnownToBeDown(t *testing.T) {
	t.Parallel()
	f, server := setupServer(t)
	f.sell(1, 1)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	defer server.Resume()
	waiting := make(chan error, 20) // one in the transaction, the others behind it
	for n := 2; n < 2+cap(waiting); n++ {
		go func() { _, err := f.Settle(t.Context(), show, single(n, 1)); waiting <- err }()
	}
	for range cap(waiting) {
		if err := within(t, waiting); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, errDown) {
			t.Fatalf("a confirm that waited: %v", err)
		}
	}
	f.eventuallyDown()
	for range 50 {
		for name, call := range calls(f.Ledger) {
			done := make(chan error, 1)
			go func() { done <- call(t.Context()) }()
			if err := within(t, done); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, errDown) {
				t.Fatalf("%s while the server is known to be down: %v", name, err)
			}
		}
	}
	if r, b := f.requests.Stat().TotalConns(), f.background.Stat().TotalConns(); r > 1 || b > 1 {
		t.Errorf("%d and %d connections, want those that were there", r, b)
	}
	server.Resume()
	f.eventuallyUp()
	for n := 2; n < 2+cap(waiting); n++ { // whatever became of each, its repeat tells
		f.sell(n, 1)
	}
	f.wantSold(21)
}

func within(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("still not told")
		return nil
	}
}

// TestBusyIsNotDown: neither a locked row nor a full pool is an outage. (Nor is a server without a connection to give: F34.)
func TestBusyIsNotDown(t *testing.T) {
	t.Parallel()
	f := setup(t, 10, func(o *Options) { o.LockTimeout, o.CallTimeout = 10*time.Millisecond, time.Second })
	locker := f.connect()
	f.exec(locker, `begin`)
	f.exec(locker, `select from allotments where id = $1 for update`, show)
	for n := range 20 {
		if _, err := f.Settle(t.Context(), show, single(n, 1)); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, errDown) {
			t.Errorf("row locked: %v", err)
		}
	}
	f.exec(locker, `rollback`)
	var taken []func()
	for range f.requests.Config().MaxConns {
		conn, err := f.requests.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, conn.Release)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := f.Sale(short, line(show, 1, 1).ID); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, errDown) {
		t.Errorf("pool full: %v", err)
	}
	for _, release := range taken {
		release()
	}
	for range 3 { // the third is taken when a whole look has followed the first
		f.health.nudge <- struct{}{}
	}
	if err := f.health.down(); err != nil {
		t.Errorf("known to be down: %v", err)
	}
	f.sell(1, 1)
}

// TestSilentConnection: a transaction that gets no answer in its time loses its own connection, and no other: the server may
// only be busy, and connecting anew would make it busier.
func TestSilentConnection(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	ctx := t.Context()
	spare, err := f.requests.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	silent, err := f.requests.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	backend, err := os.FindProcess(int(silent.Conn().PgConn().PID()))
	if err != nil {
		t.Fatal(err)
	}
	spare.Release()
	silent.Release() // the last one in is the first one out
	conns := f.requests.Stat().NewConnsCount()
	if err := backend.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = backend.Signal(syscall.SIGCONT) }()
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := f.Sale(short, line(show, 1, 1).ID); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("on a connection whose backend stands still: %v", err)
	}
	f.sell(2, 1)
	if n := f.requests.Stat().NewConnsCount() - conns; n != 0 {
		t.Errorf("%d new connections, although one of two was sound", n)
	}
}

// TestProbeIsOverruled: a transaction's answer counts for more than a probe that got none meanwhile.
func TestProbeIsOverruled(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig("postgres://nobody@127.0.0.1:1/none?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	prepareConn(config)
	var mu sync.Mutex
	var h *health
	asked := 0
	answering := true
	config.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		if answering {
			h.answered()
		}
		return nil, errors.New("refused")
	}
	mu.Lock()
	h = newHealth(config, 500*time.Millisecond, slog.New(slog.DiscardHandler), func() {})
	mu.Unlock()
	defer h.close()
	storetest.Eventually(t, 10*time.Second, func() error {
		h.suspect()
		mu.Lock()
		defer mu.Unlock()
		if asked < 5 {
			return errors.New("not asked yet")
		}
		return nil
	})
	if err := h.down(); err != nil {
		t.Errorf("known to be down, although transactions got answers: %v", err)
	}
	mu.Lock()
	answering = false
	mu.Unlock()
	storetest.Eventually(t, 10*time.Second, func() error {
		if h.down() == nil {
			return errors.New("not known to be down")
		}
		return nil
	})
}

// TestLostConnectionsLeaveThePool: connections that nobody answers on do not take places of the pool while they say goodbye.
func TestLostConnectionsLeaveThePool(t *testing.T) {
	t.Parallel()
	direct := setup(t, 10)
	u, err := url.Parse(direct.url)
	if err != nil {
		t.Fatal(err)
	}
	link := storetest.NewLink(t, u.Host)
	u.Host = link.Addr()
	f := setupAt(t, u.String(), noticing, func(o *Options) { o.CallTimeout = 300 * time.Millisecond })
	var idle []func()
	for range f.requests.Config().MaxConns {
		conn, err := f.requests.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn.Release)
	}
	for _, release := range idle {
		release()
	}
	link.Swallow()
	each(len(idle), func(int) {
		if _, err := f.Sale(t.Context(), line(show, 1, 1).ID); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("in the black hole: %v", err)
		}
	})
	storetest.Eventually(t, 5*time.Second, func() error { // pgx says goodbye for up to 15 s
		if n := f.requests.Stat().TotalConns(); n != 0 {
			return fmt.Errorf("%d places of the pool are taken", n)
		}
		return nil
	})
	link.Heal()
}
