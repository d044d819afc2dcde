package inventory_test

import (
	"testing"

	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// F27 and F28 with a pgbouncer in transaction mode in between: it answers, and the server behind it does not.
func TestF27BehindPgBouncer(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(server *local.Postgres) error{
		"killed": func(server *local.Postgres) error { server.Kill(); return nil },
		"frozen": (*local.Postgres).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, url := ownPostgres(t, local.PostgresOptions{})
			pooler := storetest.NewPgBouncer(t, local.PgBouncerOptions{
				Postgres: server, Settings: []string{"default_pool_size = 4", "server_login_retry = 1"},
			})
			w := newWorld(t, 2, withPostgres(url), through(pooler.URL("postgres")), patient)
			postgresAway(t, w, func() {
				if err := stop(server); err != nil {
					t.Fatal(err)
				}
			}, func() {
				if err := revive(t, server); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
