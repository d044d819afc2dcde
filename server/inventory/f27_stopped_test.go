package inventory_test

import (
	"syscall"
	"testing"

	"github.com/holdfast-inventory/holdfast/store/local"
)

// F27: Postgres is stopped, in the three ways there are, and started again.
func TestF27PostgresStopped(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(t *testing.T, server *local.Postgres){
		"fast": func(t *testing.T, server *local.Postgres) {
			if err := server.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"immediate": func(t *testing.T, server *local.Postgres) {
			if err := syscall.Kill(server.PID(), syscall.SIGQUIT); err != nil {
				t.Error(err)
			}
			<-server.Exited()
		},
		"killed": func(_ *testing.T, server *local.Postgres) { server.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, url := ownPostgres(t, local.PostgresOptions{})
			w := newWorld(t, 2, withPostgres(url), patient)
			postgresAway(t, w, func() { stop(t, server) }, func() {
				if err := server.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
