package main

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/holdfast-inventory/holdfast/store/holds"
)

// serveCommand serves on stores that are there.
type serveCommand struct {
	listenSettings   `embed:""`
	databaseSettings `embed:""`
	buyerSettings    `embed:""`
	accessSettings   `embed:""`
	redisTLSSettings `embed:""`
	logSettings      `embed:"" set:"log_format=json"`

	AdminAddr        string        `name:"admin-addr" env:"HOLDFAST_ADMIN_ADDR" placeholder:"HOST:PORT" help:"Where operators' calls (AdminService) are answered instead. Empty: at --grpc-addr."`
	RedisURL         string        `name:"redis-url" env:"HOLDFAST_REDIS_URL" placeholder:"URL" help:"Where holds are kept: redis://USER:PASSWORD@HOST:PORT/DB, redis-sentinel://HOST:PORT,HOST:PORT/MASTER?db=0, or redis-cluster://HOST:PORT,HOST:PORT; rediss in place of redis for TLS. Required."`
	Durability       string        `name:"durability" env:"HOLDFAST_DURABILITY" default:"none" placeholder:"none|fsync|replicas:N" help:"What a decision on a hold waits for: none; fsync, which Redis must be set to (appendfsync always); replicas:N, so many replicas have it."`
	PostgresMaxConns int32         `name:"postgres-max-conns" env:"HOLDFAST_POSTGRES_MAX_CONNS" default:"8" placeholder:"N" help:"Most connections to Postgres for calls; background work has two more."`
	Retention        time.Duration `name:"retention" env:"HOLDFAST_RETENTION" default:"24h" placeholder:"DURATION" help:"How long ended holds can still be read."`
	DrainDelay       time.Duration `name:"drain-delay" env:"HOLDFAST_DRAIN_DELAY" default:"5s" placeholder:"DURATION" help:"How long calls are still taken after a signal to stop, so that callers can turn to others."`
	StopTimeout      time.Duration `name:"stop-timeout" env:"HOLDFAST_STOP_TIMEOUT" default:"10s" placeholder:"DURATION" help:"How long running calls may go on after that."`
}

const (
	minRetention = time.Minute
	maxRetention = 30 * 24 * time.Hour
	maxConns     = 1000
)

func (c *serveCommand) check() error {
	var admin, conns []string
	if c.AdminAddr != "" {
		admin = addressProblems("admin-addr", c.AdminAddr, c.Insecure || c.secure())
	}
	if c.PostgresMaxConns < 1 || c.PostgresMaxConns > maxConns {
		conns = problem("postgres-max-conns", "must be from 1 to 1000")
	}
	return usage(slices.Concat(
		c.listenSettings.problems(c.secure()),
		admin,
		c.accessSettings.problems(),
		c.redisProblems(),
		c.redisTLSSettings.problems(c.RedisURL),
		c.databaseSettings.problems(),
		c.buyerSettings.problems(),
		conns,
		durationProblems("retention", c.Retention, bounds{minRetention, maxRetention}),
		durationProblems("drain-delay", c.DrainDelay, bounds{0, time.Minute}),
		durationProblems("stop-timeout", c.StopTimeout, bounds{time.Second, 5 * time.Minute}),
	))
}

func (c *serveCommand) redisProblems() []string {
	var url, durability []string
	if c.RedisURL == "" {
		url = problem("redis-url", "is required")
	} else if err := holds.CheckURL(c.RedisURL); err != nil {
		url = problem("redis-url", err.Error())
	}
	if _, err := holds.ParseDurability(c.Durability); err != nil {
		durability = problem("durability", err.Error())
	}
	return slices.Concat(url, durability)
}

func (c *serveCommand) run(ctx context.Context, _, errOut io.Writer) error {
	log := c.logger(errOut)
	log.Info("starting", "version", version, "revision", revision,
		"redis", holds.RedactedURL(c.RedisURL), "postgres", redacted(c.PostgresURL))
	durability, err := holds.ParseDurability(c.Durability)
	if err != nil {
		return &settingError{name: "durability", err: err}
	}
	app := newApp(appOptions{
		grpcAddr: c.GRPCAddr, adminAddr: c.AdminAddr, httpAddr: c.HTTPAddr,
		drainDelay: c.DrainDelay, stopTimeout: c.StopTimeout, buyers: c.limit(), access: c.accessSettings, log: log,
		open: func(ctx context.Context, t instruments) (*backend, error) {
			return openStores(ctx, storeSettings{
				redisURL: c.RedisURL, postgresURL: c.PostgresURL, maxConns: c.PostgresMaxConns, retention: c.Retention,
				durability: durability, redisTLS: c.redisTLSSettings,
			}, t)
		},
	})
	if err := app.runUntil(ctx); err != nil {
		log.Error("ended", "error", err) // as every other line, for whoever collects them
		return errLogged
	}
	return nil
}
