package ledger

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
)

// TestRaiseEpochWaitsForTheOpenSale: the sale has written and not committed when the epoch is raised. The
// adopt waits, and counts it; what still runs under the old epoch is stale.
func TestRaiseEpochWaitsForTheOpenSale(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	watcher := f.connect()
	inside, commit := f.holdCommit()
	var wg sync.WaitGroup
	wg.Go(func() { f.sell(1, 3) })
	<-inside
	var raised store.Allotment
	wg.Go(func() { raised = f.raise(show, 1) })
	f.eventuallyWaiting(watcher)
	commit()
	wg.Wait()
	if raised.Sold != 3 || raised.Epoch != 2 {
		t.Errorf("raised: sold %d, epoch %d; want 3 and 2", raised.Sold, raised.Epoch)
	}
	if v := f.settle(single(2, 1)); v[0].Kind != stale {
		t.Errorf("under epoch 1: %v, want stale", v[0].Kind)
	}
	f.wantSold(3)
}

// TestSaleWaitsForTheAdopt is the same race the other way: the epoch is being raised when the sale comes.
func TestSaleWaitsForTheAdopt(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	adopt, watcher := f.connect(), f.connect()
	f.exec(adopt, `begin`)
	f.exec(adopt, `select from allotments where id = $1 for update`, show)
	f.exec(adopt, `update allotments set epoch = 2 where id = $1`, show)
	var v []store.Verdict
	var wg sync.WaitGroup
	wg.Go(func() { v = f.settle(single(1, 1)) })
	f.eventuallyWaiting(watcher)
	f.exec(adopt, `commit`)
	wg.Wait()
	if len(v) != 1 || v[0].Kind != stale {
		t.Errorf("verdicts %+v, want stale", v)
	}
	f.wantSold(0)
}

// TestSecondWriterReadsAfterTheLock: two replicas confirm one hold. The second waits for the row, and must see
// what the first has written, with a snapshot taken after that.
func TestSecondWriterReadsAfterTheLock(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	f.create(other, 10)
	second := setupAt(t, f.url)
	watcher := f.connect()
	inside, commit := f.holdCommit()
	var wg sync.WaitGroup
	wg.Go(func() { f.sell(1, 3) })
	<-inside
	var v []store.Verdict
	wg.Go(func() { v = second.settle(order("another", line(show, 1, 3), line(other, 2, 1))) })
	f.eventuallyWaiting(watcher)
	commit()
	wg.Wait()
	if len(v) != 2 || v[0].Kind != sold || v[0].Sale.OrderID != "order-1" || v[1].Kind != refusedCart {
		t.Errorf("second writer: %+v", v)
	}
	f.wantSold(3)
}

// TestCreateWhileAnotherCreates for allotments: the winner's row is not visible to the insert that waited for it.
func TestCreateWhileAnotherCreates(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	winner, watcher := f.connect(), f.connect()
	f.exec(winner, `begin`)
	f.exec(winner, `insert into allotments (id, group_id, buckets, capacity, state, late_confirm, hold_duration_ms,
			max_hold_duration_ms, max_per_hold, created)
		select 'new', 'new', buckets, capacity, state, late_confirm, hold_duration_ms, max_hold_duration_ms, max_per_hold,
			jsonb_set(created, '{group}', '"new"') from allotments where id = $1`, show)
	var a store.Allotment
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { a, err = f.CreateAllotment(t.Context(), newAllotment("new", 10)) })
	f.eventuallyWaiting(watcher)
	f.exec(winner, `commit`)
	wg.Wait()
	if err != nil || a.Allotment != "new" || a.Capacity != 10 {
		t.Errorf("%+v, %v; want the winner's row", a, err)
	}
}

// TestRefusedRowOfARaisedEpoch: a hold that survived an adopt is judged under the new epoch with the token it always had.
func TestRefusedRowOfARaisedEpoch(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	f.raise(show, 1)
	survivor := with(line(show, 1, 1), func(l *store.ConfirmLine) { l.Epoch = 2 })
	if v := f.settle(order("o1", survivor)); v[0].Kind != sold || v[0].Token != (store.Token{Epoch: 1, Sequence: 1}) {
		t.Errorf("survivor: %+v", v[0])
	}
}

// TestLocksAreTakenInOrder: a cart locks its allotments by id, whatever its own order, so that two cannot deadlock.
func TestLocksAreTakenInOrder(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	f.create(other, 10)
	first, watcher := f.connect(), f.connect()
	f.exec(first, `begin`)
	f.exec(first, `select from allotments where id = $1 for update`, other) // sorts before show
	var wg sync.WaitGroup
	wg.Go(func() { f.settle(order("o1", line(show, 1, 1), line(other, 1, 1))) })
	f.eventuallyWaiting(watcher)
	// The waiting cart must not have the second lock yet.
	var free []string
	rows, _ := first.Query(t.Context(), `select id from allotments for update skip locked`)
	free, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(free) != 2 {
		t.Errorf("free to the first: %v, %v; want both", free, err)
	}
	f.exec(first, `commit`)
	wg.Wait()
}
