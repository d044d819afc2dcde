package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// superuser is the one role of a private Postgres; it needs no password.
const superuser = "holdfast"

// PostgresOptions says how a private Postgres is started. Zero values are fine: a Postgres in a temporary folder, on
// a free port, whose data survives its own crash but not the machine's.
type PostgresOptions struct {
	Dir       string       // state folder, made if missing; empty: a temporary one, which Close removes
	Port      int          // 0: a free one
	Fsync     bool         // survive a crash of the machine too; slower
	ExtraArgs []string     // more of postgres's arguments, such as "-c", "work_mem=8MB"; they win over ours
	Env       []string     // more environment, NAME=value
	Log       *slog.Logger // for a line at the start; nil: none
}

// Postgres is a private postgres. Addr, PID, Dir, Exited, Stop, Close, Kill, Pause, Resume, Restart and LogTail are
// its methods as they are Redis's.
type Postgres struct{ server }

// StartPostgres starts a private postgres and returns when it has recovered and takes connections; an empty folder
// becomes a new cluster first. ctx bounds the start alone. An error carries the end of the server's log;
// ErrNotInstalled and ErrInUse can be told apart.
func StartPostgres(ctx context.Context, opts PostgresOptions) (*Postgres, error) {
	binary, initdb, err := findPostgres()
	if err != nil {
		return nil, err
	}
	p := &Postgres{}
	cluster := func() cluster { return cluster{p.folder, initdb, opts.Fsync} } // the folder comes later
	p.spec = spec{
		name:    "postgres",
		binary:  binary,
		users:   []string{"postgres", "nobody"},
		env:     opts.Env,
		stop:    syscall.SIGINT, // "fast": sessions are ended, not waited for
		args:    opts.args,
		ready:   p.ready,
		prepare: func(ctx context.Context, run runner) error { return cluster().prepare(ctx, run) },
		forget:  func() { cluster().removeSharedMemory() },
	}
	if err := p.open(ctx, opts.Dir, opts.Port, opts.Log); err != nil {
		return nil, err
	}
	return p, nil
}

// URL names a database of this server. "postgres" is always there.
func (p *Postgres) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Host: p.Addr(), Path: database}
	u.RawQuery = "sslmode=disable"
	return u.String()
}

// CreateDatabase makes an empty database. One of this name that is there already stays as it is.
func (p *Postgres) CreateDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, p.URL("postgres"))
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if err != nil && !isDuplicate(err) {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// isDuplicate: 42P04 duplicate_database, or 23505 unique_violation when two make it at once.
func isDuplicate(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == "42P04" || pgErr.Code == "23505")
}

// args are settings that win over the folder's postgresql.conf, which is initdb's.
func (o PostgresOptions) args(data string, port int) []string {
	args := []string{
		"-D", data, "-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(port),
		"-c", "unix_socket_directories=", // none: a socket's path may have 107 bytes, and folders are deeper
		"-c", "max_connections=200",
		"-c", "log_destination=stderr", "-c", "logging_collector=off",
		"-c", "dynamic_shared_memory_type=mmap", // in the folder: a killed server leaves nothing in /dev/shm
	}
	if !o.Fsync {
		// Commits still reach the operating system before they are acknowledged, so kill -9 loses nothing.
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	return append(args, o.ExtraArgs...)
}

// ready compares folders, since on a port that we lost to another Postgres that one would answer.
func (p *Postgres) ready(ctx context.Context, _ int) error {
	conn, err := pgx.Connect(ctx, p.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx)
	var data string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&data); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	if data != p.folder.data {
		return fmt.Errorf("%w: the Postgres of %s answers on it", errPortTaken, data)
	}
	return nil
}
