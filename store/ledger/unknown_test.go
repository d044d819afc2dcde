package ledger

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// setupLossy is a ledger behind a proxy.
func setupLossy(t *testing.T, capacity int64) (*fixture, *proxy) {
	t.Helper()
	direct := setup(t, capacity)
	p := newProxy(t, direct.url)
	return setupAt(t, p.url), p
}

// TestLostCommit: the answer to COMMIT is lost. What the row says is answered.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	f, p := setupLossy(t, 10)
	p.lose.Store(1)
	f.sell(1, 2)
	f.wantSold(2)
	p.lose.Store(1)
	for i, r := range f.together(single(2, 1), single(3, 1), single(4, 20)) {
		want := []store.VerdictKind{sold, sold, refusedRoom}[i]
		if r.err != nil || r.verdicts[0].Kind != want {
			t.Errorf("confirm %d: %v, %v", i, r.verdicts, r.err)
		}
	}
	f.wantSold(4)
	if n := p.lost.Load(); n != 2 {
		t.Errorf("%d answers lost, want 2", n)
	}
}

// TestLostCommitAndServer: nobody can say what happened, so nobody does. The row is there for who asks later.
func TestLostCommitAndServer(t *testing.T) {
	t.Parallel()
	f, p := setupLossy(t, 10)
	f.sell(1, 1)
	var cut sync.Once
	f.mark = func(string) { cut.Do(func() { p.refusing.Store(true) }) }
	p.lose.Store(1)
	if v, err := f.Settle(t.Context(), show, single(2, 1)); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("%v, %v; want ErrUnavailable", v, err)
	}
	f.eventuallyDown()
	p.refusing.Store(false)
	f.eventuallyUp()
	f.sell(2, 1)
	f.wantSold(2)
}

// TestLostCommitOfOtherWrites: what may run twice does, once for the books. The rest is not known, and not
// called superseded by its own success.
func TestLostCommitOfOtherWrites(t *testing.T) {
	t.Parallel()
	f, p := setupLossy(t, 10)
	ctx := t.Context()
	id := f.sell(1, 5)
	before := f.allotment(show)

	p.lose.Store(1)
	sale, number, err := f.CancelSale(ctx, store.CancelSale{ID: id, RequestID: "c1", Quantity: 2})
	if err != nil || sale.Cancelled != 2 || number != before.Feed+1 {
		t.Errorf("CancelSale: %+v, %d, %v", sale, number, err)
	}
	p.lose.Store(1)
	a, made, err := f.Grow(ctx, store.Adjustment{Allotment: show, RequestID: "g1", Delta: 5})
	if err != nil || a.Capacity != 15 || made.Feed != before.Feed+2 {
		t.Errorf("Grow: %+v, %+v, %v", a, made, err)
	}
	p.lose.Store(1)
	if _, err := f.CreateAllotment(ctx, newAllotment(other, 5)); err != nil {
		t.Errorf("CreateAllotment: %v", err)
	}
	p.lose.Store(1)
	if err := f.Applied(ctx, show, a.Epoch, a.Feed); err != nil {
		t.Errorf("Applied: %v", err)
	}
	p.lose.Store(1)
	if _, err := f.UpdateRules(ctx, show, a.Version, rules()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("UpdateRules: %v, want ErrUnavailable", err)
	}
	p.lose.Store(1) // of one that has nothing to write, the end is known
	if _, err := f.UpdateRules(ctx, show, 99, rules()); store.Refused(err, store.StaleEtag) == nil {
		t.Errorf("UpdateRules of another version: %v, want STALE_ETAG", err)
	}
	p.lose.Store(1)
	if _, _, err := f.RaiseEpoch(ctx, show, 1, 0, 0); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("RaiseEpoch: %v, want ErrUnavailable", err)
	}
	if a := f.allotment(show); a.Sold != 3 || a.Capacity != 15 || a.Feed != before.Feed+3 || a.Epoch != 2 {
		t.Errorf("at the end: %+v", a)
	}
	if n := p.lost.Load(); n != 7 {
		t.Errorf("%d answers lost, want 7", n)
	}
}

// TestLostCommitOfARewind: the ledger went back in time, and it is not known whether the epoch was raised for that. If it was, as
// here, only this call could tell.
func TestLostCommitOfARewind(t *testing.T) {
	t.Parallel()
	f, p := setupLossy(t, 10)
	p.lose.Store(1)
	if _, wentBack, err := f.RaiseEpoch(t.Context(), show, 1, 1, 9); !errors.Is(err, store.ErrUnavailable) || !wentBack {
		t.Errorf("RaiseEpoch: %v, went back: %t; want ErrUnavailable, and that it did", err, wentBack)
	}
	a := f.allotment(show)
	if _, wentBack, err := f.RaiseEpoch(t.Context(), show, a.Epoch, 1, 9); err != nil || wentBack || a.State != store.StatePaused {
		t.Errorf("afterwards: %v, went back: %t, state %d", err, wentBack, a.State)
	}
}

// TestBackendKilledBeforeCommit: the server has certainly rolled back, and the confirm goes on.
func TestBackendKilledBeforeCommit(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	killer := f.connect()
	inside, release := f.holdCommit()
	var sale sync.WaitGroup
	sale.Go(func() { f.sell(1, 2) })
	<-inside
	f.exec(killer, `select pg_terminate_backend(pid) from pg_stat_activity
		where datname = current_database() and state = 'idle in transaction'`)
	release()
	sale.Wait()
	f.wantSold(2)
	if n := f.number(`select count(*) from outcomes`); n != 1 {
		t.Errorf("%d outcomes, want 1", n)
	}
}

// TestPausedInTransaction: the server ends a transaction that its owner has left open, and the owner, when it
// wakes, begins again.
func TestPausedInTransaction(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	watcher := f.connect()
	inside, wake := f.holdCommit()
	var sale sync.WaitGroup
	sale.Go(func() { f.sell(1, 2) })
	<-inside
	storetest.Eventually(t, 5*time.Second, func() error {
		var open int
		err := watcher.QueryRow(t.Context(), `select count(*) from pg_stat_activity
			where datname = current_database() and state = 'idle in transaction'`).Scan(&open)
		if err == nil && open != 0 {
			err = errors.New("the transaction is still open")
		}
		return err
	})
	f.exec(watcher, `select from allotments for update nowait`)
	wake()
	sale.Wait()
	f.wantSold(2)
}

// TestRestartedServer: every connection of the pool is dead, and as soon as the server is known to be back nobody notices.
func TestRestartedServer(t *testing.T) {
	t.Parallel()
	server, url := ownServer(t)
	f := setupAt(t, url)
	f.create(show, 100)
	each(20, func(n int) { f.allotment(show) }) // fill the pool
	f.sell(1, 1)
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.eventuallyUp()
	f.sell(2, 1)
	f.wantSold(2)
}

// TestServerKilledUnderLoad: after a crash, what was answered is there, and what was not answered can be repeated.
func TestServerKilledUnderLoad(t *testing.T) {
	t.Parallel()
	_, url := ownServer(t)
	f := setupAt(t, url, func(o *Options) { o.CallTimeout = 2 * time.Second })
	f.create(show, 1000)
	bystander := f.connect()
	var mu sync.Mutex
	answered, unknown := map[int]bool{}, map[int]bool{}
	var once sync.Once
	each(400, func(n int) {
		if n == 150 {
			once.Do(func() { killBackends(t, url) })
		}
		_, err := f.Settle(t.Context(), show, single(n, 1))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			answered[n] = true
		case errors.Is(err, store.ErrUnavailable):
			unknown[n] = true
		default:
			t.Errorf("confirm %d: %v", n, err)
		}
	})
	storetest.Eventually(t, 10*time.Second, func() error {
		if bystander.Ping(t.Context()) == nil {
			return errors.New("the server has not crashed yet: it would have ended all sessions")
		}
		return f.Ping(t.Context())
	})
	for n := range answered {
		if _, err := f.Sale(t.Context(), line(show, n, 1).ID); err != nil {
			t.Errorf("sale %d was answered: %v", n, err)
		}
	}
	for n := range unknown {
		f.sell(n, 1)
	}
	f.wantSold(400)
}

// killBackends makes the server restart itself, as after a crash of one of its processes.
func killBackends(t *testing.T, url string) {
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(context.Background())
	_, _ = conn.Exec(t.Context(), `copy (select 1) to program 'kill -9 $PPID'`)
}
