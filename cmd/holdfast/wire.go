package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-inventory/holdfast/server"
	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store/holds"
	"github.com/holdfast-inventory/holdfast/store/ledger"
)

// instruments is what everything that is opened reports to.
type instruments struct {
	log    *slog.Logger
	meters metric.MeterProvider
	traces trace.TracerProvider
}

// storeSettings is where the stores are.
type storeSettings struct {
	redisURL, postgresURL string
	maxConns              int32
	retention             time.Duration
	durability            holds.Durability
	redisTLS              redisTLSSettings
}

// backend is the use cases on their stores, as an App needs them.
type backend struct {
	checkouts server.Checkouts
	operators server.Operators

	// schema returns a *ledger.SchemaError if this program can't work with the tables.
	schema func(ctx context.Context) error
	// settings says what makes Redis unfit, and what weakens the promises.
	settings func(ctx context.Context) (bad, weak []string, err error)
	// pings asks each store, by name, for a sign of life.
	pings map[string]func(ctx context.Context) error
	// loops runs the background work until ctx is done.
	loops func(ctx context.Context)
	// drain waits for the confirms that go on without their callers.
	drain func(ctx context.Context) error
	// broken returns an error when what cannot come back has ended; nil: there is no such thing.
	broken func(ctx context.Context) error
	// close closes the connections.
	close func(ctx context.Context) error
}

// openStores joins the use cases with the stores. Neither store needs to be up.
func openStores(ctx context.Context, s storeSettings, i instruments) (*backend, error) {
	holds.RedirectClientLog(i.log)
	tlsConfig, err := s.redisTLS.config()
	if err != nil {
		return nil, err
	}
	redis, err := holds.Open(holds.Options{
		URL: s.redisURL, TLS: tlsConfig, Durable: s.durability, Retention: s.retention, Logger: i.log, Meters: i.meters, Traces: i.traces,
	})
	if err != nil {
		return nil, &settingError{name: "redis-url", err: err}
	}
	sales, err := ledger.Open(ctx, ledger.Options{
		URL: s.postgresURL, MaxConns: s.maxConns, Logger: i.log, MeterProvider: i.meters, TracerProvider: i.traces,
	})
	if err != nil {
		return nil, errors.Join(&settingError{name: "postgres-url", err: err}, redis.Close())
	}
	cases, err := inventory.New(inventory.Options{
		Redis: redis, Ledger: sales, Background: sales.Background(), Retention: s.retention, Logger: i.log, Meters: i.meters,
	})
	if err != nil {
		sales.Close()
		return nil, errors.Join(err, redis.Close())
	}
	return &backend{
		checkouts: cases,
		operators: cases,
		schema:    sales.CheckSchema,
		settings:  redis.CheckSettings,
		pings:     map[string]func(context.Context) error{"redis": redis.Ping, "postgres": sales.Ping},
		loops:     cases.Run,
		drain:     cases.Drain,
		close: func(context.Context) error {
			sales.Close()
			return redis.Close()
		},
	}, nil
}
