package inventory_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// F32: Postgres becomes read-only under the connections that are there. With one host in the URL, confirms wait until it may
// be written to again; with two, the one that took over is found.
func TestF32PostgresReadOnly(t *testing.T) {
	t.Parallel()
	t.Run("for a while", func(t *testing.T) {
		t.Parallel()
		_, url := ownPostgres(t, local.PostgresOptions{})
		w := newWorld(t, 2, withPostgres(url), patient)
		admin := session(t, url)
		postgresAway(t, w, func() {
			turnReadOnly(t, w, admin)
		}, func() {
			run(t, admin, `set default_transaction_read_only = off`)
			run(t, admin, `alter system reset default_transaction_read_only`)
			run(t, admin, `select pg_reload_conf()`)
		})
	})
	t.Run("another took over", func(t *testing.T) {
		t.Parallel()
		primary, standby := replicated(t)
		url := both(t, primary, standby)
		w := newWorld(t, 2, withPostgres(url+"&target_session_attrs=read-write"), through(url), patient)
		postgresAway(t, w, func() {
			admin := session(t, primary.URL("postgres"))
			turnReadOnly(t, w, admin)
		}, func() {
			caughtUp(t, primary, standby)
			run(t, session(t, standby.URL("postgres")), `select pg_promote()`)
			w.knowsDown(false)
		})
		var server string
		w.query(`select current_setting('data_directory')`, nil, &server)
		if server != data(standby) {
			t.Errorf("the sales are in %s, want the promoted one's %s", server, data(standby))
		}
	})
}

// turnReadOnly lets the server of a connection accept no writes any more, when every replica's probe has a connection to it.
func turnReadOnly(t *testing.T, w *world, admin *pgx.Conn) {
	t.Helper()
	w.until(func() error {
		var probes int
		err := admin.QueryRow(t.Context(), `select count(*) from pg_stat_activity
			where application_name = 'holdfast' and query = 'show transaction_read_only'`).Scan(&probes)
		if err == nil && probes < len(w.replicas) {
			err = fmt.Errorf("%d probes are connected", probes)
		}
		return err
	})
	run(t, admin, `alter system set default_transaction_read_only = on`)
	run(t, admin, `select pg_reload_conf()`)
	w.knowsDown(true)
}

// replicated starts a Postgres and a standby of it.
func replicated(t *testing.T) (primary, standby *local.Postgres) {
	t.Helper()
	primary, url := ownPostgres(t, local.PostgresOptions{})
	if err := primary.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := storetest.StateDir(t)
	copyFolder(t, data(primary), filepath.Join(dir, "postgres"))
	if err := os.WriteFile(filepath.Join(dir, "postgres", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := primary.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	standby = storetest.NewPostgres(t, local.PostgresOptions{Dir: dir, ExtraArgs: []string{"-c", "primary_conninfo=" + url}})
	return primary, standby
}

// both is a URL of two hosts.
func both(t *testing.T, first, second *local.Postgres) string {
	t.Helper()
	_, port, _ := strings.Cut(first.Addr(), ":")
	_, port2, _ := strings.Cut(second.Addr(), ":")
	return strings.Replace(first.URL("postgres"), "@"+first.Addr(), "@", 1) +
		fmt.Sprintf("&host=127.0.0.1,127.0.0.1&port=%s,%s", port, port2)
}

// caughtUp waits until the standby has all that the primary has written.
func caughtUp(t *testing.T, primary, standby *local.Postgres) {
	t.Helper()
	from, to := session(t, primary.URL("postgres")), session(t, standby.URL("postgres"))
	var written string
	if err := from.QueryRow(t.Context(), `select pg_current_wal_lsn()::text`).Scan(&written); err != nil {
		t.Fatal(err)
	}
	storetest.Eventually(t, patience, func() error {
		var there bool
		err := to.QueryRow(t.Context(), `select pg_last_wal_replay_lsn() >= $1::text::pg_lsn`, written).Scan(&there)
		if err == nil && !there {
			err = errors.New("the standby lags")
		}
		return err
	})
}
