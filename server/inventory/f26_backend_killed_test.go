package inventory_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/holdfast-inventory/holdfast/store/local"
)

// F26: one of the server's processes is killed in the middle of a confirm. The server ends all sessions and recovers. What was
// acknowledged is there; what was not is finished, once.
func TestF26BackendKilled(t *testing.T) {
	t.Parallel()
	server, url := ownPostgres(t, local.PostgresOptions{})
	w := newWorld(t, 3, withPostgres(url))
	a, quiet := w.open(400), w.open(3)
	h := w.hold(quiet, "ann", "r1", 1)
	load := startLoad(w, a)
	load.until(100)
	w.lockRow(quiet) // until its session ends with all others
	bystander := session(t, url)
	answer := w.confirming(h, "order-1")
	var pid int
	w.query(`select pid from pg_stat_activity where wait_event_type = 'Lock' limit 1`, nil, &pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.broken = true
	if err := w.told(answer); err != nil { // or it was finished by its own second try
		wantResultUnknown(t, err)
	}
	w.until(func() error { // it ended all sessions, the locker's too
		if _, err := bystander.Exec(w.ctx(), `select 1`); !bystander.IsClosed() {
			return errors.Join(errors.New("the server has not crashed"), err)
		}
		return nil
	})
	w.knowsDown(false)
	w.finishedAlone(h)
	load.until(load.sold.Load() + 100)
	load.stop()
	load.sellOut(a)
	select {
	case <-server.Exited():
		t.Error("the whole server ended, not one of its processes")
	default:
	}
	w.wantSales(quiet, 1)
}
