package ledger

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	nooptrace "go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/semaphore"
)

const (
	connLifetime       = 5 * time.Minute // a pool finds its way to a new server even if nothing fails
	connLifetimeJitter = time.Minute
	connectTimeout     = 2 * time.Second
	resetEvery         = time.Second
)

// pool is a pgxpool that forgets its idle connections when the server behind them has gone.
type pool struct {
	*pgxpool.Pool
	health    *health
	share     *semaphore.Weighted // of the connections, where others have the rest; nil: all of them
	lastReset atomic.Int64        // Unix nanoseconds
}

func newPool(ctx context.Context, o Options, name string, conns int32) (*pool, error) {
	c, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("ledger: Postgres URL: %w", err)
	}
	c.MaxConns, c.MinConns, c.MinIdleConns = conns, 0, 0
	c.MaxConnLifetime, c.MaxConnLifetimeJitter = connLifetime, connLifetimeJitter
	prepareConn(c.ConnConfig)
	if o.TracerProvider != nil || o.MeterProvider != nil {
		c.ConnConfig.Tracer = newTracer(o)
	}
	p, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("ledger: %s pool: %w", name, err)
	}
	if o.MeterProvider != nil {
		if err := recordStats(p, o.MeterProvider, name); err != nil {
			p.Close()
			return nil, err
		}
	}
	return &pool{Pool: p}, nil
}

// half is the same pool for those who may have half of its connections at a time.
func (p *pool) half() *pool {
	return &pool{Pool: p.Pool, health: p.health, share: semaphore.NewWeighted(max(1, int64(p.Config().MaxConns)/2))}
}

// prepareConn sets what every connection of ours needs: a server that may be written to. Nothing
// here is a server setting, which a pooler would refuse or share.
func prepareConn(c *pgx.ConnConfig) {
	if c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if c.ConnectTimeout <= 0 || c.ConnectTimeout > connectTimeout {
		c.ConnectTimeout = connectTimeout
	}
	if _, named := c.RuntimeParams["application_name"]; !named {
		c.RuntimeParams["application_name"] = "holdfast"
	}
	c.OnNotice = noteUnreplicated
}

// unreplicated is noted at a connection whose COMMIT was answered as done though its wait for a synchronous standby was ended.
const unreplicated = "unreplicated"

// noteUnreplicated knows that from a warning beside the answer, which has no code of its own, and a text that is translated.
func noteUnreplicated(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		conn.CustomData()[unreplicated] = true
	}
}

// newTracer reports statements without their parameters: these hold buyers' ids.
func newTracer(o Options) *otelpgx.Tracer {
	if o.TracerProvider == nil {
		o.TracerProvider = nooptrace.NewTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = noop.NewMeterProvider()
	}
	return otelpgx.NewTracer(otelpgx.WithTracerProvider(o.TracerProvider), otelpgx.WithMeterProvider(o.MeterProvider))
}

func recordStats(p *pgxpool.Pool, provider metric.MeterProvider, name string) error {
	err := otelpgx.RecordStats(p, otelpgx.WithStatsMeterProvider(provider),
		otelpgx.WithStatsAttributes(attribute.String("db.client.connection.pool.name", name)))
	if err != nil {
		return fmt.Errorf("ledger: pool metrics: %w", err)
	}
	return nil
}

// take is Acquire, but for a server that is known to be down.
func (p *pool) take(ctx context.Context) (*pgxpool.Conn, error) {
	if err := p.health.down(); err != nil {
		return nil, err
	}
	if p.share != nil {
		if err := p.share.Acquire(ctx, 1); err != nil {
			return nil, err
		}
	}
	conn, err := p.Acquire(ctx)
	if err != nil && serverGone(err) {
		p.health.suspect()
	}
	if err != nil {
		p.release()
	}
	return conn, err
}

// give puts a connection back. One that is in a transaction is closed by the pool. One that is closed already leaves it
// at once: it says goodbye for up to 15 s where nobody answers, and would take a place meanwhile.
func (p *pool) give(conn *pgxpool.Conn) {
	defer p.release()
	if conn.Conn().IsClosed() {
		conn.Hijack()
		return
	}
	conn.Release()
}

// release gives a place in the share back.
func (p *pool) release() {
	if p.share != nil {
		p.share.Release(1)
	}
}

// reset drops the connections, at most once a second: a server that went away or turned read-only
// takes them all with it, and each would fail a call of its own otherwise. It says whether it did.
func (p *pool) reset() bool {
	now, last := time.Now().UnixNano(), p.lastReset.Load()
	if now-last < int64(resetEvery) || !p.lastReset.CompareAndSwap(last, now) {
		return false
	}
	p.Reset()
	return true
}
