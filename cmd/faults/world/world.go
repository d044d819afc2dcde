// Package world is what faults are done to: Holdfast servers on private stores, as processes of their own, with a link that
// can fail between any two of them.
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

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-inventory/holdfast/cmd/launch/program"
	"github.com/holdfast-inventory/holdfast/store/local"
)

// ApplicationName tells our sessions of Postgres from the servers'.
const ApplicationName = "faults"

const (
	database     = "holdfast"
	stopPatience = 20 * time.Second
	waitEvery    = 20 * time.Millisecond
)

// Settings are what a world is made of.
type Settings struct {
	Holdfast string // the program
	Servers  int
	Redis    local.RedisOptions
	Replicas int      // of that Redis, each over a link that can fail
	User     string   // USER:PASSWORD of the servers at Redis; empty: none is needed
	Flags    []string // of each server

	SmallDisk bool // of Redis: a file system of 16 MB, for which one has to be root
	Clock     bool // of Redis: one that MoveClock moves, for which a C compiler is needed
}

// World is the programs and the links.
type World struct {
	Settings

	Redis    *local.Redis
	Postgres *local.Postgres
	Servers  []*Server
	Replicas []*Replica
	// Client talks to Redis past every link. Its errors are those of Redis.
	Client *goredis.Client

	clock    *clock
	cleanups []func() error // of what is no program
}

// Server is one Holdfast, which may be ended and started again.
type Server struct {
	*program.Server

	Callers, ToRedis, ToPostgres *Link
	Environment                  []string
	Program                      string // another than the world's; empty: that one

	world *World
}

// Replica is one of the world's Redis.
type Replica struct {
	*local.Redis

	ToMaster *Link
}

// New starts everything.
func New(ctx context.Context, s Settings) (_ *World, err error) {
	w := &World{Settings: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close()) //nolint:contextcheck // what was started is stopped, though ctx may be done
		}
	}()
	if err := w.furnish(ctx); err != nil {
		return w, err
	}
	starts, starting := errgroup.WithContext(ctx)
	starts.Go(func() (err error) {
		w.Redis, err = local.StartRedis(starting, w.Settings.Redis)
		return err
	})
	starts.Go(func() (err error) {
		if w.Postgres, err = local.StartPostgres(starting, local.PostgresOptions{}); err == nil {
			err = w.Postgres.CreateDatabase(starting, database)
		}
		return err
	})
	if err := starts.Wait(); err != nil {
		return w, err
	}
	w.Client = Talk(w.Redis.Addr())
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

// Talk is a client of a Redis past every link.
func Talk(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true})
}

// replicate starts one more replica, and returns when it has what the master has.
func (w *World) replicate(ctx context.Context) error {
	link, err := NewLink(w.Redis.Addr())
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(link.Addr())
	if err != nil {
		return err
	}
	options := w.Settings.Redis
	options.ExtraArgs = append(slices.Clone(options.ExtraArgs), "--replicaof", host, port)
	replica, err := local.StartRedis(ctx, options)
	if err != nil {
		link.Close()
		return err
	}
	w.Replicas = append(w.Replicas, &Replica{Redis: replica, ToMaster: link})
	return w.inStep(ctx, replica)
}

// inStep waits until a replica is connected to its master.
func (w *World) inStep(ctx context.Context, replica *local.Redis) error {
	client := Talk(replica.Addr())
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
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

// Add starts one more server.
func (w *World) Add(ctx context.Context) (*Server, error) {
	s := &Server{world: w}
	for _, l := range []struct {
		link **Link
		to   string
	}{{&s.ToRedis, w.Redis.Addr()}, {&s.ToPostgres, w.Postgres.Addr()}} {
		link, err := NewLink(l.to)
		if err != nil {
			return nil, err
		}
		*l.link = link
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	link, err := NewLink(s.Addr())
	if err != nil {
		return nil, err
	}
	s.Callers = link
	w.Servers = append(w.Servers, s)
	return s, nil
}

// Start starts a server that has ended, for callers at the same address.
func (s *Server) Start(ctx context.Context) error {
	started, err := program.Serve(ctx, cmp.Or(s.Program, s.world.Holdfast), s.stores(), program.Settings{
		Flags: s.world.Flags, Environment: s.Environment,
	})
	if err != nil {
		return err
	}
	s.Server = started
	if s.Callers == nil {
		return nil
	}
	return s.Callers.Lead(s.Addr())
}

func (s *Server) stores() program.Stores {
	user := s.world.User
	if user != "" {
		user += "@"
	}
	return program.Stores{
		RedisURL: "redis://" + user + s.ToRedis.Addr() + "/0", PostgresURL: through(s.ToPostgres, s.world.Postgres.URL(database)),
	}
}

// through is a URL that leads over a link.
func through(l *Link, text string) string {
	u, err := url.Parse(text)
	if err != nil {
		panic(fmt.Sprintf("a private server's URL: %v", err)) // it is ours
	}
	u.Host = l.Addr()
	return u.String()
}

// Running tells whether the server's process is there.
func (s *Server) Running() bool {
	select {
	case <-s.Ended():
		return false
	default:
		return true
	}
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
	w.Redis.Resume()
	w.Postgres.Resume()
	var failures []error
	if ended(w.Redis.Exited()) {
		failures = append(failures, w.Redis.Restart(ctx))
	}
	if ended(w.Postgres.Exited()) {
		failures = append(failures, w.Postgres.Restart(ctx))
	}
	for _, r := range w.Replicas {
		r.Resume()
		failures = append(failures, r.ToMaster.Heal())
	}
	for _, s := range w.Servers {
		failures = append(failures, s.ToRedis.Heal(), s.ToPostgres.Heal(), s.Callers.Heal())
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
		s.Callers.Close()
		s.ToRedis.Close()
		s.ToPostgres.Close()
	}
	if w.Client != nil {
		failures = append(failures, w.Client.Close())
	}
	for _, r := range w.Replicas {
		r.ToMaster.Close()
		failures = append(failures, r.Close(ctx))
	}
	if w.Redis != nil {
		failures = append(failures, w.Redis.Close(ctx))
	}
	if w.Postgres != nil {
		failures = append(failures, w.Postgres.Close(ctx))
	}
	for _, cleanup := range slices.Backward(w.cleanups) {
		failures = append(failures, cleanup())
	}
	return errors.Join(failures...)
}
