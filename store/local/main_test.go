package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// helperVariable makes this test binary a process that starts both servers in the named folder and waits to be killed.
const (
	helperVariable = "HOLDFAST_LOCAL_TEST_HELPER"
	pauseVariable  = "HOLDFAST_LOCAL_TEST_PAUSE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperVariable); dir != "" {
		if err := helper(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		select {} // until killed
	}
	storetest.Main(m)
}

// started is what the helper process reports of itself.
type started struct {
	RedisPID, PostgresPID int
}

func helper(dir string) error {
	ctx := context.Background()
	r, err := local.StartRedis(ctx, local.RedisOptions{Dir: dir, Persist: true})
	if err != nil {
		return err
	}
	p, err := local.StartPostgres(ctx, local.PostgresOptions{Dir: dir})
	if err != nil {
		return err
	}
	if err := redisClient(r).Set(ctx, "kept", "yes", 0).Err(); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, p.URL("postgres")) // stays open: a session must not delay the end
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS kept (n int)"); err != nil {
		return err
	}
	if os.Getenv(pauseVariable) != "" {
		if err := r.Pause(); err != nil {
			return err
		}
		if err := p.Pause(); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(started{RedisPID: r.PID(), PostgresPID: p.PID()})
}

func redisClient(r *local.Redis) *redis.Client {
	opts, err := redis.ParseURL(r.URL())
	if err != nil {
		panic(err) // a wrong URL is a bug of this package
	}
	opts.Protocol, opts.MaxRetries, opts.ContextTimeoutEnabled = 2, -1, true
	return redis.NewClient(opts)
}

func client(t *testing.T, r *local.Redis) *redis.Client {
	t.Helper()
	c := redisClient(r)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// gone returns an error while a process runs; one that only waits to be reaped does not.
func gone(pid int) error {
	status, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "status"))
	if err == nil && !strings.Contains(string(status), "State:\tZ") {
		return fmt.Errorf("process %d still runs:\n%s", pid, status)
	}
	return nil
}

func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}
