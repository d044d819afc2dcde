package ledger

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestTwelveMigrationsAtOnce(t *testing.T) {
	t.Parallel()
	url := storetest.Database(t)
	errs := make([]error, 12)
	var worked atomic.Int64
	each(len(errs), func(i int) {
		from, to, err := Upgrade(t.Context(), url)
		errs[i] = err
		switch {
		case from == 0 && to == schemaVersion():
			worked.Add(1)
		case from != to || to != schemaVersion():
			t.Errorf("from version %d to %d", from, to)
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if n := worked.Load(); n != 1 {
		t.Errorf("%d say that they made the tables", n)
	}
	f := setupAt(t, url)
	if err := f.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
	if err := Migrate(t.Context(), url); err != nil {
		t.Errorf("again: %v", err)
	}
	if n := f.number(`select count(*) from ` + versionTable); n != 1 {
		t.Errorf("%d version rows, want 1", n)
	}
	storetest.Eventually(t, 10*time.Second, func() error { // the server may yet have to notice that a connection is closed
		n := f.number(`select count(*) from pg_locks join pg_database d on d.oid = database
			where locktype = 'advisory' and datname = current_database()`)
		if n != 0 {
			return fmt.Errorf("%d advisory locks left", n)
		}
		return nil
	})
}

// TestMigrateOldRows: of rows that are older than their rules' history, the longest hold is what it may have been.
func TestMigrateOldRows(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	conn := f.connect()
	f.exec(conn, `drop index allotments_live, allotments_retired`)
	f.exec(conn, `alter table allotments drop column longest_hold_ms`)
	f.exec(conn, `update `+versionTable+` set version = 1`)
	if from, to, err := Upgrade(t.Context(), f.url); err != nil || from != 1 || to != schemaVersion() {
		t.Fatalf("from version %d to %d, %v", from, to, err)
	}
	if a := f.allotment(show); a.LongestHold != a.MaxHoldDuration {
		t.Errorf("longest hold %s, want %s", a.LongestHold, a.MaxHoldDuration)
	}
}

// TestMigrateLocksFirst: whoever migrates has the lock before anything else, and the others wait for it.
func TestMigrateLocksFirst(t *testing.T) {
	t.Parallel()
	f := &fixture{t: t, url: storetest.Database(t)}
	first, watcher := f.connect(), f.connect()
	f.exec(first, `begin`)
	f.exec(first, `select pg_advisory_xact_lock($1)`, migrateLock)
	done := make(chan error, 1)
	go func() { done <- Migrate(t.Context(), f.url) }()
	f.eventuallyWaiting(watcher)
	var tables int
	if err := watcher.QueryRow(t.Context(), `select count(*) from pg_tables where schemaname = 'public'`).Scan(&tables); err != nil || tables != 0 {
		t.Errorf("%d tables, %v; want none yet", tables, err)
	}
	f.exec(first, `commit`)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCheckSchema(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		ahead int // of this program; -99: no tables at all
		want  string
	}{
		{"no tables", -99, "run `holdfast migrate`"},
		{"older", -1, "run `holdfast migrate`"},
		{"own", 0, ""},
		{"next", 1, ""},
		{"too new", 2, "run a newer holdfast"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setupAt(t, storetest.MigratedDatabase(t, Migrate))
			if conn := f.connect(); c.ahead == -99 {
				f.exec(conn, `drop table `+versionTable)
			} else {
				f.exec(conn, `update `+versionTable+` set version = version + $1`, c.ahead)
			}
			err := f.CheckSchema(t.Context())
			var schema *SchemaError
			if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &schema) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("CheckSchema: %v, want %q", err, c.want)
			}
			from, to, err := Upgrade(t.Context(), f.url)
			if c.ahead > 0 && (err == nil) != (c.want == "") {
				t.Errorf("Upgrade: %v", err)
			}
			if have := schemaVersion() + c.ahead; c.ahead >= 0 && err == nil && (from != have || to != have) {
				t.Errorf("Upgrade: from version %d to %d, want %d left alone", from, to, have)
			}
		})
	}
}

func TestCheckSchemaOfADownServer(t *testing.T) {
	t.Parallel()
	f := &fixture{Ledger: down(t), t: t}
	if err := f.CheckSchema(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("CheckSchema: %v, want ErrUnavailable", err)
	}
	if err := Migrate(t.Context(), downURL); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Migrate: %v, want ErrUnavailable", err)
	}
}

// Port 1 of this machine is nobody's.
const downURL = "postgres://nobody@127.0.0.1:1/none?sslmode=disable"

func down(t testing.TB) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), Options{URL: downURL})
	if err != nil {
		t.Fatalf("Open must not need the server: %v", err)
	}
	t.Cleanup(l.Close)
	return l
}
