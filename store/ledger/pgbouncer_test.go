package ledger

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestBehindPgBouncer: everything works through a pgbouncer in transaction mode, on fewer connections than the ledger
// has, in the modes that need no named prepared statements, and leaves no setting behind on those that others get next.
func TestBehindPgBouncer(t *testing.T) {
	t.Parallel()
	server := storetest.NewPostgres(t, local.PostgresOptions{})
	pooler := storetest.NewPgBouncer(t, local.PgBouncerOptions{Postgres: server, Settings: []string{"default_pool_size = 2"}})
	for _, mode := range []string{"exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			if err := server.CreateDatabase(t.Context(), mode); err != nil {
				t.Fatal(err)
			}
			if err := Migrate(t.Context(), server.URL(mode)); err != nil { // past the pooler
				t.Fatal(err)
			}
			f := setupAt(t, withMode(t, pooler.URL(mode), mode))
			f.create(show, 1000)
			each(100, func(n int) { f.sell(1000+n, 1) })
			f.wantSold(100)
			for name, call := range calls(f.Ledger) {
				if err := call(t.Context()); err != nil && !answered(err) {
					t.Errorf("%s: %v", name, err)
				}
			}
			f.everything(t)
			f.noSettingsLeft(t)
		})
	}
}

func withMode(t *testing.T, text, mode string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_query_exec_mode", mode)
	u.RawQuery = q.Encode()
	return u.String()
}

// noSettingsLeft looks at the connections that the ledger has used.
func (f *fixture) noSettingsLeft(t *testing.T) {
	t.Helper()
	rows, _ := f.connect().Query(t.Context(), `select name || ' = ' || setting from pg_settings
		where name in ('lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout') and setting <> '0'
			or name = 'enable_seqscan' and setting <> 'on'`)
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(left) > 0 {
		t.Errorf("settings left on a connection of the pooler: %v, %v", left, err)
	}
}

// TestServerGoneBehindPgBouncer: the pooler answers, and the server behind it does not.
func TestServerGoneBehindPgBouncer(t *testing.T) {
	t.Parallel()
	server, _ := ownServer(t)
	pooler := storetest.NewPgBouncer(t, local.PgBouncerOptions{Postgres: server, Settings: []string{"server_login_retry = 1"}})
	f := setupAt(t, pooler.URL("postgres"), noticing)
	f.create(show, 100)
	n := 0
	for name, outage := range map[string]struct{ begin, end func() error }{
		"killed": {func() error { server.Kill(); return nil }, func() error { return server.Restart(context.WithoutCancel(t.Context())) }},
		"frozen": {server.Pause, func() error { server.Resume(); return nil }},
	} {
		n++
		f.sell(10*n, 1)
		if err := outage.begin(); err != nil {
			t.Fatal(err)
		}
		f.eventuallyDown()
		if _, err := f.Settle(t.Context(), show, single(10*n+1, 1)); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, errDown) {
			t.Errorf("%s: %v", name, err)
		}
		if err := outage.end(); err != nil {
			t.Fatal(err)
		}
		f.eventuallyUp()
		storetest.Eventually(t, 10*time.Second, func() error { // the pooler may have dead connections left
			_, err := f.Settle(t.Context(), show, single(10*n+1, 1))
			return err
		})
	}
	f.wantSold(4)
}
