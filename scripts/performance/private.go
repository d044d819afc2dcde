package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-inventory/holdfast/cmd/launch/program"
	"github.com/holdfast-inventory/holdfast/store/local"
)

const closePatience = 30 * time.Second

// private is servers on stores of their own, as `holdfast dev --ephemeral` has them: Redis keeps no file, and Postgres does
// not wait for the disk. They end with us.
type private struct {
	redis    *local.Redis
	postgres *local.Postgres
	servers  []*program.Server
}

// open starts stores and so many servers on them.
func open(ctx context.Context, holdfast string, servers int) (_ *private, err error) {
	p := &private{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close()) //nolint:contextcheck // what was started is stopped, though ctx may be done
		}
	}()
	starts, starting := errgroup.WithContext(ctx)
	starts.Go(func() (err error) {
		p.redis, err = local.StartRedis(starting, local.RedisOptions{})
		return err
	})
	starts.Go(func() (err error) {
		p.postgres, err = local.StartPostgres(starting, local.PostgresOptions{})
		return err
	})
	if err := starts.Wait(); err != nil {
		return p, err
	}
	stores := program.Stores{PostgresURL: p.postgres.URL("postgres"), RedisURL: p.redis.URL()}
	for range servers {
		server, err := program.Serve(ctx, holdfast, stores, program.Settings{})
		if err != nil {
			return p, err
		}
		p.servers = append(p.servers, server)
	}
	return p, nil
}

// close stops everything, the servers first. Every step is taken, even if one fails.
func (p *private) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	var failures []error
	for _, s := range p.servers {
		failures = append(failures, s.Stop(closePatience))
	}
	if p.redis != nil {
		failures = append(failures, p.redis.Close(ctx))
	}
	if p.postgres != nil {
		failures = append(failures, p.postgres.Close(ctx))
	}
	return errors.Join(failures...)
}

// flags tell launch where the servers are, and whose CPU time to read. There is a place for one server's.
func (p *private) flags() []string {
	var addresses []string
	for _, s := range p.servers {
		addresses = append(addresses, s.Addr())
	}
	return []string{
		"--addr=" + strings.Join(addresses, ","),
		fmt.Sprintf("--server-pid=%d", p.servers[0].PID()), fmt.Sprintf("--redis-pid=%d", p.redis.PID()),
	}
}
