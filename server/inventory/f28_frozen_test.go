package inventory_test

import (
	"testing"

	"github.com/holdfast-inventory/holdfast/store/local"
)

// F28: every process of Postgres is stopped, so that connections stay and nobody answers. Those who wait are let go when that
// is known, and those who come later do not wait: the calls of this world would take an hour. What they had sent is done when
// Postgres goes on, by itself or by a supervisor, once.
func TestF28PostgresFrozen(t *testing.T) {
	t.Parallel()
	server, url := ownPostgres(t, local.PostgresOptions{})
	w := newWorld(t, 2, withPostgres(url), patient)
	postgresAway(t, w, func() {
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		for i, r := range w.replicas {
			if r.ledger.Down() {
				t.Errorf("replica %d knows of the outage before anybody met it", i)
			}
		}
	}, server.Resume)
}
