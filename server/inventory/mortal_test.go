//go:build failpoints

package inventory

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// errDead is what a replica that was killed sees of every store: nobody ever sees it.
var errDead = errors.New("this replica is dead")

// fate is how a replica dies or freezes: at one of its calls to a store, which are the steps of all
// protocols. A kill before the call is a crash between two steps; one after it is a reply that
// nobody hears. A frozen replica goes on with that very call when it is thawed.
type fate struct {
	mu        sync.Mutex
	calls     int
	killAt    int // 0: never
	killAfter bool
	freezeAt  int // 0: never
	frosty    bool
	dead      bool
	frozen    chan struct{} // closed when it froze
	thaw      chan struct{}
}

func newFate() *fate { return &fate{frozen: make(chan struct{}), thaw: make(chan struct{})} }

func (f *fate) set(change func(*fate)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fate) isDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// step is one call to a store.
func (f *fate) step(call func() error) error {
	f.mu.Lock()
	f.calls++
	n, dead := f.calls, f.dead
	kill, after, freeze := f.killAt == n, f.killAfter, f.freezeAt == n
	if kill && !after {
		f.dead, dead = true, true
	}
	f.frosty = f.frosty || freeze
	frosty := f.frosty
	f.mu.Unlock()
	if dead {
		return errDead
	}
	if freeze {
		close(f.frozen)
	}
	if frosty {
		<-f.thaw // all of the replica stands still
	}
	err := call()
	if kill {
		f.set(func(f *fate) { f.dead = true })
	}
	if f.isDead() {
		return errDead
	}
	return err
}

// mortalRedis is the hold store as a replica with a fate sees it.
type mortalRedis struct {
	Redis
	f *fate
}

func (m *mortalRedis) Create(ctx context.Context, r store.CreateRequest) (holds []store.Hold, err error) {
	err = m.f.step(func() error { holds, err = m.Redis.Create(ctx, r); return err })
	return holds, err
}

func (m *mortalRedis) Get(ctx context.Context, p store.PlacedHold) (h store.Hold, err error) {
	err = m.f.step(func() error { h, err = m.Redis.Get(ctx, p); return err })
	return h, err
}

func (m *mortalRedis) Extend(ctx context.Context, p store.PlacedHold) (h store.Hold, err error) {
	err = m.f.step(func() error { h, err = m.Redis.Extend(ctx, p); return err })
	return h, err
}

func (m *mortalRedis) Cancel(ctx context.Context, p store.PlacedHold) (h store.Hold, err error) {
	err = m.f.step(func() error { h, err = m.Redis.Cancel(ctx, p); return err })
	return h, err
}

func (m *mortalRedis) Counters(ctx context.Context, places []store.Place) (c []store.Counters, err error) {
	err = m.f.step(func() error { c, err = m.Redis.Counters(ctx, places); return err })
	return c, err
}

func (m *mortalRedis) Begin(ctx context.Context, r store.BeginRequest) (b []store.Begun, err error) {
	err = m.f.step(func() error { b, err = m.Redis.Begin(ctx, r); return err })
	return b, err
}

func (m *mortalRedis) Finish(ctx context.Context, lines []store.FinishLine) error {
	return m.f.step(func() error { return m.Redis.Finish(ctx, lines) })
}

func (m *mortalRedis) Claim(ctx context.Context, p store.Place, ids []store.HoldID, lease time.Duration) (b []store.Begun, err error) {
	err = m.f.step(func() error { b, err = m.Redis.Claim(ctx, p, ids, lease); return err })
	return b, err
}

func (m *mortalRedis) Shrink(ctx context.Context, r store.ShrinkRequest) (b store.Begun, err error) {
	err = m.f.step(func() error { b, err = m.Redis.Shrink(ctx, r); return err })
	return b, err
}

func (m *mortalRedis) Due(ctx context.Context, places []store.Place, limit int) (w []store.Work, err error) {
	err = m.f.step(func() error { w, err = m.Redis.Due(ctx, places, limit); return err })
	return w, err
}

func (m *mortalRedis) Release(ctx context.Context, p store.Place, ids []store.HoldID, by store.LapseDriver) (n int, err error) {
	err = m.f.step(func() error { n, err = m.Redis.Release(ctx, p, ids, by); return err })
	return n, err
}

func (m *mortalRedis) Purge(ctx context.Context, p store.Place, ids []store.HoldID) error {
	return m.f.step(func() error { return m.Redis.Purge(ctx, p, ids) })
}

func (m *mortalRedis) Apply(ctx context.Context, p store.Place, changes []store.Change) (epoch, feed int64, err error) {
	err = m.f.step(func() error { epoch, feed, err = m.Redis.Apply(ctx, p, changes); return err })
	return epoch, feed, err
}

func (m *mortalRedis) AdoptBegin(ctx context.Context, p store.Place, claim string, lease time.Duration, renew bool) (past *store.Past, left time.Duration, err error) {
	err = m.f.step(func() error { past, left, err = m.Redis.AdoptBegin(ctx, p, claim, lease, renew); return err })
	return past, left, err
}

func (m *mortalRedis) AdoptRenew(ctx context.Context, p store.Place, claim string, lease time.Duration) error {
	return m.f.step(func() error { return m.Redis.AdoptRenew(ctx, p, claim, lease) })
}

func (m *mortalRedis) AdoptDrop(ctx context.Context, p store.Place, claim string, unused bool) error {
	return m.f.step(func() error { return m.Redis.AdoptDrop(ctx, p, claim, unused) })
}

func (m *mortalRedis) Scan(ctx context.Context, p store.Place, claim string, buckets []int, cursors []string) (parts []store.Part, err error) {
	err = m.f.step(func() error { parts, err = m.Redis.Scan(ctx, p, claim, buckets, cursors); return err })
	return parts, err
}

func (m *mortalRedis) AdoptReset(ctx context.Context, p store.Place, claim string) error {
	return m.f.step(func() error { return m.Redis.AdoptReset(ctx, p, claim) })
}

func (m *mortalRedis) AdoptKeep(ctx context.Context, p store.Place, claim string, records []store.Kept) error {
	return m.f.step(func() error { return m.Redis.AdoptKeep(ctx, p, claim, records) })
}

func (m *mortalRedis) AdoptWrite(ctx context.Context, p store.Place, claim string, records []store.Record, buyers []store.BuyerEntry) error {
	return m.f.step(func() error { return m.Redis.AdoptWrite(ctx, p, claim, records, buyers) })
}

func (m *mortalRedis) AdoptEnd(ctx context.Context, a store.Allotment, claim string, c store.Counters, sequence int64) error {
	return m.f.step(func() error { return m.Redis.AdoptEnd(ctx, a, claim, c, sequence) })
}

// mortalLedger is the ledger as a replica with a fate sees it.
type mortalLedger struct {
	Ledger
	f *fate
}

func (m *mortalLedger) Settle(ctx context.Context, group string, c store.Confirm) (v []store.Verdict, err error) {
	err = m.f.step(func() error { v, err = m.Ledger.Settle(ctx, group, c); return err })
	return v, err
}

func (m *mortalLedger) Sale(ctx context.Context, id store.HoldID) (s store.Sale, err error) {
	err = m.f.step(func() error { s, err = m.Ledger.Sale(ctx, id); return err })
	return s, err
}

func (m *mortalLedger) CancelSale(ctx context.Context, c store.CancelSale) (s store.Sale, feed int64, err error) {
	err = m.f.step(func() error { s, feed, err = m.Ledger.CancelSale(ctx, c); return err })
	return s, feed, err
}

func (m *mortalLedger) Outcomes(ctx context.Context, allotment string, tags []string) (o map[string]store.Outcome, err error) {
	err = m.f.step(func() error { o, err = m.Ledger.Outcomes(ctx, allotment, tags); return err })
	return o, err
}

func (m *mortalLedger) Allotment(ctx context.Context, id string) (a store.Allotment, err error) {
	err = m.f.step(func() error { a, err = m.Ledger.Allotment(ctx, id); return err })
	return a, err
}

func (m *mortalLedger) UpdateRules(ctx context.Context, id string, version int64, r store.Rules) (a store.Allotment, err error) {
	err = m.f.step(func() error { a, err = m.Ledger.UpdateRules(ctx, id, version, r); return err })
	return a, err
}

func (m *mortalLedger) Grow(ctx context.Context, adj store.Adjustment) (a store.Allotment, made store.Adjustment, err error) {
	err = m.f.step(func() error { a, made, err = m.Ledger.Grow(ctx, adj); return err })
	return a, made, err
}

func (m *mortalLedger) Adjustment(ctx context.Context, allotment, request string) (a store.Adjustment, found bool, err error) {
	err = m.f.step(func() error { a, found, err = m.Ledger.Adjustment(ctx, allotment, request); return err })
	return a, found, err
}

func (m *mortalLedger) Changes(ctx context.Context, allotment string, after int64, limit int) (c []store.Change, err error) {
	err = m.f.step(func() error { c, err = m.Ledger.Changes(ctx, allotment, after, limit); return err })
	return c, err
}

func (m *mortalLedger) Applied(ctx context.Context, allotment string, epoch, number int64) error {
	return m.f.step(func() error { return m.Ledger.Applied(ctx, allotment, epoch, number) })
}

func (m *mortalLedger) RaiseEpoch(ctx context.Context, id string, seen, redisEpoch, redisFeed int64) (a store.Allotment, wentBack bool, err error) {
	err = m.f.step(func() error { a, wentBack, err = m.Ledger.RaiseEpoch(ctx, id, seen, redisEpoch, redisFeed); return err })
	return a, wentBack, err
}

func (m *mortalLedger) Pause(ctx context.Context, id string, epoch int64) (a store.Allotment, err error) {
	err = m.f.step(func() error { a, err = m.Ledger.Pause(ctx, id, epoch); return err })
	return a, err
}

func (m *mortalLedger) RecentOutcomes(ctx context.Context, allotment string, since time.Time, after string, limit int) (o []store.Outcome, err error) {
	err = m.f.step(func() error { o, err = m.Ledger.RecentOutcomes(ctx, allotment, since, after, limit); return err })
	return o, err
}

func (m *mortalLedger) BuyerTotals(ctx context.Context, allotment string, feed int64, f func(string, int64) error) error {
	return m.f.step(func() error { return m.Ledger.BuyerTotals(ctx, allotment, feed, f) })
}
