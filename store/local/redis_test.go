package local_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestRedisSettings(t *testing.T) {
	t.Parallel()
	dir := storetest.StateDir(t)
	r := storetest.NewRedis(t, local.RedisOptions{Dir: dir, Persist: true, ExtraArgs: []string{"--hz", "50", "--appendfsync", "always"}})
	want := map[string]string{
		"bind": "127.0.0.1", "protected-mode": "yes", "appendonly": "yes", "save": "",
		"maxmemory-policy": "noeviction", "notify-keyspace-events": "xE", "dir": dir + "/redis",
		"daemonize": "no", "hz": "50",
		"appendfsync": "always", // the caller's argument wins
	}
	got := make(map[string]string)
	for name := range want {
		values, err := client(t, r).ConfigGet(t.Context(), name).Result()
		must(t, err)
		got[name] = values[name]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CONFIG GET (-want +got):\n%s", diff)
	}
	info, err := client(t, r).Info(t.Context(), "server").Result()
	must(t, err)
	if !strings.Contains(info, "config_file:\r\n") {
		t.Errorf("a configuration file was read:\n%s", info)
	}
}

func TestRedisKeepsData(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		persist bool
		end     func(t *testing.T, r *local.Redis)
		want    string // the key's value after the restart
	}{
		{"stop", true, func(t *testing.T, r *local.Redis) { must(t, r.Stop(t.Context())) }, "yes"},
		{"kill", true, func(_ *testing.T, r *local.Redis) { r.Kill() }, "yes"},
		{"running", true, func(*testing.T, *local.Redis) {}, "yes"},
		{"kill when paused", true, func(t *testing.T, r *local.Redis) { must(t, r.Pause()); r.Kill() }, "yes"},
		{"stop without persistence", false, func(t *testing.T, r *local.Redis) { must(t, r.Stop(t.Context())) }, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := storetest.NewRedis(t, local.RedisOptions{Persist: test.persist})
			addr, pid := r.Addr(), r.PID()
			must(t, client(t, r).Set(t.Context(), "kept", "yes", 0).Err())
			test.end(t, r)
			must(t, r.Restart(t.Context()))
			if r.Addr() != addr || r.PID() == pid {
				t.Errorf("restarted at %s as process %d, was at %s as %d", r.Addr(), r.PID(), addr, pid)
			}
			got, err := client(t, r).Get(t.Context(), "kept").Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("value after restart: got %q, want %q", got, test.want)
			}
		})
	}
}

func TestRedisPause(t *testing.T) {
	t.Parallel()
	r := storetest.NewRedis(t, local.RedisOptions{})
	c := client(t, r)
	must(t, c.Ping(t.Context()).Err())
	must(t, r.Pause())
	must(t, r.Pause()) // again: nothing
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Ping(short).Err(); err == nil {
		t.Error("a paused Redis answered")
	}
	r.Resume()
	r.Resume() // again: nothing
	must(t, c.Ping(t.Context()).Err())
	must(t, r.Pause())
	must(t, r.Stop(t.Context())) // resumes, and then ends gracefully
	if err := r.Pause(); err == nil {
		t.Error("a Redis that has ended was paused")
	}
}

func TestCloseRemovesTemporaryFolder(t *testing.T) {
	t.Parallel()
	r, err := local.StartRedis(t.Context(), local.RedisOptions{})
	must(t, err)
	must(t, r.Close(t.Context()))
	if _, err := os.Stat(r.Dir()); !os.IsNotExist(err) {
		t.Errorf("folder %s after Close: %v, want none", r.Dir(), err)
	}
	must(t, r.Stop(t.Context())) // again: nothing
}

func TestStopWithoutTimeKills(t *testing.T) {
	t.Parallel()
	r := storetest.NewRedis(t, local.RedisOptions{})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Stop(over); !errors.Is(err, context.Canceled) {
		// It may have been faster than we were to look.
		must(t, err)
	}
	<-r.Exited()
}

func TestStartFailureShowsLog(t *testing.T) {
	t.Parallel()
	_, err := local.StartRedis(t.Context(), local.RedisOptions{ExtraArgs: []string{"--no-such-setting", "1"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("got error %v, want the server's own words", err)
	}
	_, err = local.StartPostgres(t.Context(), local.PostgresOptions{ExtraArgs: []string{"-c", "no_such_setting=1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("got error %v, want the server's own words", err)
	}
}
