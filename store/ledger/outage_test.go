package ledger

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// calls is every method that asks the server.
func calls(l *Ledger) map[string]func(context.Context) error {
	id := line(show, 1, 1).ID
	return map[string]func(context.Context) error{
		"Settle":     func(ctx context.Context) error { _, err := l.Settle(ctx, show, single(1, 1)); return err },
		"Sale":       func(ctx context.Context) error { _, err := l.Sale(ctx, id); return err },
		"Outcomes":   func(ctx context.Context) error { _, err := l.Outcomes(ctx, show, []string{id.Tag}); return err },
		"ListSales":  func(ctx context.Context) error { _, err := l.ListSales(ctx, store.SaleFilter{}, "", 1); return err },
		"Allotment":  func(ctx context.Context) error { _, err := l.Allotment(ctx, show); return err },
		"Adjustment": func(ctx context.Context) error { _, _, err := l.Adjustment(ctx, show, "r"); return err },
		"Pending":    func(ctx context.Context) error { _, err := l.Pending(ctx, "", 1); return err },
		"Changes":    func(ctx context.Context) error { _, err := l.Changes(ctx, show, 0, 1); return err },
		"Applied":    func(ctx context.Context) error { return l.Applied(ctx, show, 1, 0) },
		"Pause":      func(ctx context.Context) error { _, err := l.Pause(ctx, show, 1); return err },
		"Retire":     func(ctx context.Context) error { return l.Retire(ctx, show, 1) },
		"EraseBuyer": func(ctx context.Context) error { _, err := l.EraseBuyer(ctx, "b"); return err },
		"Ping":       l.Ping,
		"CancelSale": func(ctx context.Context) error {
			_, _, err := l.CancelSale(ctx, store.CancelSale{ID: id, RequestID: "r"})
			return err
		},
		"CreateAllotment": func(ctx context.Context) error {
			_, err := l.CreateAllotment(ctx, newAllotment("new", 1))
			return err
		},
		"ListAllotments": func(ctx context.Context) error { _, err := l.ListAllotments(ctx, "", 1); return err },
		"UpdateRules": func(ctx context.Context) error {
			_, err := l.UpdateRules(ctx, show, 1, rules())
			return err
		},
		"Grow": func(ctx context.Context) error {
			_, _, err := l.Grow(ctx, store.Adjustment{Allotment: show, RequestID: "r", Delta: 1})
			return err
		},
		"RaiseEpoch": func(ctx context.Context) error { _, _, err := l.RaiseEpoch(ctx, show, 1, 0, 0); return err },
		"RecentOutcomes": func(ctx context.Context) error {
			_, err := l.RecentOutcomes(ctx, show, time.Time{}, "", 1)
			return err
		},
		"BuyerTotals": func(ctx context.Context) error {
			return l.BuyerTotals(ctx, show, 0, func(string, int64) error { return nil })
		},
	}
}

// TestServerDown: everything says so, and at once.
func TestServerDown(t *testing.T) {
	t.Parallel()
	l := down(t)
	for name, call := range calls(l) {
		start := time.Now()
		if err := call(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// TestDeadContextAndClosed: nothing is done for a caller that has gone, nor after Close.
func TestDeadContextAndClosed(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	before := f.allotment(show)
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(f.Ledger) {
		if err := call(dead); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a dead context: %v", name, err)
		}
	}
	if a := f.allotment(show); a != before || f.number(`select count(*) from outcomes`) != 0 {
		t.Errorf("changed: %+v", a)
	}
	f.Close()
	for name, call := range calls(f.Ledger) {
		if err := call(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s after Close: %v, want ErrUnavailable", name, err)
		}
	}
	f.Close()
}

// TestLockedRow (F31): whoever waits too long for the row gets a quick answer, nothing lands later, and the
// connection lives on.
func TestLockedRow(t *testing.T) {
	t.Parallel()
	f := setup(t, 10, func(o *Options) { o.LockTimeout = 30 * time.Millisecond })
	id := f.sell(1, 2)
	locker := f.connect()
	f.exec(locker, `begin`)
	f.exec(locker, `select from allotments where id = $1 for update`, show)
	conns := f.requests.Stat().NewConnsCount()
	for range 5 {
		start := time.Now()
		if _, err := f.Settle(t.Context(), show, single(2, 1)); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Settle: %v, want ErrUnavailable", err)
		}
		if _, _, err := f.CancelSale(t.Context(), store.CancelSale{ID: id, RequestID: "r"}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("CancelSale: %v, want ErrUnavailable", err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
	}
	f.exec(locker, `commit`)
	if n := f.requests.Stat().NewConnsCount() - conns; n != 0 {
		t.Errorf("%d new connections, want none", n)
	}
	if n := f.number(`select count(*) from outcomes`); n != 1 {
		t.Errorf("%d outcomes, want 1", n)
	}
	f.wantSold(2)
}

// TestServerGivesUpFirst: the limits shrink to fit the caller's deadline, and so the connection is kept then, too.
func TestServerGivesUpFirst(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	id := f.sell(1, 2)
	locker := f.connect()
	f.exec(locker, `begin`)
	f.exec(locker, `select from allotments where id = $1 for update`, show)
	conns := f.requests.Stat().NewConnsCount()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, _, err := f.CancelSale(ctx, store.CancelSale{ID: id, RequestID: "r"}); !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("CancelSale: %v, context: %v", err, ctx.Err())
	}
	f.exec(locker, `commit`)
	f.allotment(show)
	if n := f.requests.Stat().NewConnsCount() - conns; n != 0 {
		t.Errorf("%d new connections, want none", n)
	}
}

// TestExhaustedPools (F34): nobody waits for a connection for ever, and neither pool takes the other's.
func TestExhaustedPools(t *testing.T) {
	t.Parallel()
	f := setup(t, 10, func(o *Options) { o.CallTimeout = time.Second })
	take := func(p *pool) (give func()) {
		var conns []*pgxpool.Conn
		for range p.Config().MaxConns {
			conn, err := p.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		return func() {
			for _, conn := range conns {
				conn.Release()
			}
		}
	}
	give := take(f.requests)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, name := range []string{"Settle", "CancelSale", "Sale"} {
		if err := calls(f.Ledger)[name](ctx); !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			t.Errorf("%s without a connection: %v", name, err)
		}
	}
	for _, name := range []string{"Ping", "Pending", "RecentOutcomes"} {
		if err := calls(f.Ledger)[name](t.Context()); err != nil {
			t.Errorf("%s while requests are busy: %v", name, err)
		}
	}
	if _, err := f.Background().Outcomes(t.Context(), show, []string{"x"}); err != nil {
		t.Errorf("Outcomes in the background while requests are busy: %v", err)
	}
	give()
	defer take(f.background)()
	f.sell(1, 1)
	if _, err := f.Background().Sale(ctx, line(show, 1, 1).ID); !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("Sale in a busy background: %v", err)
	}
	if _, err := f.Background().Settle(t.Context(), show, single(2, 1)); err != nil {
		t.Errorf("Settle of a loop shares the requests' connections: %v", err)
	}
}

// TestReadOnlyServer: a server that may no longer be written to is left, and found again.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	_, url := ownServer(t)
	f := setupAt(t, url, func(o *Options) { o.CallTimeout = time.Second })
	f.create(show, 10)
	f.sell(1, 1)
	admin := f.connect()
	conns := f.requests.Stat().NewConnsCount()
	f.exec(admin, `alter system set default_transaction_read_only = on`)
	f.exec(admin, `select pg_reload_conf()`)
	storetest.Eventually(t, 5*time.Second, func() error {
		_, err := f.Settle(t.Context(), show, single(2, 1))
		if !errors.Is(err, store.ErrUnavailable) {
			return errors.Join(errors.New("still written to"), err)
		}
		return nil
	})
	f.exec(admin, `set default_transaction_read_only = off`)
	f.exec(admin, `alter system reset default_transaction_read_only`)
	f.exec(admin, `select pg_reload_conf()`)
	storetest.Eventually(t, 5*time.Second, func() error {
		_, err := f.Settle(t.Context(), show, single(3, 1))
		return err
	})
	if f.requests.Stat().NewConnsCount() == conns {
		t.Error("the pool kept its connections")
	}
}

// TestReadOnlyConnection: a single connection that leads to a server that may not be written to is closed at
// once, although the pool was reset a moment ago, so that the next one may lead to the server that took over.
func TestReadOnlyConnection(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	f.sell(1, 1)
	conn, err := f.requests.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.exec(conn.Conn(), `set default_transaction_read_only = on`)
	conn.Release()
	f.requests.lastReset.Store(time.Now().Add(time.Hour).UnixNano())
	_, err = f.Settle(t.Context(), show, single(2, 1))
	if e := pgError(err); !errors.Is(err, store.ErrUnavailable) || e == nil || e.Code != stateReadOnly {
		t.Fatalf("on the read-only connection: %v", err)
	}
	f.sell(2, 1)
	f.wantSold(2)
}

// TestOptions: what is missing gets a default, what is wrong an error that does not tell the password.
func TestOptions(t *testing.T) {
	t.Parallel()
	if _, err := Open(t.Context(), Options{}); err == nil {
		t.Error("no URL: no error")
	}
	if _, err := Open(t.Context(), Options{URL: "postgres://u:secret@h:port/d"}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("bad URL: %v", err)
	}
	l := down(t)
	c := l.requests.Config()
	if c.MaxConns != 8 || l.background.Config().MaxConns != 2 || c.MaxConnLifetime > 5*time.Minute || c.MaxConnLifetimeJitter == 0 ||
		c.ConnConfig.ValidateConnect == nil || c.ConnConfig.ConnectTimeout > 2*time.Second {
		t.Errorf("pool: %+v", c)
	}
}
