package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	probeEvery = 250 * time.Millisecond // between two looks, so an outage's end is known as soon
	// connectMost is for a connection to any host of the URL, each of which has its connectTimeout. That is the pools' own: a
	// server that they could connect to must not be taken for down.
	connectMost = 15 * time.Second
)

var (
	errDown     = errors.New("the server is known to be down")
	errReadOnly = errors.New("the server is read-only")
)

// health knows whether Postgres is down, so that only those who meet an outage first pay for it with their time. A probe
// on a connection of its own asks the server again and again, and at once when a transaction suspects it. It alone judges:
// whoever merely waits for a row lock, a pooled connection or a busy server must not stop the others. A probe without an
// answer counts for nothing if a transaction got one meanwhile.
type health struct {
	config    *pgx.ConnConfig
	patience  time.Duration // for an answer on a connection that is there
	log       *slog.Logger
	dropConns func() // called when the server is found down

	now     atomic.Pointer[condition]
	answers atomic.Uint64 // that transactions got
	nudge   chan struct{} // a transaction's suspicion

	conn  *pgx.Conn // the probe's; of the loop alone; nil: none
	stop  context.CancelFunc
	ended chan struct{}
}

// condition is the server's between two changes.
type condition struct {
	err  error         // why it is down; nil: it is not known to be
	gone chan struct{} // closed when it goes down, or if it is
}

// newHealth starts the probe, whose first look is only after probeEvery: opening a ledger connects to nothing.
func newHealth(config *pgx.ConnConfig, patience time.Duration, log *slog.Logger, dropConns func()) *health {
	ctx, stop := context.WithCancel(context.Background())
	h := &health{
		config: config, patience: patience, log: log, dropConns: dropConns, nudge: make(chan struct{}, 1), stop: stop, ended: make(chan struct{}),
	}
	h.now.Store(&condition{gone: make(chan struct{})})
	go h.run(ctx)
	return h
}

func (h *health) close() {
	h.stop()
	<-h.ended
}

// down is nil, or an error that tells why Postgres is known to be down.
func (h *health) down() error { return h.now.Load().err }

// answered notes that a transaction got an answer.
func (h *health) answered() { h.answers.Add(1) }

// suspect has the probe look at once.
func (h *health) suspect() {
	select {
	case h.nudge <- struct{}{}:
	default:
	}
}

func (h *health) run(ctx context.Context) {
	defer close(h.ended)
	timer := time.NewTimer(probeEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			h.forgetConn(ctx)
			return
		case <-timer.C:
		case <-h.nudge:
		}
		before := h.answers.Load()
		err := h.probe(ctx)
		overruled := err != nil && !errors.Is(err, errReadOnly) && h.answers.Load() != before
		if ctx.Err() == nil && !overruled {
			h.judge(err)
		}
		timer.Reset(probeEvery)
	}
}

// judge takes the probe's word.
func (h *health) judge(err error) {
	was := h.now.Load()
	switch {
	case err == nil && was.err != nil:
		h.now.Store(&condition{gone: make(chan struct{})})
		h.log.Info("Postgres answers again")
	case err != nil:
		h.now.Store(&condition{err: fmt.Errorf("%w: %w", errDown, err), gone: was.gone})
		if was.err == nil {
			close(was.gone)
			h.dropConns()
			h.log.Warn("Postgres is down: calls are told so at once until it is back", slog.Any("error", err))
		}
	}
}

// probe returns nil if the server answers and may be written to. A connection that was lost, or whose server became
// read-only, is replaced at once, perhaps by one to another host of the URL; one that gives no answer only by the next look.
func (h *health) probe(ctx context.Context) error {
	if h.conn != nil {
		err := h.ask(ctx)
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return h.connect(ctx)
}

func (h *health) ask(ctx context.Context) error {
	timed, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	// The simple protocol needs no prepared statement, which a pooler might not know.
	results, err := h.conn.PgConn().Exec(timed, `show transaction_read_only`).ReadAll()
	if err == nil && len(results) == 1 && len(results[0].Rows) == 1 && string(results[0].Rows[0][0]) == "on" {
		err = errReadOnly
	}
	if err != nil {
		h.forgetConn(ctx)
	}
	return err
}

// connect asks for a server that may be written to, as the pools do. One that has no connection left to give is not down:
// the pools may have theirs.
func (h *health) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectMost)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, h.config)
	if e := pgError(err); e != nil && e.Code == stateTooManyConnections {
		return nil
	}
	h.conn = conn
	return err
}

func (h *health) forgetConn(ctx context.Context) {
	if h.conn != nil {
		closeConn(ctx, h.conn)
		h.conn = nil
	}
}
