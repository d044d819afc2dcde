package storetest

import (
	"context"
	"os"
	"testing"

	"github.com/holdfast-inventory/holdfast/store/local"
)

// Redis returns the Redis that the tests of this binary share. It keeps nothing on disk and must not be
// stopped, configured or flushed: other tests are using it.
func Redis(t testing.TB) *local.Redis {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	requireMain(t)
	if shared.redis == nil {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		r, err := local.StartRedis(ctx, local.RedisOptions{})
		if err != nil {
			t.Fatalf("storetest: %v", err)
		}
		shared.redis = r
	}
	requireRunning(t, "Redis", shared.redis)
	return shared.redis
}

// Postgres returns the Postgres that the tests of this binary share. It must not be stopped or configured; each
// test makes its own Database in it.
func Postgres(t testing.TB) *local.Postgres {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	requireMain(t)
	if shared.postgres == nil {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		p, err := local.StartPostgres(ctx, local.PostgresOptions{})
		if err != nil {
			t.Fatalf("storetest: %v", err)
		}
		shared.postgres = p
	}
	requireRunning(t, "Postgres", shared.postgres)
	return shared.postgres
}

func requireMain(t testing.TB) {
	t.Helper()
	if !shared.running {
		t.Fatal("storetest: this package needs: func TestMain(m *testing.M) { storetest.Main(m) }")
	}
}

// instance is what both servers can do.
type instance interface {
	ending
	Exited() <-chan struct{}
}

// ending is what is closed at a test's end.
type ending interface {
	Close(ctx context.Context) error
	LogTail() string
}

func requireRunning(t testing.TB, name string, server instance) {
	t.Helper()
	select {
	case <-server.Exited():
		t.Fatalf("storetest: the shared %s has ended; a test that kills one must start its own. End of its log:\n%s",
			name, server.LogTail())
	default:
	}
}

// NewRedis starts a Redis for this test alone, which may kill, pause and restart it. It is stopped at the
// test's end, and its folder removed unless opts names one.
func NewRedis(t testing.TB, opts local.RedisOptions) *local.Redis {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	r, err := local.StartRedis(ctx, opts)
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	closeAtEnd(t, "Redis", r)
	return r
}

// NewSentinel starts a master, replicas and three Sentinels for this test alone. They are stopped at the test's end.
// It takes some seconds.
func NewSentinel(t testing.TB, opts local.SentinelOptions) *local.RedisSentinel {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := local.StartSentinel(ctx, opts)
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	closeAtEnd(t, "Sentinel set", s)
	return s
}

// NewRedisCluster starts a Redis Cluster for this test alone. It is stopped at the test's end. It takes some seconds.
func NewRedisCluster(t testing.TB, opts local.ClusterOptions) *local.RedisCluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := local.StartRedisCluster(ctx, opts)
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	closeAtEnd(t, "Redis Cluster", c)
	return c
}

// NewPostgres starts a Postgres for this test alone, which may kill, pause and restart it. It is stopped at the
// test's end, and its folder removed unless opts names one. It takes a second or two: prefer Postgres.
func NewPostgres(t testing.TB, opts local.PostgresOptions) *local.Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	p, err := local.StartPostgres(ctx, opts)
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	closeAtEnd(t, "Postgres", p)
	return p
}

// NewPgBouncer starts a pgbouncer in transaction mode in front of a Postgres, for this test alone.
func NewPgBouncer(t testing.TB, opts local.PgBouncerOptions) *local.PgBouncer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	b, err := local.StartPgBouncer(ctx, opts)
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	closeAtEnd(t, "pgbouncer", b)
	return b
}

// StateDir returns a new state folder for NewRedis, NewPostgres or `holdfast dev`, removed at the test's end. Under root
// t.TempDir is not good for it: its parent is closed to the servers' users.
func StateDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-state-*")
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("storetest: %v", err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatalf("storetest: %v", err)
	}
	return dir
}

// closeAtEnd shows the server's log when the test failed, since the cause is often there.
func closeAtEnd(t testing.TB, name string, server ending) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the log of this test's %s:\n%s", name, server.LogTail())
		}
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout) // the test's own is over
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Errorf("storetest: %v", err)
		}
	})
}
