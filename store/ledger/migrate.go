package ledger

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"

	"github.com/holdfast-inventory/holdfast/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	versionTable = "holdfast_schema_version"

	// migrateLock is the key of the advisory lock that migrations run under.
	migrateLock = int64(0x686f6c6466617374) // "holdfast"
	lockWait    = "120s"                    // for another migration to end
	tableWait   = "5s"                      // for a table: whoever waits for one makes all others wait behind it
	closeWait   = time.Second
)

// SchemaError says that the tables do not fit this program.
type SchemaError struct{ Have, Want int }

func (e *SchemaError) Error() string {
	if e.Have < e.Want {
		return fmt.Sprintf("the ledger's schema is version %d and this program needs %d: run `holdfast migrate`", e.Have, e.Want)
	}
	return fmt.Sprintf("the ledger's schema is version %d and this program knows %d: run a newer holdfast", e.Have, e.Want)
}

// fits says whether a program made for version want works on version have: its own, or the next one,
// which is always made to work with the program before it, so that both run side by side.
func fits(have, want int) bool { return have == want || have == want+1 }

// schemaVersion is the number of the last migration in this program.
func schemaVersion() int {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0 // only a malformed pattern fails
	}
	return len(files)
}

// CheckSchema returns a SchemaError, which says what to do, if this program cannot work with the
// tables as they are.
func (l *Ledger) CheckSchema(ctx context.Context) error {
	var have int
	err := l.look(ctx, l.background, l.opts.CallTimeout, func(b *pgx.Batch) {
		b.Queue(`select version from ` + versionTable).QueryRow(func(row pgx.Row) error { return row.Scan(&have) })
	})
	if e := pgError(err); e != nil && e.Code == stateUndefinedTable {
		have, err = 0, nil
	}
	if err != nil {
		return err
	}
	if want := schemaVersion(); !fits(have, want) {
		return &SchemaError{Have: have, Want: want}
	}
	return nil
}

// Migrate is Upgrade for those who need no versions.
func Migrate(ctx context.Context, url string) error {
	_, _, err := Upgrade(ctx, url)
	return err
}

// Upgrade brings the tables at url to the version of this program, and returns which one they had (0: there
// were none) and have; tables of the next version are left alone. Any number may run at once: one works, the
// others wait for it. It needs a direct connection: pgbouncer in transaction mode would lose the lock.
func Upgrade(ctx context.Context, url string) (from, to int, err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return 0, 0, fmt.Errorf("ledger: Postgres URL: %w", err)
	}
	prepareConn(config)
	config.RuntimeParams["lock_timeout"] = tableWait // tern resets to this after each migration
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return 0, 0, unavailable(err)
	}
	defer closeConn(ctx, conn)
	// A session's lock: the connection is ours alone, and the lock ends with it.
	if _, err := conn.Exec(ctx, `set lock_timeout = '`+lockWait+`'`); err != nil {
		return 0, 0, unavailable(err)
	}
	if _, err := conn.Exec(ctx, `select pg_advisory_lock($1)`, migrateLock); err != nil {
		return 0, 0, fmt.Errorf("ledger: another migration has been running for %s: %w: %w", lockWait, store.ErrUnavailable, err)
	}
	if _, err := conn.Exec(ctx, `reset lock_timeout`); err != nil {
		return 0, 0, unavailable(err)
	}
	return runMigrations(ctx, conn)
}

func runMigrations(ctx context.Context, conn *pgx.Conn) (from, to int, err error) {
	m, err := migrate.NewMigrator(ctx, conn, versionTable)
	if err != nil {
		return 0, 0, fmt.Errorf("ledger: migrate: %w", err)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return 0, 0, fmt.Errorf("ledger: migrate: %w", err)
	}
	if err := m.LoadMigrations(files); err != nil {
		return 0, 0, fmt.Errorf("ledger: migrate: %w", err)
	}
	have, err := m.GetCurrentVersion(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("ledger: migrate: %w", err)
	}
	from, to = int(have), len(m.Migrations)
	if from > to {
		if fits(from, to) {
			return from, from, nil
		}
		return 0, 0, &SchemaError{Have: from, Want: to}
	}
	if err := m.Migrate(ctx); err != nil {
		return 0, 0, fmt.Errorf("ledger: migrate: %w", err)
	}
	return from, to, nil
}

// closeConn says goodbye even when ctx has ended.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	_ = conn.Close(ctx)
}
