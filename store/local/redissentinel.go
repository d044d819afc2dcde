package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	sentinels        = 3
	sentinelQuorum   = 2
	masterName       = "holdfast"
	defaultDownAfter = 500 * time.Millisecond
)

// SentinelOptions says how a master with replicas is started, and the three Sentinels that watch them.
type SentinelOptions struct {
	Replicas  int           // of the one master
	DownAfter time.Duration // a server silent for so long is taken for down; 0: 500 ms
	Redis     RedisOptions  // of the master and of each replica; Dir and Port must be empty
}

// RedisSentinel is a private master with its replicas and three Sentinels. After a failover the servers have other
// roles, and keep them over a Restart.
type RedisSentinel struct {
	Servers   []*Redis // the first is the master at the start
	Sentinels []*Sentinel
}

// Sentinel is one private Sentinel; its methods are those of Redis but for the URL.
type Sentinel struct{ server }

// StartSentinel returns when the replicas are in step with the master and the Sentinels know all of them and each
// other, so that a failover would begin at once. ctx bounds the start alone.
func StartSentinel(ctx context.Context, opts SentinelOptions) (*RedisSentinel, error) {
	s := &RedisSentinel{}
	if err := s.start(ctx, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("start a sentinel set: %w", err), s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *RedisSentinel) start(ctx context.Context, opts SentinelOptions) error {
	if opts.DownAfter == 0 {
		opts.DownAfter = defaultDownAfter
	}
	for i := range opts.Replicas + 1 {
		config := "# the master at the start\n"
		if i > 0 {
			config = fmt.Sprintf("replicaof 127.0.0.1 %d\n", s.Servers[0].port)
		}
		// Quick to be in step again, and quick to notice that WAIT's time is over.
		quick := func(int) []string { return []string{"--repl-diskless-sync-delay", "0", "--hz", "100"} }
		r, err := startRedis(ctx, opts.Redis, redisRole{config: config, args: quick})
		if err != nil {
			return err
		}
		s.Servers = append(s.Servers, r)
	}
	if err := poll(ctx, startPatience, func() error { return replicasInStep(ctx, s.Servers[1:]) }); err != nil {
		return err
	}
	for range sentinels {
		node, err := startSentinel(ctx, s.Servers[0].port, opts)
		if err != nil {
			return err
		}
		s.Sentinels = append(s.Sentinels, node)
	}
	return poll(ctx, startPatience, func() error { return s.acquainted(ctx, opts.Replicas) })
}

func startSentinel(ctx context.Context, master int, opts SentinelOptions) (*Sentinel, error) {
	binary, err := findRedis()
	if err != nil {
		return nil, err
	}
	down := opts.DownAfter.Milliseconds()
	config := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d\n", masterName, master, sentinelQuorum) +
		fmt.Sprintf("sentinel down-after-milliseconds %s %d\n", masterName, down) +
		fmt.Sprintf("sentinel failover-timeout %s %d\n", masterName, 6*down) +
		fmt.Sprintf("sentinel parallel-syncs %s %d\n", masterName, max(1, opts.Replicas))
	n := &Sentinel{}
	n.spec = spec{
		name:   "sentinel",
		binary: binary,
		users:  []string{"redis", "nobody"},
		stop:   syscall.SIGTERM,
		args: func(data string, port int) []string {
			return []string{
				data + "/" + configFile, "--sentinel", "--bind", "127.0.0.1", "--port", fmt.Sprint(port),
				"--daemonize", "no", "--logfile", "", "--dir", data,
			}
		},
		prepare: func(context.Context, runner) error { return n.folder.makeConfig(config) },
		ready:   n.redisReady,
	}
	if err := n.open(ctx, "", 0, opts.Redis.Log); err != nil {
		return nil, err
	}
	return n, nil
}

// acquainted returns nil once each Sentinel knows the replicas and the other Sentinels.
func (s *RedisSentinel) acquainted(ctx context.Context, replicas int) error {
	for _, n := range s.Sentinels {
		client := ask(n.Addr())
		seen := redis.NewMapStringStringCmd(ctx, "sentinel", "master", masterName)
		err := client.Process(ctx, seen)
		_ = client.Close() // it was only read from
		if err != nil {
			return fmt.Errorf("ask a sentinel: %w", err)
		}
		m := seen.Val()
		if m["flags"] != "master" || number(m["num-slaves"]) != replicas || number(m["num-other-sentinels"]) != sentinels-1 {
			return fmt.Errorf("a sentinel sees %s with %s replicas and %s other sentinels", m["flags"], m["num-slaves"], m["num-other-sentinels"])
		}
	}
	return nil
}

// URL names database 0 of the master by way of the Sentinels, in the form that `holdfast serve --redis-url` takes.
func (s *RedisSentinel) URL() string {
	addrs := make([]string, len(s.Sentinels))
	for i, n := range s.Sentinels {
		addrs[i] = n.Addr()
	}
	return "redis-sentinel://" + strings.Join(addrs, ",") + "/" + masterName + "?db=0"
}

// Master is the server that the first Sentinel that answers calls the master now.
func (s *RedisSentinel) Master(ctx context.Context) (*Redis, error) {
	err := errors.New("no sentinels")
	for _, n := range s.Sentinels {
		client := redis.NewSentinelClient(ask(n.Addr()).Options())
		var named []string
		named, err = client.GetMasterAddrByName(ctx, masterName).Result()
		_ = client.Close() // it was only read from
		if err != nil {
			continue
		}
		for _, r := range s.Servers {
			if loopback(number(named[1])) == r.Addr() {
				return r, nil
			}
		}
		return nil, fmt.Errorf("sentinel names %v, which is none of ours", named)
	}
	return nil, fmt.Errorf("ask for the master: %w", err)
}

// Failover makes the Sentinels promote a replica although the master is well. It returns when they have begun.
func (s *RedisSentinel) Failover(ctx context.Context) error {
	client := redis.NewSentinelClient(ask(s.Sentinels[0].Addr()).Options())
	defer client.Close()
	if err := client.Failover(ctx, masterName).Err(); err != nil {
		return fmt.Errorf("failover: %w", err)
	}
	return nil
}

// Rejoin starts a server again that has ended, as a replica of whoever is the master now, as start scripts do that ask the
// Sentinels. A Restart leaves that to the Sentinels, who take some 10 s for it. The server begins as a replica of itself, so
// that it is no master for a moment either.
func (s *RedisSentinel) Rejoin(ctx context.Context, r *Redis) error {
	if err := r.folder.appendConfig(fmt.Sprintf("replicaof 127.0.0.1 %d\n", r.port)); err != nil {
		return err
	}
	if err := r.Restart(ctx); err != nil {
		return err
	}
	return s.Follow(ctx, r)
}

// Follow makes a server a replica of whoever is the master now. It follows at once; the master that its configuration names
// when it starts, Redis 7.0 looks for only a second later.
func (s *RedisSentinel) Follow(ctx context.Context, r *Redis) error {
	master, err := s.Master(ctx)
	if err != nil {
		return err
	}
	client := ask(r.Addr())
	defer client.Close()
	if err := errors.Join(client.ReplicaOf(ctx, "127.0.0.1", fmt.Sprint(master.port)).Err(), client.ConfigRewrite(ctx).Err()); err != nil {
		return fmt.Errorf("make a replica of a server: %w", err)
	}
	return nil
}

// Close stops all of it, the Sentinels first, and removes the folders.
func (s *RedisSentinel) Close(ctx context.Context) error {
	var errs []error
	for _, n := range s.Sentinels {
		errs = append(errs, n.Close(ctx))
	}
	return errors.Join(append(errs, closeAll(ctx, s.Servers))...)
}

// LogTail returns the ends of the logs, for the message of a failed test.
func (s *RedisSentinel) LogTail() string {
	var text strings.Builder
	for _, n := range s.Sentinels {
		text.WriteString("sentinel " + n.Addr() + ":\n" + n.LogTail() + "\n")
	}
	return text.String() + logTails(s.Servers)
}

// closeAll kills what is a replica or not needed any more: nothing of it is kept.
func closeAll(ctx context.Context, servers []*Redis) error {
	var errs []error
	for _, r := range servers {
		r.Kill()
	}
	for _, r := range servers {
		errs = append(errs, r.Close(ctx))
	}
	return errors.Join(errs...)
}

func logTails(servers []*Redis) string {
	var text strings.Builder
	for _, r := range servers {
		text.WriteString("redis " + r.Addr() + ":\n" + r.LogTail() + "\n")
	}
	return text.String()
}

// replicasInStep returns nil once each of these has its master's data.
func replicasInStep(ctx context.Context, replicas []*Redis) error {
	for _, r := range replicas {
		client := ask(r.Addr())
		info, err := client.Info(ctx, "replication").Result()
		_ = client.Close() // it was only read from
		if err != nil {
			return fmt.Errorf("ask a replica: %w", err)
		}
		if !strings.Contains(info, "master_link_status:up") {
			return errors.New("a replica is not in step with its master")
		}
	}
	return nil
}
