package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/ledger"
	"github.com/holdfast-inventory/holdfast/store/local"
)

const (
	devDatabase  = "holdfast"
	devConns     = 8
	demoID       = "demo"
	demoCapacity = 5
	demoPatience = 30 * time.Second
	demoPause    = 100 * time.Millisecond
)

// devCommand serves on private stores.
type devCommand struct {
	listenSettings `embed:""`
	buyerSettings  `embed:""`
	logSettings    `embed:"" set:"log_format=text"`

	StateDir  string `name:"state-dir" env:"HOLDFAST_STATE_DIR" default:".holdfast" placeholder:"FOLDER" help:"Where the private Redis and Postgres keep their data between runs."`
	Ephemeral bool   `name:"ephemeral" env:"HOLDFAST_EPHEMERAL" help:"Keep nothing: use a temporary folder instead of --state-dir."`

	places places // what is in use
}

func (c *devCommand) check() error {
	if c.StateDir == "" && !c.Ephemeral {
		return usage(c.listenSettings.problems(false), c.buyerSettings.problems(), problem("state-dir", "must not be empty"))
	}
	return usage(c.listenSettings.problems(false), c.buyerSettings.problems())
}

func (c *devCommand) run(ctx context.Context, out, errOut io.Writer) error {
	log := c.logger(errOut)
	app := newApp(appOptions{
		grpcAddr: c.GRPCAddr, httpAddr: c.HTTPAddr, stopTimeout: 5 * time.Second, buyers: c.limit(), log: log, open: c.open,
	})
	if err := app.Run(ctx); err != nil {
		return unlessStopped(ctx, err)
	}
	if err := ensureDemo(ctx, app.backend); err != nil {
		err = errors.Join(fmt.Errorf("demo allotment: %w", err), app.Close()) //nolint:contextcheck // stopping has its own time
		return unlessStopped(ctx, err)
	}
	c.places.grpc, c.places.http = app.GRPCAddr(), app.HTTPAddr()
	printTour(out, c.places)
	return app.wait(ctx)
}

// open starts private stores and joins the use cases with them. They end with this process, however it ends.
func (c *devCommand) open(ctx context.Context, i instruments) (_ *backend, err error) {
	stores := &privateStores{}
	defer func() {
		if err != nil {
			//nolint:contextcheck // what was started is stopped, though ctx may be done
			err = errors.Join(err, stores.stop(context.Background()))
		}
	}()
	if err := stores.start(ctx, c.dir(), i.log); err != nil {
		return nil, err
	}
	c.places = places{redis: stores.redis.Addr(), postgres: stores.postgres.Addr(), data: "a temporary folder, removed at the end"}
	if !c.Ephemeral {
		c.places.data = stores.postgres.Dir() // for root it may be another than --state-dir
	}
	url := stores.postgres.URL(devDatabase)
	if err := stores.postgres.CreateDatabase(ctx, devDatabase); err != nil {
		return nil, err
	}
	if err := ledger.Migrate(ctx, url); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	b, err := openStores(ctx, storeSettings{
		redisURL: stores.redis.URL(), postgresURL: url, maxConns: devConns, retention: 24 * time.Hour,
	}, i)
	if err != nil {
		return nil, err
	}
	b.broken = stores.ended
	closeClients := b.close
	b.close = func(ctx context.Context) error { return errors.Join(closeClients(ctx), stores.stop(ctx)) }
	return b, nil
}

// dir is the state folder; empty: a temporary one.
func (c *devCommand) dir() string {
	if c.Ephemeral {
		return ""
	}
	return c.StateDir
}

// privateStores are children of this process.
type privateStores struct {
	redis    *local.Redis
	postgres *local.Postgres
}

func (p *privateStores) start(ctx context.Context, dir string, log *slog.Logger) error {
	starts, ctx := errgroup.WithContext(ctx)
	starts.Go(func() (err error) {
		p.redis, err = local.StartRedis(ctx, local.RedisOptions{Dir: dir, Persist: dir != "", Log: log})
		return err
	})
	starts.Go(func() (err error) {
		p.postgres, err = local.StartPostgres(ctx, local.PostgresOptions{Dir: dir, Fsync: dir != "", Log: log})
		return err
	})
	return starts.Wait()
}

// ended waits for the end of a child that nobody asked to end.
func (p *privateStores) ended(ctx context.Context) error {
	select {
	case <-p.redis.Exited():
		return errors.New("the private redis-server has ended: start again, its data is kept")
	case <-p.postgres.Exited():
		return errors.New("the private postgres has ended: start again, its data is kept")
	case <-ctx.Done():
		return nil
	}
}

// stop stops what was started, and removes temporary folders.
func (p *privateStores) stop(ctx context.Context) error {
	var stops errgroup.Group
	if p.redis != nil {
		stops.Go(func() error { return p.redis.Close(ctx) })
	}
	if p.postgres != nil {
		stops.Go(func() error { return p.postgres.Close(ctx) })
	}
	return stops.Wait()
}

// ensureDemo creates the demo allotment, unless an earlier run has, and waits until it can be sold.
func ensureDemo(ctx context.Context, b *backend) error {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	for {
		err := tryDemo(ctx, b)
		trouble := errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrResultUnknown) || errors.Is(err, store.ErrRebuilding)
		if !trouble || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(demoPause):
		case <-ctx.Done():
		}
	}
}

func tryDemo(ctx context.Context, b *backend) error {
	_, err := b.operators.Allotment(ctx, demoID)
	if store.Refused(err, store.AllotmentNotFound) != nil {
		_, err = b.operators.CreateAllotment(ctx, store.Allotment{
			Place:    store.Place{Allotment: demoID, Group: demoID},
			Capacity: demoCapacity,
			Rules: store.Rules{
				State: store.StateOpen, LateConfirm: store.LateAccept, HoldDuration: store.DefaultHoldDuration,
				MaxHoldDuration: store.DefaultMaxHoldDuration, MaxPerHold: store.DefaultMaxPerHold,
			},
		})
	}
	if err != nil {
		return err
	}
	_, err = b.checkouts.Availability(ctx, demoID)
	return err
}
