package local_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestPostgresSettings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		opts local.PostgresOptions
		want map[string]string
	}{
		{"for tests", local.PostgresOptions{}, map[string]string{
			"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "200", "fsync": "off",
			"synchronous_commit": "on", "server_encoding": "UTF8", "lc_collate": "C.UTF-8", "data_checksums": "off",
		}},
		{"durable", local.PostgresOptions{Fsync: true, ExtraArgs: []string{"-c", "max_connections=50"}}, map[string]string{
			"fsync": "on", "full_page_writes": "on", "max_connections": "50",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := storetest.NewPostgres(t, test.opts)
			conn := connect(t, p.URL("postgres"))
			got := make(map[string]string)
			for name := range test.want {
				var value string
				must(t, conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&value))
				got[name] = value
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPostgresKeepsData(t *testing.T) {
	t.Parallel()
	p := storetest.NewPostgres(t, local.PostgresOptions{})
	must(t, p.CreateDatabase(t.Context(), "Some Name"))
	must(t, p.CreateDatabase(t.Context(), "Some Name")) // again: nothing
	conn := connect(t, p.URL("Some Name"))
	_, err := conn.Exec(t.Context(), "CREATE TABLE rows (n int)")
	must(t, err)
	addr := p.Addr()
	ends := []struct {
		name string
		end  func()
	}{
		{"stop", func() { must(t, p.Stop(t.Context())) }},
		{"kill", p.Kill},
		{"running", func() {}},
		{"kill when paused", func() { must(t, p.Pause()); p.Kill() }},
	}
	for i, test := range ends {
		conn := connect(t, p.URL("Some Name")) // an open session delays neither end nor restart
		_, err := conn.Exec(t.Context(), "INSERT INTO rows VALUES ($1)", i)
		must(t, err)
		test.end()
		must(t, p.Restart(t.Context()))
		if p.Addr() != addr {
			t.Errorf("after %s: restarted at %s, was at %s", test.name, p.Addr(), addr)
		}
		var rows int
		must(t, connect(t, p.URL("Some Name")).QueryRow(t.Context(), "SELECT count(*) FROM rows").Scan(&rows))
		if rows != i+1 {
			t.Errorf("after %s: got %d rows, want %d", test.name, rows, i+1)
		}
	}
}

func TestPostgresKillEndsSessions(t *testing.T) {
	t.Parallel()
	p := storetest.NewPostgres(t, local.PostgresOptions{})
	conn := connect(t, p.URL("postgres"))
	backend := int(conn.PgConn().PID())
	busy := make(chan error, 1)
	go func() {
		// A session in the midst of work does not look whether its server still lives.
		_, err := conn.Exec(context.Background(), "SELECT count(*) FROM generate_series(1, 10000000000)")
		busy <- err
	}()
	watch := connect(t, p.URL("postgres"))
	storetest.Eventually(t, 10*time.Second, func() error { return activeQuery(t, watch, backend) })
	p.Kill()
	if err := <-busy; err == nil {
		t.Error("the session went on after Kill")
	}
	storetest.Eventually(t, 10*time.Second, func() error { return gone(backend) })
	segment := sharedMemory(t, p)
	must(t, p.Close(t.Context()))
	list, err := exec.Command("ipcs", "-m").Output()
	must(t, err)
	if slices.Contains(strings.Fields(string(list)), segment) {
		t.Errorf("shared memory segment %s is still there after Close", segment)
	}
}

// sharedMemory reads the id of a server's System V segment.
func sharedMemory(t *testing.T, p *local.Postgres) string {
	t.Helper()
	text, err := os.ReadFile(p.Dir() + "/postgres/postmaster.pid")
	must(t, err)
	fields := strings.Fields(strings.Split(string(text), "\n")[6])
	return fields[len(fields)-1]
}

// activeQuery returns an error until that session runs a query.
func activeQuery(t *testing.T, conn *pgx.Conn, backend int) error {
	t.Helper()
	var found int
	return conn.QueryRow(t.Context(), "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND state = 'active'", backend).Scan(&found)
}

func TestPostgresPauseStopsSessions(t *testing.T) {
	t.Parallel()
	p := storetest.NewPostgres(t, local.PostgresOptions{})
	conn := connect(t, p.URL("postgres"))
	must(t, conn.Ping(t.Context()))
	must(t, p.Pause())
	answered := make(chan error, 1)
	go func() { answered <- conn.Ping(context.Background()) }()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := pgx.Connect(short, p.URL("postgres")); err == nil {
		t.Error("a paused Postgres took a session")
	}
	select {
	case err := <-answered:
		t.Fatalf("a session answered while paused: %v", err)
	default:
	}
	p.Resume()
	must(t, <-answered)
}
