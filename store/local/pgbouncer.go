package local

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PgBouncerOptions says how a private pgbouncer is started.
type PgBouncerOptions struct {
	Postgres *Postgres    // that it stands in front of
	Settings []string     // more lines of its [pgbouncer] section, such as "default_pool_size = 3"; they win over ours
	Log      *slog.Logger // for a line at the start; nil: none
}

// PgBouncer is a private pgbouncer in transaction mode, on a free port. Its methods are Postgres's.
type PgBouncer struct {
	server
	postgres *Postgres
	settings []string
}

// StartPgBouncer starts a private pgbouncer and returns when a query passes through it. ctx bounds the start alone.
func StartPgBouncer(ctx context.Context, opts PgBouncerOptions) (*PgBouncer, error) {
	binary, err := findPgBouncer()
	if err != nil {
		return nil, err
	}
	b := &PgBouncer{postgres: opts.Postgres, settings: opts.Settings}
	b.spec = spec{
		name:    "pgbouncer",
		binary:  binary,
		users:   []string{"postgres", "nobody"}, // it refuses to run as root
		stop:    syscall.SIGTERM,                // SIGINT would wait for clients
		args:    func(data string, _ int) []string { return []string{filepath.Join(data, "pgbouncer.ini")} },
		ready:   b.ready,
		prepare: func(context.Context, runner) error { return b.configure() },
	}
	if err := b.open(ctx, "", 0, opts.Log); err != nil {
		return nil, err
	}
	return b, nil
}

// URL names a database of the Postgres behind, through the pgbouncer. A pgbouncer older than 1.21 knows no prepared
// statements, so none are used.
func (b *PgBouncer) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Host: b.Addr(), Path: database}
	u.RawQuery = "sslmode=disable&default_query_exec_mode=exec"
	return u.String()
}

// configure writes the file of settings. Whoever connects is the superuser, as with the private Postgres itself.
func (b *PgBouncer) configure() error {
	host, port, _ := strings.Cut(b.postgres.Addr(), ":")
	lines := append([]string{
		"[databases]", fmt.Sprintf("* = host=%s port=%s user=%s", host, port, superuser),
		"[pgbouncer]", "listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", b.port), "unix_socket_dir =",
		"auth_type = any", "pool_mode = transaction", "max_client_conn = 500",
	}, b.settings...)
	path := filepath.Join(b.folder.data, "pgbouncer.ini")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("settings of pgbouncer: %w", err)
	}
	return b.folder.give(path)
}

func (b *PgBouncer) ready(ctx context.Context, _ int) error {
	conn, err := pgx.Connect(ctx, b.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx)
}
