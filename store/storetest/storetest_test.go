package storetest_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func TestServersAreShared(t *testing.T) {
	t.Parallel()
	if a, b := storetest.Redis(t), storetest.Redis(t); a != b {
		t.Errorf("two Redis in one test binary: %s and %s", a.Addr(), b.Addr())
	}
	if a, b := storetest.Postgres(t), storetest.Postgres(t); a != b {
		t.Errorf("two Postgres in one test binary: %s and %s", a.Addr(), b.Addr())
	}
}

func exec(t *testing.T, url, statement string) {
	t.Helper()
	if err := execute(t.Context(), url, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func execute(ctx context.Context, url, statement string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

func TestDatabaseIsDroppedAtTheEnd(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("a test of its own: with a name that is much longer than Postgres allows", func(t *testing.T) {
		url = storetest.Database(t)
		if other := storetest.Database(t); other == url {
			t.Errorf("the same database twice: %s", url)
		}
		conn, err := pgx.Connect(t.Context(), url) // left open on purpose
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "CREATE TABLE rows (n int)"); err != nil {
			t.Fatal(err)
		}
	})
	if err := execute(t.Context(), url, "SELECT 1"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("connect after the test: got %v, want no such database", err)
	}
}

var migrations atomic.Int64 // how often migrate ran in this test binary, -count included

func migrate(ctx context.Context, url string) error {
	migrations.Add(1)
	return execute(ctx, url, "CREATE TABLE rows (n int PRIMARY KEY)")
}

func TestMigratedDatabase(t *testing.T) {
	t.Parallel()
	t.Run("group", func(t *testing.T) {
		for range 8 {
			t.Run("copy", func(t *testing.T) {
				t.Parallel()
				url := storetest.MigratedDatabase(t, migrate)
				exec(t, url, "INSERT INTO rows VALUES (1)") // a duplicate, were it the same database
			})
		}
	})
	if got := migrations.Load(); got != 1 {
		t.Errorf("migrated %d times, want once", got)
	}
	other := storetest.MigratedDatabase(t, func(ctx context.Context, url string) error {
		return execute(ctx, url, "CREATE TABLE others (n int)")
	})
	exec(t, other, "INSERT INTO others VALUES (1)") // another function, another template
}

func TestUniqueID(t *testing.T) {
	t.Parallel()
	rule := regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	seen := make(map[string]bool)
	for _, name := range []string{"Test", "x", "x", "-", "ÄÖ", strings.Repeat("long ", 40), "with/slash_and_underline"} {
		t.Run(name, func(t *testing.T) {
			id := storetest.UniqueID(t)
			if !rule.MatchString(id) {
				t.Errorf("id %q does not fit %s", id, rule)
			}
			if seen[id] {
				t.Errorf("id %q twice", id)
			}
			seen[id] = true
		})
	}
}

// recorder stands for a failing test.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Fatalf(_ string, args ...any) {
	r.failed = args[len(args)-1].(error).Error()
	panic(r) // as Fatalf does not return
}

func TestEventually(t *testing.T) {
	t.Parallel()
	calls := 0
	storetest.Eventually(t, time.Minute, func() error {
		if calls++; calls < 5 {
			return errors.New("not yet")
		}
		return nil
	})
	if calls != 5 {
		t.Errorf("condition asked %d times, want 5", calls)
	}

	r := &recorder{TB: t}
	func() {
		defer func() { _ = recover() }()
		storetest.Eventually(r, 10*time.Millisecond, func() error { return errors.New("never") })
	}()
	if r.failed != "never" {
		t.Errorf("failed with %q, want the last error", r.failed)
	}
}

func TestTogether(t *testing.T) {
	t.Parallel()
	var arrived sync.WaitGroup
	seen := make([]atomic.Int64, 5)
	arrived.Add(len(seen))
	storetest.Together(len(seen), func(i int) {
		seen[i].Add(1)
		arrived.Done()
		arrived.Wait() // for all the others: they run at the same time
	})
	for i := range seen {
		if n := seen[i].Load(); n != 1 {
			t.Errorf("f(%d) ran %d times", i, n)
		}
	}
}

func BenchmarkDatabase(b *testing.B) {
	storetest.Postgres(b)
	for b.Loop() {
		storetest.Database(b)
	}
}
