package inventory_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// F33: Postgres is restored from an older copy of its files, and does not know what was sold since. The alarm is raised, and
// nothing is sold again before an operator has looked.
func TestF33PostgresRestored(t *testing.T) {
	t.Parallel()
	for name, notice := range map[string]func(w *world, forgotten store.Hold){
		"noticed by a buyer who asks again": func(w *world, forgotten store.Hold) {
			_, err := w.tryConfirm(0, forgotten, "order-forgotten")
			if err == nil {
				w.t.Error("a sale that the ledger does not have was confirmed")
			}
		},
		"noticed by a supervisor": func(*world, store.Hold) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, url := ownPostgres(t, local.PostgresOptions{})
			w := newWorld(t, 2, withPostgres(url))
			a := w.open(10)
			w.confirm(w.hold(a, "ann", "r1", 2), "order-1")
			older := filepath.Join(storetest.StateDir(t), "copy")
			stopped(t, server, func() { copyFolder(t, data(server), older) })
			w.knowsDown(false)
			forgotten := w.hold(a, "bob", "r1", 3)
			w.broken = true
			w.confirm(forgotten, "order-forgotten")
			w.wantSales(a, 2)
			stopped(t, server, func() {
				if err := os.RemoveAll(data(server)); err != nil {
					t.Fatal(err)
				}
				copyFolder(t, older, data(server))
			})
			w.wantSales(a, 1) // it has forgotten
			w.knowsDown(false)
			notice(w, forgotten)
			w.until(func() error {
				row, err := w.next().Allotment(w.ctx(), a)
				if err == nil && row.State != store.StatePaused {
					err = fmt.Errorf("its state is %v", row.State)
				}
				return err
			})
			w.until(func() error { // as soon as Redis knows it too
				_, err := w.tryHold(0, a, "carl", "r1", 1)
				if store.Refused(err, store.Paused) == nil {
					return fmt.Errorf("a hold: %w, want PAUSED", err)
				}
				return nil
			})
			if text := w.logged.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, forgotten.ID.String()) {
				t.Error("no alarm that names the lost sale")
			}
			w.wantStock(a, 8, 0, 2)
			w.setState(a, store.StateOpen) // the operator's word
			w.confirm(w.hold(a, "carl", "r2", 8), "order-2")
		})
	}
}

// stopped does something to the files of a server while it is stopped.
func stopped(t *testing.T, server *local.Postgres, do func()) {
	t.Helper()
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	do()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}
