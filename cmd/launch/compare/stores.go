package compare

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-inventory/holdfast/store/local"
)

const stopPatience = 30 * time.Second

// stores are where all ways keep their stock: private servers, or scratch places on servers that were named.
type stores struct {
	postgresURL, redisURL string
	scratch               string         // names what is ours on a server that was named
	pids                  map[string]int // of private servers
	cleanups              []func(ctx context.Context) error
}

// openStores starts the servers that these ways need, or makes a scratch database.
func openStores(ctx context.Context, c *Command, chosen []way) (_ *stores, err error) {
	s := &stores{scratch: "launch-compare-" + strings.ToLower(rand.Text()[:12]), pids: make(map[string]int), redisURL: c.RedisURL}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close()) //nolint:contextcheck // what was started is stopped, though ctx may be done
		}
	}()
	needed := func(server string) bool {
		return slices.ContainsFunc(chosen, func(w way) bool {
			return slices.Contains(w.uses, server) && (w.name != usesHoldfast || c.Addr == "") // it has its own
		})
	}
	admin, err := s.start(ctx, needed(usesPostgres) && c.PostgresURL == "", needed(usesRedis) && c.RedisURL == "")
	if err == nil && needed(usesPostgres) {
		err = s.createDatabase(ctx, cmp.Or(admin, c.PostgresURL))
	}
	return s, err
}

// start starts private servers, and returns where databases are made. They keep what they are told as they would in
// production: Postgres flushes each commit, Redis writes a file and flushes it each second.
func (s *stores) start(ctx context.Context, wantPostgres, wantRedis bool) (admin string, err error) {
	var redis *local.Redis
	var postgres *local.Postgres
	starts, ctx := errgroup.WithContext(ctx)
	if wantRedis {
		starts.Go(func() (err error) {
			redis, err = local.StartRedis(ctx, local.RedisOptions{Persist: true})
			return err
		})
	}
	if wantPostgres {
		starts.Go(func() (err error) {
			postgres, err = local.StartPostgres(ctx, local.PostgresOptions{Fsync: true})
			return err
		})
	}
	err = starts.Wait()
	if redis != nil {
		s.later(redis.Close)
		s.redisURL, s.pids[usesRedis] = redis.URL(), redis.PID()
	}
	if postgres != nil {
		s.later(postgres.Close)
		admin, s.pids[usesPostgres] = postgres.URL("postgres"), postgres.PID()
	}
	return admin, err
}

func (s *stores) later(cleanup func(ctx context.Context) error) {
	s.cleanups = append(s.cleanups, cleanup)
}

// createDatabase makes the scratch database, which is dropped at the end.
func (s *stores) createDatabase(ctx context.Context, admin string) error {
	name := pgx.Identifier{strings.ReplaceAll(s.scratch, "-", "_")}
	if err := execute(ctx, admin, "CREATE DATABASE "+name.Sanitize()); err != nil {
		return err
	}
	s.later(func(ctx context.Context) error {
		return execute(ctx, admin, "DROP DATABASE "+name.Sanitize()+" WITH (FORCE)")
	})
	u, err := url.Parse(admin)
	if err != nil {
		return errors.New("--postgres-url is not a URL")
	}
	u.Path = "/" + name[0]
	s.postgresURL = u.String()
	return execute(ctx, s.postgresURL, schema)
}

// execute runs statements on a connection of their own.
func execute(ctx context.Context, database, statements string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statements); err != nil {
		return fmt.Errorf("%s: %w", statements, err)
	}
	return nil
}

// close undoes everything in the reverse order. Every step is taken, even if one fails.
func (s *stores) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	var failures []error
	for _, cleanup := range slices.Backward(s.cleanups) {
		failures = append(failures, cleanup(ctx))
	}
	s.cleanups = nil
	return errors.Join(failures...)
}
