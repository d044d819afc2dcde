package ledger

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestStandbyAway: what no synchronous standby has is lost in a failover, so it is not told: not by the call that wrote it, whose
// COMMIT waits, nor by one that finds it when that wait was given up and the row can be seen. Plain reads show it.
func TestStandbyAway(t *testing.T) {
	t.Parallel()
	_, url := ownServer(t)
	f := setupAt(t, url, func(o *Options) { o.CallTimeout = time.Second })
	f.create(show, 1000)
	f.sell(0, 1)
	f.exec(f.connect(), `alter system set synchronous_standby_names = 'nobody'`)
	f.exec(f.connect(), `select pg_reload_conf()`)

	c, cancel := f.unreplicated()
	other := store.CancelSale{ID: cancel.ID, RequestID: "another"}
	found := []struct {
		name string
		call func() error
	}{
		{"the sale again", func() error { _, err := f.Settle(t.Context(), show, c); return err }},
		{"the cancellation again", func() error { _, _, err := f.CancelSale(t.Context(), cancel); return err }},
		{"a refusal because of it", func() error { _, _, err := f.CancelSale(t.Context(), other); return err }},
		{"the allotment again", func() error { _, err := f.CreateAllotment(t.Context(), newAllotment("new", 1)); return err }},
	}
	for _, call := range found {
		if err := call.call(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", call.name, err)
		}
	}

	f.exec(f.connect(), `alter system reset synchronous_standby_names`)
	f.exec(f.connect(), `select pg_reload_conf()`)
	storetest.Eventually(t, 10*time.Second, func() error {
		v, err := f.Settle(t.Context(), show, c)
		if err == nil && v[0].Kind != sold {
			t.Fatalf("without a standby: %+v, want SOLD", v)
		}
		return err
	})
	for _, call := range found {
		if err := call.call(); err != nil && store.Refused(err, store.SaleCancelled) == nil {
			t.Errorf("without a standby: %s: %v", call.name, err)
		}
	}
}

// TestWaitForStandbyEndedByHand: the server answers a COMMIT as done whose wait somebody has ended. No standby has it all the same.
// That is told by a warning, which the server is set not to send.
func TestWaitForStandbyEndedByHand(t *testing.T) {
	t.Parallel()
	_, url := ownServer(t)
	f := setupAt(t, url, func(o *Options) { o.CallTimeout = 2 * time.Second })
	f.create(show, 1000)
	hand := f.connect()
	f.exec(hand, `alter system set client_min_messages = 'error'`)
	f.exec(hand, `alter system set synchronous_standby_names = 'nobody'`)
	f.exec(hand, `select pg_reload_conf()`)
	c, _ := f.unreplicated()
	told := make(chan error, 1)
	go func() {
		_, err := f.Settle(t.Context(), show, c)
		told <- err
	}()
	storetest.Eventually(t, 5*time.Second, func() error {
		tag, err := hand.Exec(t.Context(), `select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`)
		if err == nil && tag.RowsAffected() == 0 {
			err = errors.New("no COMMIT waits")
		}
		return err
	})
	if err := <-told; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	f.exec(hand, `alter system reset synchronous_standby_names`)
	f.exec(hand, `select pg_reload_conf()`)
	storetest.Eventually(t, 10*time.Second, func() error {
		_, err := f.Settle(t.Context(), show, c)
		return err
	})
}

// unreplicated makes a sale, its cancellation and the allotment "new", which can all be seen while no standby has them. (The first sales
// may come before the server has read its settings again.)
func (f *fixture) unreplicated() (store.Confirm, store.CancelSale) {
	f.t.Helper()
	var c store.Confirm
	n := 0
	storetest.Eventually(f.t, 10*time.Second, func() error {
		n++
		c = single(n, 1)
		if _, err := f.Settle(f.t.Context(), show, c); !errors.Is(err, store.ErrUnavailable) {
			return errors.Join(fmt.Errorf("sale %d is told without the standby", n), err)
		}
		return nil
	})
	cancel := store.CancelSale{ID: c.Lines[0].ID, RequestID: "cancel"}
	f.eventuallySeen(cancel.ID, 0)
	if _, _, err := f.CancelSale(f.t.Context(), cancel); !errors.Is(err, store.ErrUnavailable) {
		f.t.Errorf("CancelSale without the standby: %v, want ErrUnavailable", err)
	}
	f.eventuallySeen(cancel.ID, 1)
	if _, err := f.CreateAllotment(f.t.Context(), newAllotment("new", 1)); !errors.Is(err, store.ErrUnavailable) {
		f.t.Errorf("CreateAllotment without the standby: %v, want ErrUnavailable", err)
	}
	storetest.Eventually(f.t, 10*time.Second, func() error {
		_, err := f.Allotment(f.t.Context(), "new")
		return err
	})
	return c, cancel
}

// eventuallySeen waits until the sale can be read, with so many units cancelled.
func (f *fixture) eventuallySeen(id store.HoldID, cancelled int64) {
	f.t.Helper()
	storetest.Eventually(f.t, 10*time.Second, func() error {
		sale, err := f.Sale(f.t.Context(), id)
		if err == nil && sale.Cancelled != cancelled {
			err = fmt.Errorf("%d units cancelled, want %d", sale.Cancelled, cancelled)
		}
		return err
	})
}
