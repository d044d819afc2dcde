package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/ledger"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// The f26_..._test.go to f34_..._test.go files break Postgres, or the way to it, in each way that the fault matrix
// names. Each test shows that its fault hit, and world.open checks the promises when it is over.

// ownPostgres starts a Postgres for this test alone, and returns the URL of a database with the ledger's tables.
func ownPostgres(t *testing.T, options local.PostgresOptions) (server *local.Postgres, at string) {
	t.Helper()
	server = storetest.NewPostgres(t, options)
	at = server.URL("postgres")
	if err := ledger.Migrate(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	return server, at
}

// at is a URL with another address.
func at(t *testing.T, text, address string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = address
	return u.String()
}

// patient lets nothing but an answer, or the knowledge that there will be none, end a call to the ledger within a test's
// patience: who is told before that did not just wait for a timeout.
func patient(w *world) {
	withLedger(func(o *ledger.Options) { o.CallTimeout, o.StatementTimeout = time.Hour, time.Hour })(w)
	withOptions(func(o *inventory.Options) { o.ConfirmTime = time.Hour })(w)
}

// knowsDown waits until every replica knows that Postgres is down, or that it is not.
func (w *world) knowsDown(down bool) {
	w.t.Helper()
	w.until(func() error {
		for i, r := range w.replicas {
			if r.ledger.Down() != down {
				return fmt.Errorf("replica %d: down is %t, want %t", i, !down, down)
			}
		}
		return nil
	})
}

// wantResultUnknown checks that a confirm's caller was told that the end of it is not known.
func wantResultUnknown(t testing.TB, err error) {
	t.Helper()
	if refusalOf(err) != "" || !errors.Is(err, store.ErrResultUnknown) {
		t.Errorf("got %v, want RESULT_UNKNOWN", err)
	}
}

// sqlState is the server's error in err's chain; empty: there is none.
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// confirming starts a confirm that waits for its allotment's row, which somebody else has locked.
func (w *world) confirming(h store.Hold, order string) (answer <-chan error) {
	w.t.Helper()
	told := make(chan error, 1)
	go func() {
		_, err := w.tryConfirm(0, h, order)
		told <- err
	}()
	w.until(func() error {
		var waiting int
		w.query(`select count(*) from pg_stat_activity where wait_event_type = 'Lock'`, nil, &waiting)
		if waiting == 0 {
			return errors.New("no session waits for the lock")
		}
		return nil
	})
	return told
}

// told is the answer of a call that must be answered within the test's patience.
func (w *world) told(answer <-chan error) error {
	w.t.Helper()
	select {
	case err := <-answer:
		return err
	case <-time.After(patience):
		w.t.Fatal("not told")
		return nil
	}
}

// finishedAlone waits until a confirm that nobody repeats is a sale, and Redis knows it.
func (w *world) finishedAlone(h store.Hold) (sale store.Sale) {
	w.t.Helper()
	w.until(func() (err error) {
		sale, err = w.next().Sale(w.ctx(), h.ID)
		if err == nil {
			var now store.Hold
			now, err = w.next().Hold(w.ctx(), h.ID)
			if err == nil && now.State != store.Sold {
				err = fmt.Errorf("its state is %d", now.State)
			}
		}
		return err
	})
	return sale
}

// decidesHolds checks that every replica gives, extends and cancels holds, although Postgres is away.
func (w *world) decidesHolds(allotment string) {
	w.t.Helper()
	for i, r := range w.replicas {
		h, err := r.CreateHold(w.ctx(), fmt.Sprint("meanwhile-", i), "r1", line(allotment, 1))
		if err == nil {
			_, err = r.ExtendHold(w.ctx(), h.ID)
		}
		if err == nil {
			_, err = r.CancelHold(w.ctx(), h.ID)
		}
		if err != nil {
			w.t.Errorf("replica %d: %v; want it to decide", i, err)
		}
	}
}

// postgresAway is the story of an outage: holds are decided, confirms are pinned and told so, none lapses, and all of them
// are sales when Postgres is back, without anybody's repeating them.
func postgresAway(t *testing.T, w *world, away, back func()) {
	a, b := w.pair(20, 20)
	pinned := w.buyers(a, 8)
	cart, err := w.cart(0, "family", "r1", line(a, 2), line(b, 2))
	if err != nil {
		t.Fatal(err)
	}
	late := w.hold(a, "late", "r1", 1)
	w.confirm(w.hold(a, "early", "r1", 1), "order-early")

	away()
	together(len(pinned), func(i int) { // the first to meet the outage
		_, err := w.tryConfirm(i, pinned[i], fmt.Sprint("order-", i))
		wantResultUnknown(t, err)
	})
	w.knowsDown(true)
	together(5*len(pinned), func(i int) { // their repeats
		_, err := w.tryConfirm(i, pinned[i%len(pinned)], fmt.Sprint("order-", i%len(pinned)))
		wantResultUnknown(t, err)
	})
	_, err = w.at(0).ConfirmHolds(w.ctx(), []store.HoldID{cart[0].ID, cart[1].ID}, "order-family")
	wantResultUnknown(t, err)
	w.decidesHolds(a)
	w.advance(121 * time.Second)
	for _, h := range append(pinned, cart...) {
		w.wantState(h, store.Confirming)
	}
	w.wantState(late, store.Lapsed) // nobody confirmed it
	w.wantStock(a, 9, 10, 1)

	back()
	sales := make([]store.Sale, len(pinned))
	for i, h := range pinned {
		sales[i] = w.finishedAlone(h)
	}
	w.finishedAlone(cart[0])
	w.finishedAlone(cart[1])
	for i, h := range pinned {
		if again := w.confirm(h, fmt.Sprint("order-", i)); again != sales[i] {
			t.Errorf("the repeat of %d gets %+v, want %+v", i, again, sales[i])
		}
	}
	w.wantSales(a, len(pinned)+2)
	w.wantStock(a, 9, 0, 11)
	w.wantStock(b, 18, 0, 2)
}

// data is the folder of a Postgres's files.
func data(server *local.Postgres) string { return filepath.Join(server.Dir(), "postgres") }

// copyFolder copies a folder of a server that is stopped, with its owner.
func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v: %s", from, err, out)
	}
}

// session opens a connection past the product, closed at the test's end.
func session(t *testing.T, at string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// saleRow is nil if the hold's sale is in the database.
func (w *world) saleRow(h store.Hold) error {
	var rows int
	w.query(`select count(*) from outcomes where hold_id = $1 and verdict = 'SOLD'`, []any{h.ID.String()}, &rows)
	if rows != 1 {
		return fmt.Errorf("%d sales of the hold", rows)
	}
	return nil
}
