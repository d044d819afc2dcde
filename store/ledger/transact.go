package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	maxConflicts = 2 // repeats after a serialization failure or a deadlock
	maxLost      = 1 // repeats after a lost connection

	beginWrite = "begin isolation level read committed"
	beginRead  = "begin isolation level read committed read only"
	// The plans of prepared statements are kept for minutes, and a launch begins with tables that were
	// empty, or tiny, when they were made: without the last setting, reading through all of a table would
	// have looked cheap. Warnings are asked for whatever the server's settings: noteUnreplicated waits for one.
	setLimits = `select set_config('lock_timeout', $1::text, true), set_config('statement_timeout', $2::text, true),
		set_config('idle_in_transaction_session_timeout', '1000', true), set_config('client_min_messages', 'warning', true),
		set_config('enable_seqscan', $3::text, true)`
	// The server stops a statement's clock before it commits, but one that has run out just then would end the wait for a
	// synchronous standby, and make it answer "committed" without that standby.
	liftLimit = `select set_config('statement_timeout', '0', true)`
)

// errProgram marks failures that are neither the server's nor the network's: a value that does not
// fit its column, a damaged row.
var errProgram = errors.New("unexpected")

// errUnreplicated is for a COMMIT whose wait for a synchronous standby was ended by others than that.
var errUnreplicated = errors.New("the wait for a synchronous standby was ended")

// unit is one short write transaction. It may run more than once, so read starts from nothing. Without read and decide
// it is a single round trip.
type unit struct {
	read   func(*pgx.Batch) // queues the row lock first, then what else must be known
	decide func() error     // errNothing or a refusal: nothing is written, and told when the COMMIT says that what was read is durable
	write  func(*pgx.Batch) // queues what follows from it; the COMMIT goes along
	// once: another run does not give the same result, so it may not follow a COMMIT whose answer was lost.
	once bool
}

// failure is how a run of a unit failed.
type failure struct {
	err  error
	lost bool // the connection is gone
	sent bool // so was the COMMIT of what was written: it may have happened
}

// transact runs u to its end, in the error terms of package store. facts go to the log if the
// database refuses what u writes.
func (l *Ledger) transact(ctx context.Context, p *pool, u unit, facts ...slog.Attr) error {
	ctx, cancel := l.within(ctx, l.opts.CallTimeout)
	defer cancel()
	return l.translate(ctx, l.runUnit(ctx, p, u), facts...)
}

// runUnit repeats u where that cannot do harm. A lost COMMIT is resolved by running u again: it
// waits for the row lock that the lost transaction held, so it finds what that one wrote, or, if it
// was rolled back, does the work. Nothing is guessed.
func (l *Ledger) runUnit(ctx context.Context, p *pool, u unit) error {
	conflicts, losses := 0, 0
	for {
		f := l.attempt(ctx, p, u)
		switch {
		case f.err == nil || errors.Is(f.err, errNothing):
			return nil
		case mustRepeat(f.err) && conflicts < maxConflicts:
			conflicts++
			l.meter.repeats.Add(ctx, 1, repeatConflict)
		case f.lost && losses < maxLost && !(f.sent && u.once) && ctx.Err() == nil:
			losses++
			l.meter.repeats.Add(ctx, 1, repeatLost)
		default:
			return f.err
		}
	}
}

func (l *Ledger) attempt(ctx context.Context, p *pool, u unit) failure {
	conn, err := p.take(ctx)
	if err != nil {
		return failure{err: err}
	}
	defer p.give(conn)
	b := &pgx.Batch{}
	b.Queue(beginWrite)
	l.queueLimits(ctx, b, l.opts.StatementTimeout, false)
	var verdict error
	if u.read != nil {
		u.read(b)
		if err := conn.SendBatch(ctx, b).Close(); err != nil {
			return l.failed(ctx, p, conn.Conn(), err, false)
		}
		if verdict = u.decide(); verdict != nil && !errors.Is(verdict, errNothing) && !answered(verdict) {
			return l.failed(ctx, p, conn.Conn(), verdict, false)
		}
		b = &pgx.Batch{}
	}
	if verdict == nil {
		u.write(b)
	}
	b.Queue(liftLimit)
	// Also where nothing is written. What was read may be of a COMMIT that was given up while it waited for a synchronous
	// standby: the row lock is in the log behind it, so this one waits for both. A ROLLBACK would wait for nothing.
	b.Queue("commit").Exec(mustCommit)
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return l.failed(ctx, p, conn.Conn(), err, verdict == nil)
	}
	p.health.answered()
	if conn.Conn().PgConn().CustomData()[unreplicated] != nil { // as after a lost answer, the next run waits for it
		closeConn(ctx, conn.Conn())
		return failure{err: errUnreplicated, lost: true, sent: verdict == nil}
	}
	return failure{err: verdict}
}

// mustCommit refuses the answer ROLLBACK, which a COMMIT gets that follows an error.
func mustCommit(tag pgconn.CommandTag) error {
	if tag.String() != "COMMIT" {
		return fmt.Errorf("%w: COMMIT was answered %s", errProgram, tag)
	}
	return nil
}

// failed ends the transaction after err, and says what is known. The server's word that a statement
// failed means that it rolled back; only a connection that is gone leaves a COMMIT in doubt.
func (l *Ledger) failed(ctx context.Context, p *pool, conn *pgx.Conn, err error, sent bool) failure {
	lost := conn.IsClosed()
	switch {
	case !lost && pgError(err) == nil, errors.Is(ctx.Err(), context.Canceled): // a value that does not fit, a caller that has gone
	case serverGone(err):
		l.leave(ctx, p, err)
	default:
		p.health.answered()
	}
	if lost {
		return failure{err: err, lost: true, sent: sent}
	}
	if readOnly(err) {
		closeConn(ctx, conn) // the next one may lead to the server that took over
		return failure{err: err}
	}
	rollback(ctx, conn)
	if pgError(err) == nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errProgram, err)
	}
	return failure{err: err}
}

// leave drops a pool's connections to a server that is gone or read-only, and has it looked at. One that gave no answer
// in time may only be busy, and new connections would make it busier: if the look finds it down, they are dropped.
func (l *Ledger) leave(ctx context.Context, p *pool, err error) {
	p.health.suspect()
	if !pgconn.Timeout(err) && p.reset() {
		l.log.LogAttrs(ctx, slog.LevelWarn, "Postgres connection lost or read-only: pool reset", slog.Any("error", err))
	}
}

// rollback is for the connection's sake. If it fails, the connection is closed when it is released,
// and the server rolls back.
func rollback(ctx context.Context, conn *pgx.Conn) {
	_, _ = conn.Exec(ctx, "rollback")
}

// look runs reads in one transaction and one round trip.
func (l *Ledger) look(ctx context.Context, p *pool, most time.Duration, queue func(*pgx.Batch)) error {
	ctx, cancel := l.within(ctx, most)
	defer cancel()
	f := l.lookOnce(ctx, p, most, queue)
	if f.lost && ctx.Err() == nil {
		l.meter.repeats.Add(ctx, 1, repeatLost)
		f = l.lookOnce(ctx, p, most, queue)
	}
	return l.translate(ctx, f.err)
}

func (l *Ledger) lookOnce(ctx context.Context, p *pool, most time.Duration, queue func(*pgx.Batch)) failure {
	conn, err := p.take(ctx)
	if err != nil {
		return failure{err: err}
	}
	defer p.give(conn)
	b := &pgx.Batch{}
	b.Queue(beginRead)
	l.queueLimits(ctx, b, max(most, l.opts.StatementTimeout), most == l.opts.ScanTimeout)
	queue(b)
	b.Queue("commit")
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return l.failed(ctx, p, conn.Conn(), err, false)
	}
	p.health.answered()
	return failure{}
}

// queueLimits makes the server give up before ctx does: a statement that it ends leaves the
// connection usable, one that ctx ends costs a new connection. scan allows reading through tables.
func (l *Ledger) queueLimits(ctx context.Context, b *pgx.Batch, statement time.Duration, scan bool) {
	lock := l.opts.LockTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		lock, statement = min(lock, left*8/10), min(statement, left*9/10)
	}
	b.Queue(setLimits, milliseconds(lock), milliseconds(statement), strconv.FormatBool(scan))
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}
