// Package world is what faults are done to: Holdfast servers on private stores, as processes of their own, with a link that
// can fail between any two of them.
package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-inventory/holdfast/store/local"
)

// ApplicationName tells our sessions of Postgres from the servers'.
const ApplicationName = "faults"

const (
	database     = "holdfast"
	startLimit   = 3 * time.Minute // of everything
	stopPatience = 20 * time.Second
	waitEvery    = 20 * time.Millisecond
)

// Settings are what a world is made of.
type Settings struct {
	Holdfast string // the program
	Servers  int
	Redis    local.RedisOptions
	Sentinel *local.SentinelOptions // Redis with Sentinels; nil: none
	Cluster  *local.ClusterOptions  // Redis as a cluster; nil: it is none
	Replicas int                    // of a Redis alone, each over a link that can fail
	User     string                 // USER:PASSWORD of the servers at a Redis alone; empty: none is needed
	Flags    []string               // of each server

	SmallDisk bool // of Redis: a file system of 16 MB, for which one has to be root
	Clock     bool // of Redis: one that MoveClock moves, for which a C compiler is needed
}

// World is the programs and the links.
type World struct {
	Settings

	Redis    *local.Redis         // nil where there are several
	Sentinel *local.RedisSentinel // nil: Redis is not deployed so
	Cluster  *local.RedisCluster  // likewise
	Postgres *local.Postgres
	Servers  []*Server
	Replicas []*Replica
	// Client talks to Redis past every link: to its master, or to the master that has a key. Its errors are those of Redis.
	Client goredis.UniversalClient

	clock    *clock
	cleanups []func() error // of what is no program
}

// New starts everything.
func New(ctx context.Context, s Settings) (_ *World, err error) {
	w := &World{Settings: s}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not everything had started after %v", startLimit))
	defer cancel()
	defer func() {
		if err != nil {
			err = errors.Join(context.Cause(ctx), err, w.Close()) //nolint:contextcheck // what was started is stopped, though ctx may be done
		}
	}()
	if err := w.furnish(ctx); err != nil {
		return w, err
	}
	starts, starting := errgroup.WithContext(ctx)
	starts.Go(func() error { return w.startRedis(starting) })
	starts.Go(func() (err error) {
		if w.Postgres, err = local.StartPostgres(starting, local.PostgresOptions{}); err == nil {
			err = w.Postgres.CreateDatabase(starting, database)
		}
		return err
	})
	if err := starts.Wait(); err != nil {
		return w, err
	}
	for range s.Replicas {
		if err := w.replicate(ctx); err != nil {
			return w, err
		}
	}
	for range s.Servers {
		if _, err := w.Add(ctx); err != nil {
			return w, err
		}
	}
	return w, nil
}

// Addresses are where callers turn to.
func (w *World) Addresses() []string {
	var all []string
	for _, s := range w.Servers {
		all = append(all, s.Callers.Addr())
	}
	return all
}

// SQL runs statements on the ledger's database, past every link.
func (w *World) SQL(ctx context.Context, statements string) error {
	conn, err := w.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statements); err != nil {
		return fmt.Errorf("%s: %w", statements, err)
	}
	return nil
}

// Connect opens a session of the ledger's database, past every link.
func (w *World) Connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, w.Postgres.URL(database)+"&application_name="+ApplicationName)
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	return conn, nil
}

// Mend brings everything back that a fault may have left broken: what stands still goes on, what has ended is started.
func (w *World) Mend(ctx context.Context) error {
	w.Postgres.Resume()
	failures := []error{w.mendRedis(ctx)}
	if ended(w.Postgres.Exited()) {
		failures = append(failures, w.Postgres.Restart(ctx))
	}
	for _, s := range w.Servers {
		for _, l := range s.links() {
			failures = append(failures, l.Heal())
		}
		if s.Running() {
			failures = append(failures, s.Resume())
		} else {
			failures = append(failures, s.Start(ctx))
		}
	}
	return errors.Join(failures...)
}

func ended(exited <-chan struct{}) bool {
	select {
	case <-exited:
		return true
	default:
		return false
	}
}

// Close ends everything, the servers first. Every step is taken, even if one fails.
func (w *World) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	var all errgroup.Group
	for _, s := range w.Servers {
		all.Go(func() error {
			if !s.Running() {
				return nil
			}
			_ = s.Resume() // it may be ending
			return s.Stop(stopPatience)
		})
	}
	failures := []error{all.Wait()}
	for _, s := range w.Servers {
		for _, l := range s.links() {
			l.Close()
		}
	}
	failures = append(failures, w.closeRedis(ctx))
	if w.Postgres != nil {
		failures = append(failures, w.Postgres.Close(ctx))
	}
	for _, cleanup := range slices.Backward(w.cleanups) {
		failures = append(failures, cleanup())
	}
	return errors.Join(failures...)
}
