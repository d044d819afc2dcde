// Package ledger keeps allotments and sales in Postgres, which alone decides what is sold. It
// implements store.Settler, store.Sales, store.Allotments, store.Feed and store.Adoption.
//
// Every write is one short transaction of two round trips: it locks the allotment's row and reads;
// Go decides; then the writes and the COMMIT go together. Where nothing is to be written, there is a COMMIT all the same:
// what was found under the lock is told only when it is as durable as a write would be. Confirms of one group share such a
// transaction, which first tries to do with a single round trip. No transaction stays open over a call to anything else, and none needs session
// state, so pgbouncer in transaction mode may stand in between.
package ledger

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/batch"
	"github.com/holdfast-inventory/holdfast/store/failpoint"
)

var (
	_ store.Settler    = (*Ledger)(nil)
	_ store.Sales      = (*Ledger)(nil)
	_ store.Allotments = (*Ledger)(nil)
	_ store.Feed       = (*Ledger)(nil)
	_ store.Adoption   = (*Ledger)(nil)
)

// Options says where the ledger is and how long anything may take. Only URL is needed.
type Options struct {
	// URL is a postgres:// URL. Behind a pgbouncer in transaction mode without prepared statements,
	// add default_query_exec_mode=exec to it.
	URL string
	// MaxConns bounds the connections, and so the transactions at a time, for requests (default 8). Half of them are for the ledger
	// step alone.
	MaxConns int32
	// BackgroundMaxConns bounds those of feeds, adopts and the Background view (default 2): loops
	// that do not end cannot take the connections that sales need. Buyer totals have half of them at most.
	BackgroundMaxConns int32
	// LockTimeout bounds the wait for a row lock (default 300 ms), StatementTimeout a statement
	// (default 1 s). The server keeps to them, so that the connection survives; both shrink to fit
	// the caller's deadline.
	LockTimeout, StatementTimeout time.Duration
	// CallTimeout bounds a call whose ctx has no nearer deadline, and each transaction of confirms,
	// which is detached from its callers (default 1.5 s).
	CallTimeout time.Duration
	// ScanTimeout bounds the reads that grow with an allotment: buyer totals, erasing (default 30 s).
	ScanTimeout time.Duration
	// ProbeTime bounds the server's answer when it is asked whether it is up (default 500 ms): after it, it is taken
	// for down.
	ProbeTime time.Duration
	// ReadFirst makes every ledger step read before it writes: a test's way to see that way alone.
	ReadFirst bool

	Logger         *slog.Logger         // default: none
	MeterProvider  metric.MeterProvider // default: none
	TracerProvider trace.TracerProvider // default: none
}

func (o *Options) setDefaults() {
	setDefault(&o.MaxConns, 8)
	setDefault(&o.BackgroundMaxConns, 2)
	setDefault(&o.LockTimeout, 300*time.Millisecond)
	setDefault(&o.StatementTimeout, time.Second)
	setDefault(&o.CallTimeout, 1500*time.Millisecond)
	setDefault(&o.ScanTimeout, 30*time.Second)
	setDefault(&o.ProbeTime, 500*time.Millisecond)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T int32 | time.Duration](value *T, def T) {
	if *value <= 0 {
		*value = def
	}
}

// Ledger is the ledger in one Postgres database. It is safe for concurrent use.
type Ledger struct {
	opts       Options
	log        *slog.Logger
	meter      *instruments
	tracer     trace.Tracer
	requests   *pool
	others     *pool // the requests' for all but the ledger step: who waits there, or asks in vain, leaves the other half to sales
	background *pool
	scans      *pool // the background's for reads of many seconds: they leave the other half to the loops
	health     *health
	reads      *pool // of others and background, the one for what both requests and loops call
	lanes      *batch.Lanes[string, string, *settling]
	mark       func(point string) // failpoint.Hit; a test in one process may look in
}

// Open prepares the pools. It connects to nothing: a ledger that is down at start is an outage like
// one that goes down later. The error is one of the options.
func Open(ctx context.Context, o Options) (*Ledger, error) {
	if o.URL == "" {
		return nil, errors.New("ledger: no Postgres URL")
	}
	o.setDefaults()
	meter, err := newInstruments(o.MeterProvider)
	if err != nil {
		return nil, err
	}
	tracers := o.TracerProvider
	if tracers == nil {
		tracers = nooptrace.NewTracerProvider()
	}
	l := &Ledger{opts: o, log: o.Logger, meter: meter, tracer: tracers.Tracer(scope), mark: failpoint.Hit}
	if l.requests, err = newPool(ctx, o, "requests", o.MaxConns); err != nil {
		return nil, err
	}
	if l.background, err = newPool(ctx, o, "background", o.BackgroundMaxConns); err != nil {
		l.requests.Close()
		return nil, err
	}
	l.health = newHealth(l.background.Config().ConnConfig, o.ProbeTime, o.Logger, func() {
		l.requests.Reset()
		l.background.Reset()
	})
	l.requests.health, l.background.health = l.health, l.health
	l.others, l.scans = l.requests.half(), l.background.half()
	l.reads = l.others
	// A lane is of one group, as is its only flow, which may take half of it.
	limits := batch.Limits{Batch: maxConfirms, Lane: 2 * maxWaiting}
	l.lanes = batch.NewLanes[string, string](limits, (*settling).lines, l.settleLane)
	return l, nil
}

// Background is the same ledger for loops: all it does but Settle takes connections from the small
// pool. Settle shares its transactions, and so its connections, with the requests' confirms.
func (l *Ledger) Background() *Ledger {
	view := *l
	view.reads = l.background
	return &view
}

// Down implements store.Settler.
func (l *Ledger) Down() bool { return l.health.down() != nil }

// Ping asks the server for an answer, on a connection that a busy request pool cannot delay.
func (l *Ledger) Ping(ctx context.Context) error {
	if err := l.health.down(); err != nil {
		return unavailable(err)
	}
	ctx, cancel := l.within(ctx, l.opts.CallTimeout)
	defer cancel()
	if err := l.background.Ping(ctx); err != nil {
		return unavailable(err)
	}
	return nil
}

// Close waits for the transactions under way, each of which ends within CallTimeout, and closes the
// connections. Later calls are ErrUnavailable.
func (l *Ledger) Close() {
	l.health.close()
	l.requests.Close()
	l.background.Close()
}

// within gives ctx a deadline if it has no nearer one: nothing may wait for a connection for ever.
func (l *Ledger) within(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, most)
}
