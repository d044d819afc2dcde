package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestArrivalsGather: what comes while a transaction is in flight shares the next one, and one group does not
// wait for another.
func TestArrivalsGather(t *testing.T) {
	t.Parallel()
	f := setup(t, 1000)
	f.create(other, 10)
	entered, leave := f.holdCommit()
	hold := f.mark
	var commits atomic.Int32
	f.mark = func(point string) {
		if hold(point); point == "ledger-after-commit" {
			commits.Add(1)
		}
	}
	var got tally
	var wg sync.WaitGroup
	settle := func(n int) {
		v, err := f.Settle(t.Context(), show, single(n, 1))
		got.add(t, v, err)
	}
	wg.Go(func() { settle(0) })
	<-entered
	for n := 1; n <= 100; n++ {
		wg.Go(func() { settle(n) })
	}
	storetest.Eventually(t, 5*time.Second, func() error {
		if n := f.lanes.Waiting(show); n != 100 {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
	if v, err := f.Settle(t.Context(), other, order("o", line(other, 1, 1))); err != nil || v[0].Kind != sold {
		t.Errorf("another group: %v, %v", v, err)
	}
	leave()
	wg.Wait()
	got.want(t, map[store.VerdictKind]int{sold: 101})
	if n := commits.Load(); n != 3 { // the first, the other group's, and one for the hundred
		t.Errorf("%d transactions, want 3", n)
	}
}

// TestCallerGone: who gave up before the transaction was sent has bought nothing; who gave up after it has.
func TestCallerGone(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Settle(dead, show, single(1, 1)); !errors.Is(err, context.Canceled) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("dead context: %v", err)
	}
	entered, leave := f.holdCommit()
	sent, giveUpSent := context.WithCancel(t.Context())
	queued, giveUpQueued := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	go func() { _, err := f.Settle(sent, show, single(2, 1)); errs <- err }()
	<-entered
	go func() { _, err := f.Settle(queued, show, single(3, 1)); errs <- err }()
	storetest.Eventually(t, 5*time.Second, func() error {
		if f.lanes.Waiting(show) != 1 {
			return errors.New("not queued")
		}
		return nil
	})
	giveUpQueued()
	giveUpSent()
	for range 2 {
		if err := <-errs; !errors.Is(err, context.Canceled) || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("given up: %v", err)
		}
	}
	leave()
	f.sell(4, 1) // behind both in the lane
	got, err := f.Outcomes(t.Context(), show, []string{single(1, 1).Lines[0].ID.Tag, single(2, 1).Lines[0].ID.Tag, single(3, 1).Lines[0].ID.Tag})
	if err != nil || len(got) != 1 || got[single(2, 1).Lines[0].ID.Tag].Verdict.Kind != sold {
		t.Errorf("outcomes %v, %v; want the one that was sent", got, err)
	}
}

func TestFullLane(t *testing.T) {
	t.Parallel()
	f := setup(t, 10, func(o *Options) { o.CallTimeout = 30 * time.Second })
	entered, leave := f.holdCommit()
	var wg sync.WaitGroup
	wg.Go(func() { f.sell(1, 1) })
	<-entered
	gone, cancel := context.WithCancel(t.Context())
	for range maxWaiting {
		wg.Go(func() { _, _ = f.Settle(gone, show, single(2, 1)) })
	}
	storetest.Eventually(t, 20*time.Second, func() error {
		if n := f.lanes.Waiting(show); n != maxWaiting {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
	ctx, giveUp := context.WithTimeout(t.Context(), 5*time.Second)
	defer giveUp()
	if _, err := f.Settle(ctx, show, single(3, 1)); !errors.Is(err, store.ErrQueueFull) {
		t.Errorf("one more: %v, want ErrQueueFull", err)
	}
	cancel()
	leave()
	wg.Wait()
}

// TestOthersLeaveRoomForSales: calls that wait, as for a row that somebody has locked, leave connections to the sales of other allotments.
func TestOthersLeaveRoomForSales(t *testing.T) {
	t.Parallel()
	const patience, longer = 20 * time.Second, 10 * time.Minute
	f := setup(t, 10, func(o *Options) {
		o.MaxConns, o.LockTimeout, o.StatementTimeout, o.CallTimeout = 4, longer, longer, longer
	})
	f.create(other, 10)
	id := f.sell(1, 3)
	locker := f.connect()
	f.exec(locker, `begin`)
	f.exec(locker, `select from allotments where id = $1 for update`, show)
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer leave()
	for i := range 10 {
		wg.Go(func() {
			_, _, _ = f.CancelSale(ctx, store.CancelSale{ID: id, RequestID: fmt.Sprint(i), Quantity: 1}) // nobody lets it
		})
	}
	storetest.Eventually(t, patience, func() error {
		if n := f.requests.Stat().AcquiredConns(); n < 2 {
			return fmt.Errorf("%d calls have connections", n)
		}
		return nil
	})
	selling, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n := range 10 {
		if v, err := f.Settle(selling, other, order(fmt.Sprint(n), line(other, n, 1))); err != nil || v[0].Kind != sold {
			t.Fatalf("sale %d of another allotment: %v, %v", n, v, err)
		}
	}
}

// TestTotalsLeaveRoomForLoops: buyer totals that take long leave a connection to what the loops ask meanwhile.
func TestTotalsLeaveRoomForLoops(t *testing.T) {
	t.Parallel()
	const patience, longer = 20 * time.Second, 10 * time.Minute
	f := setup(t, 10, func(o *Options) { o.LockTimeout, o.StatementTimeout, o.ScanTimeout = longer, longer, longer })
	locker := f.connect()
	f.exec(locker, `begin`)
	f.exec(locker, `lock table cancellations in access exclusive mode`)
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer leave()
	for range 10 {
		wg.Go(func() { _ = f.BuyerTotals(ctx, show, 0, nil) }) // nobody lets it
	}
	storetest.Eventually(t, patience, func() error {
		if f.background.Stat().AcquiredConns() == 0 {
			return errors.New("none has a connection")
		}
		return nil
	})
	for range 20 {
		if _, err := f.Pending(t.Context(), "", 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.background.Stat().AcquiredConns(); n != 1 {
		t.Errorf("buyer totals have %d connections, want 1", n)
	}
}
