package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-inventory/holdfast/store"
)

// The SQLSTATEs, and classes of them, that we tell apart. Never the message: it is translated and
// changes between versions.
const (
	stateReadOnly           = "25006"
	stateSerialization      = "40001"
	stateDeadlock           = "40P01"
	stateUndefinedTable     = "42P01"
	stateTooManyConnections = "53300"
	stateConnectionClass    = "08"
	stateDataClass          = "22"
	stateIntegrityClass     = "23"
	stateDefinitionClass    = "42"
	stateLimitClass         = "54" // such as a key too long for an index
	stateShutdownPrefix     = "57P"
)

// errNothing is a unit's word that all is as asked already.
var errNothing = errors.New("nothing to write")

// pgError is the server's error in err's chain, or nil.
func pgError(err error) *pgconn.PgError {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e
	}
	return nil
}

func inClass(e *pgconn.PgError, class string) bool {
	return e != nil && len(e.Code) == 5 && e.Code[:len(class)] == class
}

// mustRepeat says that the server rolled back for another's sake, and the same work may succeed.
func mustRepeat(err error) bool {
	e := pgError(err)
	return e != nil && (e.Code == stateSerialization || e.Code == stateDeadlock)
}

// badData says that the server rolled back because of what was written: of a batch, one item.
func badData(err error) bool {
	e := pgError(err)
	return inClass(e, stateDataClass) || inClass(e, stateIntegrityClass) || inClass(e, stateLimitClass)
}

// readOnly says that the server is one that may not be written to, such as a primary that has become a replica.
func readOnly(err error) bool {
	e := pgError(err)
	return e != nil && e.Code == stateReadOnly
}

// serverGone says that other connections of the pool are likely no better: the server went down,
// or has become a replica.
func serverGone(err error) bool {
	e := pgError(err)
	return e == nil || readOnly(err) || inClass(e, stateConnectionClass) || inClass(e, stateShutdownPrefix)
}

func unavailable(err error) error {
	return fmt.Errorf("ledger: %w: %w", store.ErrUnavailable, err)
}

// answered says that err is an answer of ours, not trouble.
func answered(err error) bool {
	var refusal *store.Refusal
	var field *store.InvalidField
	return errors.As(err, &refusal) || errors.As(err, &field) || errors.Is(err, store.ErrStale)
}

// translate gives the error that callers see. A violated constraint is logged and counted here;
// facts say what was being done.
func (l *Ledger) translate(ctx context.Context, err error, facts ...slog.Attr) error {
	e := pgError(err)
	switch {
	case err == nil || answered(err):
		return err
	case inClass(e, stateIntegrityClass):
		l.violated(ctx, e, facts)
		return fmt.Errorf("ledger: %w: %w", store.ErrConstraint, err)
	case inClass(e, stateDataClass), inClass(e, stateLimitClass), inClass(e, stateDefinitionClass), errors.Is(err, errProgram):
		return fmt.Errorf("ledger: %w", err)
	}
	return unavailable(err)
}

// violated makes a constraint that had to stop us impossible to overlook: it is always a bug, or a
// sign that someone writes to the tables by hand.
func (l *Ledger) violated(ctx context.Context, e *pgconn.PgError, facts []slog.Attr) {
	l.meter.violations.Add(context.WithoutCancel(ctx), 1, constraintLabel(e.ConstraintName))
	attrs := append([]slog.Attr{
		slog.String("constraint", e.ConstraintName), slog.String("table", e.TableName),
		slog.String("sqlstate", e.Code), slog.String("message", e.Message),
	}, facts...)
	l.log.LogAttrs(ctx, slog.LevelError, "the database refused a write that must never be asked of it", attrs...)
}
