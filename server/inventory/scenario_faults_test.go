package inventory_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
)

// faults decides what becomes of a replica's calls to its stores: a crash, a cut connection or a
// frozen process between two steps, without a process to kill.
type faults struct {
	mu   sync.Mutex
	hook hook
}

// hook is called before a step, and when it is done. An error before: the store is not asked. An
// error when done: the store has done it, and its answer is lost. It may block: a frozen process.
type hook func(ctx context.Context, step string, done bool) error

// into puts the faults between a replica and its stores.
func (f *faults) into(o *inventory.Options) {
	o.Redis = faultyRedis{o.Redis, f}
	o.Ledger = faultyLedger{o.Ledger, f}
	o.Background = faultyLedger{o.Background, f}
}

func (f *faults) set(h hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = h
}

// kill lets no further step happen, nor any answer arrive.
func (f *faults) kill() {
	f.set(func(context.Context, string, bool) error {
		return fmt.Errorf("%w: the process was killed", store.ErrUnavailable)
	})
}

// cut loses the request of the next call of a step.
func (f *faults) cut(step string) { f.fail(step, false) }

// lose loses the answer to the next call of a step, which is done.
func (f *faults) lose(step string) { f.fail(step, true) }

func (f *faults) fail(step string, whenDone bool) {
	failed := false
	f.set(func(_ context.Context, s string, done bool) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if failed || s != step || done != whenDone {
			return nil
		}
		failed = true
		return fmt.Errorf("%w: the connection was lost", store.ErrUnavailable)
	})
}

// freeze stops the caller in front of its next call of a step: frozen is closed when it is there, and it
// goes on when wake is called.
func (f *faults) freeze(step string) (frozen chan struct{}, wake func()) {
	frozen, woken := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.set(func(ctx context.Context, s string, done bool) error {
		if s == step && !done {
			once.Do(func() {
				close(frozen)
				<-woken
			})
		}
		return nil
	})
	return frozen, sync.OnceFunc(func() { close(woken) })
}

func (f *faults) at(ctx context.Context, step string, done bool) error {
	f.mu.Lock()
	h := f.hook
	f.mu.Unlock()
	if h == nil {
		return nil
	}
	return h(ctx, step, done)
}

func step[T any](ctx context.Context, f *faults, name string, run func() (T, error)) (T, error) {
	var none T
	if err := f.at(ctx, name, false); err != nil {
		return none, err
	}
	value, err := run()
	if lost := f.at(ctx, name, true); lost != nil {
		return none, lost
	}
	return value, err
}

func step0(ctx context.Context, f *faults, name string, run func() error) error {
	_, err := step(ctx, f, name, func() (struct{}, error) { return struct{}{}, run() })
	return err
}

// faultyRedis has the steps that change something, and Listen.
type faultyRedis struct {
	inventory.Redis
	f *faults
}

func (r faultyRedis) Create(ctx context.Context, c store.CreateRequest) ([]store.Hold, error) {
	return step(ctx, r.f, "create", func() ([]store.Hold, error) { return r.Redis.Create(ctx, c) })
}

func (r faultyRedis) Extend(ctx context.Context, h store.PlacedHold) (store.Hold, error) {
	return step(ctx, r.f, "extend", func() (store.Hold, error) { return r.Redis.Extend(ctx, h) })
}

func (r faultyRedis) Cancel(ctx context.Context, h store.PlacedHold) (store.Hold, error) {
	return step(ctx, r.f, "cancel", func() (store.Hold, error) { return r.Redis.Cancel(ctx, h) })
}

func (r faultyRedis) Begin(ctx context.Context, b store.BeginRequest) ([]store.Begun, error) {
	return step(ctx, r.f, "begin", func() ([]store.Begun, error) { return r.Redis.Begin(ctx, b) })
}

func (r faultyRedis) Finish(ctx context.Context, lines []store.FinishLine) error {
	return step0(ctx, r.f, "finish", func() error { return r.Redis.Finish(ctx, lines) })
}

func (r faultyRedis) Claim(ctx context.Context, p store.Place, ids []store.HoldID, lease time.Duration) ([]store.Begun, error) {
	return step(ctx, r.f, "claim", func() ([]store.Begun, error) { return r.Redis.Claim(ctx, p, ids, lease) })
}

func (r faultyRedis) Release(ctx context.Context, p store.Place, ids []store.HoldID, by store.LapseDriver) (int, error) {
	return step(ctx, r.f, "release", func() (int, error) { return r.Redis.Release(ctx, p, ids, by) })
}

func (r faultyRedis) Apply(ctx context.Context, p store.Place, changes []store.Change) (epoch, feed int64, err error) {
	err = step0(ctx, r.f, "apply", func() error {
		epoch, feed, err = r.Redis.Apply(ctx, p, changes)
		return err
	})
	return epoch, feed, err
}

func (r faultyRedis) AdoptEnd(ctx context.Context, a store.Allotment, claim string, c store.Counters, sequence int64) error {
	return step0(ctx, r.f, "adopt-end", func() error { return r.Redis.AdoptEnd(ctx, a, claim, c, sequence) })
}

// faultyLedger has the steps that change something.
type faultyLedger struct {
	inventory.Ledger
	f *faults
}

func (l faultyLedger) Settle(ctx context.Context, group string, c store.Confirm) ([]store.Verdict, error) {
	return step(ctx, l.f, "settle", func() ([]store.Verdict, error) { return l.Ledger.Settle(ctx, group, c) })
}

func (l faultyLedger) CancelSale(ctx context.Context, c store.CancelSale) (sale store.Sale, number int64, err error) {
	err = step0(ctx, l.f, "cancel-sale", func() error {
		sale, number, err = l.Ledger.CancelSale(ctx, c)
		return err
	})
	return sale, number, err
}

func (l faultyLedger) Applied(ctx context.Context, allotment string, epoch, number int64) error {
	return step0(ctx, l.f, "applied", func() error { return l.Ledger.Applied(ctx, allotment, epoch, number) })
}

// announcer stands for Redis's announcements of expired markers, which the test makes by hand: TTLs
// run by the real clock.
type announcer struct {
	mu       sync.Mutex
	lapsed   []func(store.HoldID)
	gap      []func(func(store.Place) bool)
	released int // calls that announcements led to
}

func (a *announcer) into(o *inventory.Options) { o.Redis = announced{o.Redis, a} }

// reconnect is what a replica does after its subscription was gone.
func (a *announcer) reconnect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, gap := range a.gap {
		gap(func(store.Place) bool { return true })
	}
}

// announce names lapsed holds to every replica, and returns how many replicas those are.
func (a *announcer) announce(holds []store.Hold) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, lapsed := range a.lapsed {
		for _, h := range holds {
			lapsed(h.ID)
		}
	}
	return len(a.lapsed)
}

func (a *announcer) releases() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.released
}

type announced struct {
	inventory.Redis
	a *announcer
}

func (r announced) Listen(ctx context.Context, lapsed func(store.HoldID), gap func(func(store.Place) bool)) {
	r.a.mu.Lock()
	r.a.lapsed, r.a.gap = append(r.a.lapsed, lapsed), append(r.a.gap, gap)
	r.a.mu.Unlock()
	<-ctx.Done()
}

func (r announced) Release(ctx context.Context, p store.Place, ids []store.HoldID, by store.LapseDriver) (int, error) {
	n, err := r.Redis.Release(ctx, p, ids, by)
	if by == store.LapseByEvent {
		r.a.mu.Lock()
		r.a.released++
		r.a.mu.Unlock()
	}
	return n, err
}
