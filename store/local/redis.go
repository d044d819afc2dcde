package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
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
	return startRedis(ctx, opts, redisRole{})
}

// redisRole is what makes a Redis part of a set of servers.
type redisRole struct {
	config string                  // what its configuration file begins with; empty: it has none
	args   func(port int) []string // more arguments; nil: none
}

func startRedis(ctx context.Context, opts RedisOptions, role redisRole) (*Redis, error) {
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
			args := command[1:len(command):len(command)]
			if role.config != "" {
				args = append(args, filepath.Join(data, configFile))
			}
			if role.args != nil {
				args = append(args, role.args(port)...)
			}
			return append(args, opts.args(data, port)...)
		},
		ready: r.redisReady,
	}
	if role.config != "" {
		r.spec.prepare = func(context.Context, runner) error { return r.folder.makeConfig(role.config) }
	}
	if err := r.open(ctx, opts.Dir, opts.Port, opts.Log); err != nil {
		return nil, err
	}
	return r, nil
}

// URL names database 0, in the form that `holdfast serve --redis-url` takes.
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

// configFile is in the data folder: the server rewrites it when its role changes, so that a restart keeps the role.
const configFile = "server.conf"

// makeConfig makes the configuration file, unless there is one from an earlier start.
func (f *folder) makeConfig(text string) error {
	path := filepath.Join(f.data, configFile)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if os.IsExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	return f.give(path)
}

// appendConfig adds to a configuration file; of settings that are there twice the last one counts.
func (f *folder) appendConfig(text string) error {
	file, err := os.OpenFile(filepath.Join(f.data, configFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	return nil
}

// redisReady asks for the process id, since on a port that we lost to another Redis that one would answer.
func (s *server) redisReady(ctx context.Context, pid int) error {
	// go-redis logs each failed dial, and while a server starts they all fail.
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp4", s.Addr())
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	_ = conn.Close() // nothing was sent
	client := ask(s.Addr())
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

// ask makes a client for a few questions; it tries each once.
func ask(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: 1,
		DialerRetries: 1, DialTimeout: time.Second, ReadTimeout: time.Second, ContextTimeoutEnabled: true,
	})
}
