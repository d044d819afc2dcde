// Package holds keeps the counters and the holds in Redis. Its scripts (package lua) are the only
// writers; callers' requests reach them in batches, one call for each script.
package holds

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/singleflight"

	"github.com/holdfast-inventory/holdfast/lua"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/batch"
	"github.com/holdfast-inventory/holdfast/store/seldom"
)

// The defaults of Options.
const (
	DefaultTimeout   = 80 * time.Millisecond
	DefaultRetention = 24 * time.Hour
)

// upkeepTimeout is that of the batches that nobody waits for, and of adopts.
const upkeepTimeout = 2 * time.Second

// A batch keeps Redis from everyone else while it runs, so it is bounded by its work, not by its requests. The unit is a
// line, 2 to 9 us of Redis: a request for one hold has one, one for a cart many. Each group costs some 15 us besides. So a
// batch takes at most some 5 ms, be it 512 lines of one group or one line of each of 103.
const (
	batchMost   = 512
	groupWeight = 4
	callWeight  = 8 // of an op that needs a call of its own
	// What waits in a lane, 16 batches, has its turn within the 90 ms that a caller waits; one of whom that cannot
	// be true is better told at once to come again. Half of it is the most that one flow may take.
	laneMost = 8192
)

// Options are what a Store needs.
type Options struct {
	URL       string        // one of the forms in README.md; see CheckURL
	TLS       *tls.Config   // what connections trust and show, if the URL asks for TLS; nil: the machine's CAs, and nothing
	Durable   Durability    // when what is decided may be answered
	Timeout   time.Duration // of one batch of callers' requests; 0: DefaultTimeout
	Retention time.Duration // ended holds stay readable for so long; 0: DefaultRetention
	// Offset is added to the server's clock in every script: a test's way to let time pass. Nil in production.
	Offset func() time.Duration
	Logger *slog.Logger
	Meters metric.MeterProvider
	Traces trace.TracerProvider
}

// Store is the Redis side of Holdfast. It implements store.Holds, store.Confirms, store.Upkeep,
// store.Rebuild, store.Places and store.Events.
type Store struct {
	fleet     *fleet
	scripts   map[string]lua.Script
	lanes     *batch.Lanes[queue, flow, *op]
	releasing singleflight.Group
	timeout   time.Duration
	database  int
	durable   Durability
	retention time.Duration
	offset    func() time.Duration
	log       *slog.Logger
	metrics   *metrics
	spent     spent
	asked     asked
	hearing   hearing
	alarmed   seldom.Line // about a false refusal
	rejected  rejections
	onDamage  atomic.Pointer[func(store.Place)]
}

var (
	_ store.Holds    = (*Store)(nil)
	_ store.Confirms = (*Store)(nil)
	_ store.Upkeep   = (*Store)(nil)
	_ store.Rebuild  = (*Store)(nil)
	_ store.Places   = (*Store)(nil)
	_ store.Events   = (*Store)(nil)
)

// Open makes a Store. It does not need the server to be up; a bad URL is an error.
func Open(o Options) (*Store, error) {
	target, err := parseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("redis url %w", err)
	}
	target.secure(o.TLS)
	setClientOptions(target.options, o)
	scripts, err := lua.Scripts()
	if err != nil {
		return nil, fmt.Errorf("read the scripts: %w", err)
	}
	s := &Store{
		scripts: scripts, timeout: o.Timeout, retention: o.Retention,
		database: target.options.DB, durable: o.Durable, offset: o.Offset, log: o.Logger,
	}
	if s.timeout == 0 {
		s.timeout = DefaultTimeout
	}
	if s.retention == 0 {
		s.retention = DefaultRetention
	}
	limits := batch.Limits{Batch: batchMost + groupWeight, Flow: groupWeight, Lane: laneMost}
	s.lanes = batch.NewLanes[queue, flow](limits, (*op).weight, s.run)
	s.fleet, err = newFleet(target, o.Logger, func(addr string, closed chan struct{}) (*redis.Client, error) {
		client := redis.NewClient(optionsAt(target.options, addr))
		return client, instrument(client, closed, o)
	})
	if err != nil {
		return nil, err
	}
	if s.metrics, err = newMetrics(o.Meters, s); err != nil {
		s.fleet.close()
		return nil, err
	}
	s.fleet.watch()
	return s, nil
}

func instrument(client *redis.Client, closed chan struct{}, o Options) error {
	if err := redisotel.InstrumentMetrics(client, redisotel.WithMeterProvider(o.Meters), redisotel.WithCloseChan(closed)); err != nil {
		return fmt.Errorf("measure redis: %w", err)
	}
	if _, off := o.Traces.(noop.TracerProvider); off {
		return nil // the hook alone takes some 3 % of a call
	}
	// Commands carry buyers' ids, so spans never show them.
	if err := redisotel.InstrumentTracing(client, redisotel.WithTracerProvider(o.Traces),
		redisotel.WithDBStatement(false)); err != nil {
		return fmt.Errorf("trace redis: %w", err)
	}
	return nil
}

// Close closes the connections. Calls under way fail.
func (s *Store) Close() error {
	s.fleet.close()
	return nil
}

// Ping says whether every server that has something answers.
func (s *Store) Ping(ctx context.Context) error {
	masters, _ := s.fleet.masters()
	if len(masters) == 0 {
		return errNoMaster
	}
	errs := make([]error, len(masters))
	var pings sync.WaitGroup
	for i, n := range masters {
		pings.Go(func() {
			if err := n.client.Ping(ctx).Err(); err != nil {
				errs[i] = fmt.Errorf("%s: %w", n.addr, err)
			}
		})
	}
	pings.Wait()
	return errors.Join(errs...)
}

var errNoMaster = errors.New("no master of Redis is known")

// RedirectClientLog sends what the client library would write to standard error to log, at level
// debug: the health probes report outages. The library has one logger for the whole process.
func RedirectClientLog(log *slog.Logger) { redis.SetLogger(clientLog{log}) }

type clientLog struct{ *slog.Logger }

// Printf implements the library's logger.
func (l clientLog) Printf(ctx context.Context, format string, args ...any) {
	l.DebugContext(ctx, "redis client: "+fmt.Sprintf(format, args...))
}

// setClientOptions sets every option that matters here; TestClientOptions has them.
// Above all the client never retries by itself: a script whose answer was lost may have run.
func setClientOptions(options *redis.Options, o Options) {
	options.Protocol = 2
	options.DisableIdentity = true
	options.MaxRetries = -1
	options.ContextTimeoutEnabled = true
	timeout := o.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	options.DialTimeout = timeout * 5 / 8 // 50 ms by default: what is left is for the call
	options.DialerRetries = 1
	options.ReadTimeout = max(upkeepTimeout, timeout) // a backstop: every call has a context with a deadline
	options.WriteTimeout = options.ReadTimeout
	options.PoolTimeout = timeout / 4 // 20 ms by default
	options.PoolSize = 16
	options.PipelinePoolSize = -1
	options.ReadBufferSize = 64 << 10
	options.WriteBufferSize = 64 << 10
}
