package local

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisOptions says how a private Redis is started. Zero values are fine: a Redis in a temporary folder, on a
// free port, that keeps nothing over a restart.
type RedisOptions struct {
	Dir       string       // state folder, made if missing; empty: a temporary one, which Close removes
	Port      int          // 0: a free one
	Persist   bool         // keep data over restarts (append-only file, fsync each second)
	ExtraArgs []string     // more of redis-server's arguments, such as "--hz", "100"; they win over ours
	Under     []string     // a program to run redis-server under, such as a profiler, with its arguments
	Env       []string     // more environment, NAME=value
	Log       *slog.Logger // for a line at the start; nil: none
}

// Redis is a private redis-server. Addr, PID, Dir, Exited, Stop, Close, Kill, Pause, Resume, Restart and LogTail
// are its methods as they are Postgres's.
type Redis struct{ server }

// StartRedis starts a private redis-server and returns when it has loaded its data and answers. ctx bounds the start
// alone. An error carries the end of the server's log; ErrNotInstalled and ErrInUse can be told apart.
func StartRedis(ctx context.Context, opts RedisOptions) (*Redis, error) {
	binary, err := findRedis()
	if err != nil {
		return nil, err
	}
	r := &Redis{}
	command := append(slices.Clone(opts.Under), binary)
	r.spec = spec{
		name:   "redis",
		binary: command[0],
		users:  []string{"redis", "nobody"},
		env:    opts.Env,
		stop:   syscall.SIGTERM,
		args: func(data string, port int) []string {
			return append(command[1:len(command):len(command)], opts.args(data, port)...)
		},
		ready: r.ready,
	}
	if err := r.open(ctx, opts.Dir, opts.Port, opts.Log); err != nil {
		return nil, err
	}
	return r, nil
}

// URL names database 0, in the form that go-redis's ParseURL and `holdfast serve --redis-url` take.
func (r *Redis) URL() string { return "redis://" + r.Addr() + "/0" }

// args are settings without a file, so that no file of the system is read.
func (o RedisOptions) args(data string, port int) []string {
	appendOnly := "no"
	if o.Persist {
		appendOnly = "yes"
	}
	return append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--protected-mode", "yes",
		"--daemonize", "no", "--supervised", "no", "--logfile", "", "--dir", data,
		"--save", "", "--appendonly", appendOnly, "--appendfsync", "everysec",
		"--maxmemory-policy", "noeviction", "--notify-keyspace-events", "Ex",
	}, o.ExtraArgs...)
}

// ready asks for the process id, since on a port that we lost to another Redis that one would answer.
func (r *Redis) ready(ctx context.Context, pid int) error {
	// go-redis logs each failed dial, and while a server starts they all fail.
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp4", r.Addr())
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	_ = conn.Close() // nothing was sent
	client := redis.NewClient(&redis.Options{
		Addr: r.Addr(), Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: 1,
		DialerRetries: 1, DialTimeout: time.Second, ReadTimeout: time.Second, ContextTimeoutEnabled: true,
	})
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("info: %w", err)
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
		return fmt.Errorf("%w: another Redis answers on it", errPortTaken)
	}
	return nil
}
