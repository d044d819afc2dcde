package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterMasters     = 3
	slots              = 1 << 14
	defaultNodeTimeout = time.Second
	// busDistance is from a node's port to that of the link among the nodes: the usual one would lead into the range
	// of outgoing connections.
	busDistance = -10_000
)

// ClusterOptions says how a Redis Cluster of three masters is started.
type ClusterOptions struct {
	Replicas    int           // of each master
	NodeTimeout time.Duration // a node silent for so long is taken for down; 0: 1 s
	Redis       RedisOptions  // of each node; Dir and Port must be empty
}

// RedisCluster is a private Redis Cluster. The masters have a third of the slots each at the start; roles are kept
// over a Restart.
type RedisCluster struct {
	Masters  []*Redis // at the start
	Replicas []*Redis // at the start; number i is one of master i modulo 3
}

// StartRedisCluster returns when every node says that the cluster is whole, and the replicas are in step. ctx bounds
// the start alone.
func StartRedisCluster(ctx context.Context, opts ClusterOptions) (*RedisCluster, error) {
	c := &RedisCluster{}
	if err := c.start(ctx, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("start a cluster: %w", err), c.Close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *RedisCluster) start(ctx context.Context, opts ClusterOptions) error {
	if opts.NodeTimeout == 0 {
		opts.NodeTimeout = defaultNodeTimeout
	}
	role := redisRole{args: func(port int) []string {
		return []string{
			"--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(port + busDistance),
			"--cluster-node-timeout", fmt.Sprint(opts.NodeTimeout.Milliseconds()),
			"--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0", "--hz", "100",
		}
	}}
	for range clusterMasters * (1 + opts.Replicas) {
		r, err := startRedis(ctx, opts.Redis, role)
		if err != nil {
			return err
		}
		if len(c.Masters) < clusterMasters {
			c.Masters = append(c.Masters, r)
		} else {
			c.Replicas = append(c.Replicas, r)
		}
	}
	if err := c.form(ctx); err != nil {
		return err
	}
	return c.attach(ctx)
}

// Nodes are all of them, the masters first.
func (c *RedisCluster) Nodes() []*Redis {
	return append(c.Masters[:len(c.Masters):len(c.Masters)], c.Replicas...)
}

// form gives the slots to the masters and makes all nodes known to each other.
func (c *RedisCluster) form(ctx context.Context) error {
	for i, r := range c.Nodes() {
		client := ask(r.Addr())
		defer client.Close()
		if err := client.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return fmt.Errorf("set an epoch: %w", err)
		}
		if i < len(c.Masters) {
			first, last := i*slots/clusterMasters, (i+1)*slots/clusterMasters-1
			if err := client.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
				return fmt.Errorf("give slots: %w", err)
			}
		}
		first := c.Masters[0].port
		if err := client.Do(ctx, "cluster", "meet", "127.0.0.1", first, first+busDistance).Err(); err != nil {
			return fmt.Errorf("introduce a node: %w", err)
		}
	}
	return poll(ctx, startPatience, func() error { return c.Whole(ctx) })
}

// attach makes the replicas such.
func (c *RedisCluster) attach(ctx context.Context) error {
	for i, r := range c.Replicas {
		id, err := nodeID(ctx, c.Masters[i%clusterMasters])
		if err != nil {
			return err
		}
		client := ask(r.Addr())
		err = client.ClusterReplicate(ctx, id).Err()
		_ = client.Close() // it has answered
		if err != nil {
			return fmt.Errorf("attach a replica: %w", err)
		}
	}
	return poll(ctx, startPatience, func() error {
		return errors.Join(replicasInStep(ctx, c.Replicas), c.Whole(ctx))
	})
}

func nodeID(ctx context.Context, r *Redis) (string, error) {
	client := ask(r.Addr())
	defer client.Close()
	id, err := client.ClusterMyID(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("ask for a node's id: %w", err)
	}
	return id, nil
}

// Whole returns nil while every node that runs knows all nodes, and says that all slots are served.
func (c *RedisCluster) Whole(ctx context.Context) error {
	for _, r := range c.Nodes() {
		if r.proc.Load().ended() {
			continue
		}
		client := ask(r.Addr())
		info, err := client.ClusterInfo(ctx).Result()
		_ = client.Close() // it was only read from
		if err != nil {
			return fmt.Errorf("ask a node: %w", err)
		}
		for _, want := range []string{
			"cluster_state:ok", fmt.Sprint("cluster_slots_ok:", slots), fmt.Sprint("cluster_known_nodes:", len(c.Nodes())),
		} {
			if !strings.Contains(info, want+"\r\n") {
				return fmt.Errorf("node %s does not say %s", r.Addr(), want)
			}
		}
	}
	return nil
}

// Owner is the node that has a slot, as the first node that answers sees it.
func (c *RedisCluster) Owner(ctx context.Context, slot int) (*Redis, error) {
	err := errors.New("no nodes")
	for _, r := range c.Nodes() {
		client := ask(r.Addr())
		var ranges []redis.ClusterSlot
		ranges, err = client.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS came with 7.0
		_ = client.Close()                              // it was only read from
		if err != nil {
			continue
		}
		for _, owned := range ranges {
			if owned.Start <= slot && slot <= owned.End && len(owned.Nodes) > 0 {
				return c.at(owned.Nodes[0].Addr)
			}
		}
		return nil, fmt.Errorf("slot %d has no owner", slot)
	}
	return nil, fmt.Errorf("ask for a slot's owner: %w", err)
}

func (c *RedisCluster) at(addr string) (*Redis, error) {
	for _, r := range c.Nodes() {
		if r.Addr() == addr {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%s is none of ours", addr)
}

// MoveSlot gives a slot with its keys to another node, as resharding does: while the keys move, it is on neither or
// on both.
func (c *RedisCluster) MoveSlot(ctx context.Context, slot int, to *Redis) error {
	from, err := c.Owner(ctx, slot)
	if err != nil {
		return err
	}
	if from == to {
		return nil
	}
	fromID, err := nodeID(ctx, from)
	if err != nil {
		return err
	}
	toID, err := nodeID(ctx, to)
	if err != nil {
		return err
	}
	source, target := ask(from.Addr()), ask(to.Addr())
	defer source.Close()
	defer target.Close()
	if err := target.Do(ctx, "cluster", "setslot", slot, "importing", fromID).Err(); err != nil {
		return fmt.Errorf("move slot %d: %w", slot, err)
	}
	if err := source.Do(ctx, "cluster", "setslot", slot, "migrating", toID).Err(); err != nil {
		return fmt.Errorf("move slot %d: %w", slot, err)
	}
	if err := moveKeys(ctx, source, slot, to); err != nil {
		return fmt.Errorf("move slot %d: %w", slot, err)
	}
	for _, client := range []*redis.Client{target, source} { // the new owner first: one that has no owner loses writes
		if err := client.Do(ctx, "cluster", "setslot", slot, "node", toID).Err(); err != nil {
			return fmt.Errorf("move slot %d: %w", slot, err)
		}
	}
	return nil
}

func moveKeys(ctx context.Context, source *redis.Client, slot int, to *Redis) error {
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, slot, 100).Result()
		if err != nil || len(keys) == 0 {
			return err
		}
		args := []any{"migrate", "127.0.0.1", to.port, "", 0, 5000, "keys"}
		for _, key := range keys {
			args = append(args, key)
		}
		if err := source.Do(ctx, args...).Err(); err != nil {
			return err
		}
	}
}

// URL names the cluster by its masters, in the form that `holdfast serve --redis-url` takes.
func (c *RedisCluster) URL() string {
	addrs := make([]string, len(c.Masters))
	for i, r := range c.Masters {
		addrs[i] = r.Addr()
	}
	return "redis-cluster://" + strings.Join(addrs, ",")
}

// Close stops all nodes and removes their folders.
func (c *RedisCluster) Close(ctx context.Context) error { return closeAll(ctx, c.Nodes()) }

// LogTail returns the ends of the logs, for the message of a failed test.
func (c *RedisCluster) LogTail() string { return logTails(c.Nodes()) }
