package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/local/link"
)

// Replica is one of the world's Redis.
type Replica struct {
	*local.Redis

	ToMaster *link.Link
}

// talkLimit is how long one who looks past the links waits for a Redis, which may stand still.
const talkLimit = time.Second

// syncPatience is for replicas; a Sentinel that stood still itself does nothing for 30 s.
const syncPatience = time.Minute

// Talk is a client of a Redis past every link.
func Talk(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: talkLimit,
	})
}

// startRedis starts Redis as it is deployed in this world.
func (w *World) startRedis(ctx context.Context) (err error) {
	switch {
	case w.Settings.Sentinel != nil:
		options := *w.Settings.Sentinel
		options.Redis = w.Settings.Redis
		if w.Sentinel, err = local.StartSentinel(ctx, options); err == nil {
			w.Client, err = followMaster(w.Sentinel)
		}
	case w.Settings.Cluster != nil:
		options := *w.Settings.Cluster
		options.Redis = w.Settings.Redis
		if w.Cluster, err = local.StartRedisCluster(ctx, options); err == nil {
			w.Client = followSlots(w.Cluster)
		}
	default:
		if w.Redis, err = local.StartRedis(ctx, w.Settings.Redis); err == nil {
			w.Client = Talk(w.Redis.Addr())
		}
	}
	return err
}

// followMaster is a client of whoever the Sentinels call the master.
func followMaster(set *local.RedisSentinel) (*goredis.Client, error) {
	u, err := url.Parse(set.URL())
	if err != nil {
		return nil, err
	}
	return goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: strings.Trim(u.Path, "/"), SentinelAddrs: strings.Split(u.Host, ","),
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: talkLimit,
	}), nil
}

func followSlots(c *local.RedisCluster) *goredis.ClusterClient {
	var addrs []string
	for _, r := range c.Nodes() {
		addrs = append(addrs, r.Addr())
	}
	return goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: addrs, Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true, ReadTimeout: talkLimit,
	})
}

// Master is the Redis that has an allotment now, as Sentinels or the cluster name it.
func (w *World) Master(ctx context.Context, allotment string) (*local.Redis, error) {
	switch {
	case w.Sentinel != nil:
		return w.Sentinel.Master(ctx)
	case w.Cluster != nil:
		slot, err := w.Slot(ctx, allotment)
		if err != nil {
			return nil, err
		}
		return w.Cluster.Owner(ctx, slot)
	default:
		return w.Redis, nil
	}
}

// Slot is where a cluster keeps an allotment that is a group of its own.
func (w *World) Slot(ctx context.Context, allotment string) (int, error) {
	slot, err := w.Client.ClusterKeySlot(ctx, "{"+allotment+"}").Result()
	if err != nil {
		return 0, fmt.Errorf("ask for a slot: %w", err)
	}
	return int(slot), nil
}

// nodes are all Redis servers.
func (w *World) nodes() []*local.Redis {
	var all []*local.Redis
	switch {
	case w.Sentinel != nil:
		all = slices.Clone(w.Sentinel.Servers)
	case w.Cluster != nil:
		all = w.Cluster.Nodes()
	case w.Redis != nil:
		all = []*local.Redis{w.Redis}
	}
	for _, r := range w.Replicas {
		all = append(all, r.Redis)
	}
	return all
}

// mendRedis brings every Redis back.
func (w *World) mendRedis(ctx context.Context) error {
	var failures []error
	for _, r := range w.nodes() {
		r.Resume()
		if ended(r.Exited()) {
			failures = append(failures, r.Restart(ctx))
		}
	}
	if w.Sentinel != nil {
		for _, s := range w.Sentinel.Sentinels {
			s.Resume()
		}
	}
	for _, r := range w.Replicas {
		failures = append(failures, r.ToMaster.Heal())
	}
	return errors.Join(failures...)
}

// closeRedis ends every Redis.
func (w *World) closeRedis(ctx context.Context) error {
	var failures []error
	if w.Client != nil {
		failures = append(failures, w.Client.Close())
	}
	for _, r := range w.Replicas {
		r.ToMaster.Close()
		failures = append(failures, r.Close(ctx))
	}
	switch {
	case w.Sentinel != nil:
		failures = append(failures, w.Sentinel.Close(ctx))
	case w.Cluster != nil:
		failures = append(failures, w.Cluster.Close(ctx))
	case w.Redis != nil:
		failures = append(failures, w.Redis.Close(ctx))
	}
	return errors.Join(failures...)
}

// replicate starts one more replica, and returns when it has what the master has.
func (w *World) replicate(ctx context.Context) error {
	toMaster, err := link.New(w.Redis.Addr())
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(toMaster.Addr())
	if err != nil {
		return err
	}
	options := w.Settings.Redis
	options.ExtraArgs = append(slices.Clone(options.ExtraArgs), "--replicaof", host, port)
	replica, err := local.StartRedis(ctx, options)
	if err != nil {
		toMaster.Close()
		return err
	}
	w.Replicas = append(w.Replicas, &Replica{Redis: replica, ToMaster: toMaster})
	return w.InStep(ctx, replica)
}

// InStep waits until a replica is connected to its master.
func (w *World) InStep(ctx context.Context, replica *local.Redis) error {
	client := Talk(replica.Addr())
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, syncPatience)
	defer cancel()
	for {
		info, err := client.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(info, "master_link_status:up") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("a replica did not get in step: %w", cmp.Or(err, ctx.Err()))
		case <-time.After(waitEvery):
		}
	}
}
