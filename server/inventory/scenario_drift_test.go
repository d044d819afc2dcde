package inventory_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// Section I, S77 and S78: drift, its alarm and its repair.

// Stored used-capacity numbers were both above and below a recount of orders. 10,000 calls and 20 kills.
func TestS77CountsDriftCauseUnknown(t *testing.T) {
	eachNumber(t, func(t *testing.T, replicas int) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		w := newWorld(t, 0, withOptions(func(o *inventory.Options) { o.ConfirmTime = 2 * time.Second }))
		gauge := w.measured()
		d := newDrift(w, replicas, w.open(50))
		for kill := range 20 {
			d.run(seed+uint64(kill), 500)
		}
		if t.Failed() {
			return
		}
		w.advance(inventory.DefaultConfirmLease + time.Millisecond) // of the confirms that the killed began
		w.until(func() error {
			if off := gauge("holdfast.conservation.units_off"); off != 0 {
				return fmt.Errorf("the drift metric is %d", off)
			}
			return d.recount()
		})
	})
}

// drift makes random calls on replicas, one of which is killed now and then.
type drift struct {
	w         *world
	allotment string
	slots     []*mortal
	next      atomic.Int64 // request ids

	mu    sync.Mutex
	holds []store.Hold
}

type mortal struct {
	*replica
	faults *faults
}

func newDrift(w *world, replicas int, allotment string) *drift {
	d := &drift{w: w, allotment: allotment}
	for range replicas {
		d.slots = append(d.slots, d.born())
	}
	return d
}

func (d *drift) born() *mortal {
	m := &mortal{faults: &faults{}}
	m.replica = d.w.with(true, m.faults.into)
	return m
}

// run makes calls from eight callers; towards the end a replica is killed, and another takes its
// place afterwards.
func (d *drift) run(seed uint64, calls int) {
	const callers = 8
	victim := int(seed % uint64(len(d.slots)))
	var made atomic.Int64
	together(callers, func(caller int) {
		random := rand.New(rand.NewPCG(seed, uint64(caller)))
		for n := made.Add(1); n <= int64(calls); n = made.Add(1) {
			if n == int64(calls)-20 {
				d.slots[victim].faults.kill()
			}
			if err := d.call(random); err != nil && refusalOf(err) == "" && !isTrouble(err) {
				d.w.t.Errorf("neither an answer nor trouble: %v", err)
			}
		}
	})
	d.slots[victim].stop()
	d.slots[victim] = d.born()
}

func (d *drift) call(random *rand.Rand) error {
	r, ctx := d.slots[random.IntN(len(d.slots))], d.w.ctx()
	dice := random.IntN(100)
	if dice < 40 {
		n := d.next.Add(1)
		h, err := r.CreateHold(ctx, fmt.Sprint("buyer-", n%20), fmt.Sprint("r", n), line(d.allotment, 1+random.Int64N(3)))
		if err == nil {
			d.mu.Lock()
			d.holds = append(d.holds, h)
			d.mu.Unlock()
		}
		return err
	}
	h, ok := d.some(random)
	if !ok {
		return nil
	}
	var err error
	switch {
	case dice < 50:
		_, err = r.ExtendHold(ctx, h.ID)
	case dice < 65:
		_, err = r.CancelHold(ctx, h.ID)
	case dice < 85:
		_, err = r.ConfirmHold(ctx, store.ConfirmHold{ID: h.ID, OrderID: "order-" + h.RequestID, Quantity: random.Int64N(h.Quantity + 1)})
	case dice < 99:
		_, err = r.CancelSale(ctx, store.CancelSale{ID: h.ID, RequestID: "cancel", Quantity: random.Int64N(2)})
	default:
		d.w.advance(time.Duration(random.IntN(30)) * time.Second)
	}
	var field *store.InvalidField // more than is left
	if errors.As(err, &field) {
		return nil
	}
	return err
}

// recount compares the counter with capacity, sold and held, and says if a confirm has not ended yet.
func (d *drift) recount() error {
	live := store.HoldFilter{Allotment: d.allotment, States: []store.HoldState{store.Held, store.Confirming}}
	holds, _, err := d.w.next().ListHolds(d.w.ctx(), live, "", 1000)
	if err != nil {
		return err
	}
	var held int64
	for _, h := range holds {
		if h.State == store.Confirming {
			return fmt.Errorf("hold %s is still confirming", h.ID)
		}
		held += h.Quantity
	}
	capacity, sold := d.w.row(d.allotment)
	if a := d.w.availability(d.allotment); a.Available != capacity-sold-held || a.Held != held || a.Sold != sold {
		return fmt.Errorf("the counters are %+v; a recount has %d held, %d sold of %d", a, held, sold, capacity)
	}
	return nil
}

// some returns one of the holds, a late one more often.
func (d *drift) some(random *rand.Rand) (store.Hold, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.holds) == 0 {
		return store.Hold{}, false
	}
	last := min(len(d.holds), 40)
	return d.holds[len(d.holds)-1-random.IntN(last)], true
}

// Counts went negative on live shops and only database work could repair them.
func TestS78NoWayToRepair(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	gauge := w.measured()
	a := w.open(10)
	w.confirm(w.hold(a, "ann", "r1", 4), "order-1")
	w.hold(a, "bob", "r1", 1)
	stop := w.traffic(a)
	defer stop()
	for _, forged := range []struct{ counter, off int64 }{{8, +3}, {2, -3}} {
		w.forge(a, forged.off)
		w.until(func() error { // within 10 s, before it is repaired by itself
			if n, units := gauge("holdfast.conservation.allotments_off"), gauge("holdfast.conservation.units_off"); n != 1 || units != 3 {
				return fmt.Errorf("alarm for %d allotments, %d units; want 1, 3", n, units)
			}
			return nil
		})
		if found := w.reconcile(a, false); !has(found, store.FindingFree, forged.off) {
			t.Errorf("the dry run finds %+v, want the counter off by %+d", found, forged.off)
		}
		if found := w.reconcile(a, true); !has(found, store.FindingFree, forged.off) {
			t.Errorf("applied: %+v, want the counter off by %+d", found, forged.off)
		}
		w.until(func() error {
			if off := gauge("holdfast.conservation.units_off"); off != 0 {
				return fmt.Errorf("still off by %d", off)
			}
			return nil
		})
	}
	stop()
	w.wantStock(a, 5, 1, 4)
}

// forge puts the counter of what is available off by so much, whatever traffic does to it.
func (w *world) forge(allotment string, off int64) {
	w.t.Helper()
	storetest.AddToCounter(w.ctx(), w.t, w.raw, "hf:{"+allotment+"}:c", "available", off)
}

// traffic takes and releases a unit some 200 times a second, until stop is called.
func (w *world) traffic(allotment string) (stop func()) {
	r := w.start(false)
	ended, end := make(chan error, 1), make(chan struct{})
	go func() {
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-end:
				ended <- nil
				return
			case <-ticker.C:
			}
			h, err := r.CreateHold(w.ctx(), "passer-by", fmt.Sprint("r", i), line(allotment, 1))
			if err == nil {
				_, err = r.CancelHold(w.ctx(), h.ID)
			}
			if err != nil && !isTrouble(err) {
				ended <- err
				return
			}
		}
	}()
	done := false
	return func() {
		if done {
			return
		}
		done = true
		close(end)
		if err := <-ended; err != nil && !errors.Is(err, w.ctx().Err()) {
			w.t.Errorf("live traffic: %v", err)
		}
	}
}
