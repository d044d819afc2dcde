package inventory_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
)

// F34: others have taken every connection that Postgres has to give. Whoever needs one is told at once, holds are decided,
// and the confirms are ended when there are connections again. That loops and sales do not take each other's is TestExhaustedPools.
func TestF34OutOfConnections(t *testing.T) {
	t.Parallel()
	_, url := ownPostgres(t, local.PostgresOptions{ExtraArgs: []string{"-c", "max_connections=20"}})
	w := newWorld(t, 2, withPostgres(url), patient)
	a := w.open(20)
	pinned := w.buyers(a, 8)
	w.confirm(w.hold(a, "early", "r1", 1), "order-early")
	giveBack := takeConnections(t, url)
	w.broken = true
	met := 0
	for i, h := range pinned {
		_, err := w.tryConfirm(i, h, fmt.Sprint("order-", i))
		wantResultUnknown(t, err)
		if sqlState(err) == "53300" {
			met++
		}
		w.wantState(h, store.Confirming)
		if w.replicas[0].ledger.Down() || w.replicas[1].ledger.Down() {
			t.Error("Postgres is taken for down: sales on connections that are there would not be made")
		}
	}
	if met == 0 {
		t.Error("no confirm met 53300, too_many_connections")
	}
	w.decidesHolds(a)
	giveBack()
	for _, h := range pinned {
		w.finishedAlone(h)
	}
	w.wantSales(a, 9)
	w.wantStock(a, 11, 0, 9)
}

// takeConnections takes all connections of a server, those of the service too, until they are given back.
func takeConnections(t *testing.T, url string) (giveBack func()) {
	t.Helper()
	first := session(t, url)
	taken := []*pgx.Conn{}
	giveBack = func() {
		for _, conn := range taken {
			_ = conn.Close(context.Background())
		}
		taken = nil
	}
	t.Cleanup(func() { giveBack() })
	w := &world{t: t}
	w.until(func() error {
		run(t, first, `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holdfast'`)
		for {
			conn, err := pgx.Connect(t.Context(), url)
			if sqlState(err) == "53300" {
				break
			}
			if err != nil {
				return err
			}
			taken = append(taken, conn)
		}
		var theirs int
		err := first.QueryRow(t.Context(), `select count(*) from pg_stat_activity where application_name = 'holdfast'`).Scan(&theirs)
		if err == nil && theirs > 0 {
			err = fmt.Errorf("the service has %d connections", theirs)
		}
		return err
	})
	return giveBack
}
