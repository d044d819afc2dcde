package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/holds"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// onSet opens the world on several servers, one of which is for looking. Calls end within seconds: the machine may be busy,
// but a caller must not wait for a server that is gone until the test is over.
func onSet(url string, one *local.Redis, d holds.Durability) worldOption {
	return func(w *world) {
		w.redisURL, w.rawURL, w.durable, w.timeout, w.broken = url, one.URL(), d, time.Second, true
		w.options = func(o *inventory.Options) { o.DecisionTime, o.ConfirmTime = 2*time.Second, 2*time.Second }
	}
}

// buying is a load of buyers who hold one unit each, and confirm every other hold.
type buying struct {
	w         *world
	allotment string
	stop      context.CancelFunc
	done      sync.WaitGroup

	mu                      sync.Mutex
	held                    []store.Hold // acknowledged, not confirmed
	sold                    int
	answers                 int // decisions, refusals included
	lastTrouble, lastAnswer time.Time
}

func (w *world) buy(allotment string, workers int) *buying {
	ctx, cancel := context.WithCancel(w.ctx())
	b := &buying{w: w, allotment: allotment, stop: cancel}
	for worker := range workers {
		b.done.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				b.one(worker, fmt.Sprintf("%s-%d-%d", allotment, worker, i), i%2 == 0)
			}
		})
	}
	w.t.Cleanup(b.end)
	return b
}

func (b *buying) one(worker int, buyer string, confirm bool) {
	h, err := b.w.tryHold(worker, b.allotment, buyer, "r1", 1)
	b.note(err)
	if err != nil {
		return
	}
	if confirm {
		_, err = b.w.tryConfirm(worker, h, "order-"+buyer)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if confirm && err == nil {
		b.sold++
	} else {
		b.held = append(b.held, h)
	}
}

func (b *buying) note(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case isTrouble(err):
		b.lastTrouble = time.Now()
	case err != nil && refusalOf(err) != store.SoldOut && refusalOf(err) != store.AllHeld:
		b.w.t.Errorf("a hold: %v", err)
	default:
		b.answers++
		b.lastAnswer = time.Now()
	}
}

// after waits for so many more answers.
func (b *buying) after(n int) {
	b.w.t.Helper()
	b.mu.Lock()
	want := b.answers + n
	b.mu.Unlock()
	b.w.until(func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.answers < want {
			return fmt.Errorf("%d answers, want %d", b.answers, want)
		}
		return nil
	})
}

func (b *buying) end() {
	b.stop()
	b.done.Wait()
}

// kept confirms every hold that was acknowledged: none is lost.
func (b *buying) kept() {
	b.w.t.Helper()
	b.w.some(len(b.held), func(i int) error {
		return insist(func() error {
			_, err := b.w.tryConfirm(i, b.held[i], "order-"+b.held[i].BuyerID)
			return err
		})
	})
	if _, sold := b.w.row(b.allotment); sold != int64(b.sold+len(b.held)) {
		b.w.t.Errorf("%d sold, want %d and %d", sold, b.sold, len(b.held))
	}
}

// F07: the master is killed while buyers hold and confirm. With a replica that has each hold before it is acknowledged
// none is lost, nothing is oversold, and buyers are served again.
func TestSentinelFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	set := storetest.NewSentinel(t, local.SentinelOptions{Replicas: 2})
	w := newWorld(t, 2, onSet(set.URL(), set.Servers[0], holds.Durability{Replicas: 1}))
	a := w.open(1_000_000)
	b := w.buy(a, 8)
	b.after(200)
	set.Servers[0].Kill()
	var switched time.Time
	w.until(func() error {
		now, err := set.Master(t.Context())
		if err == nil && now == set.Servers[0] {
			err = errors.New("no other master yet")
		}
		switched = time.Now()
		return err
	})
	b.after(1)
	b.mu.Lock()
	t.Logf("decided again %v after a Sentinel named another master", b.lastAnswer.Sub(switched).Round(time.Millisecond))
	b.mu.Unlock()
	b.after(200)
	b.end()
	b.kept()
}

// pinned is a server that is cut off from the Sentinels, who have named another master than the one that it knows.
type pinned struct {
	t         *testing.T
	world     *world // of the other server
	pinned    *replica
	allotment string // of ten units
	set       *local.RedisSentinel
	links     []*storetest.Link
}

// pinOne has the old master stand still until resume.
func pinOne(t *testing.T) *pinned {
	t.Helper()
	p := &pinned{t: t, set: storetest.NewSentinel(t, local.SentinelOptions{Replicas: 1})}
	w := newWorld(t, 1, onSet(p.set.URL(), p.set.Servers[0], holds.Durability{}))
	url := p.set.URL()
	for _, s := range p.set.Sentinels {
		p.links = append(p.links, storetest.NewLink(t, s.Addr()))
		url = strings.Replace(url, s.Addr(), p.links[len(p.links)-1].Addr(), 1)
	}
	w.redisURL = url
	p.world, p.pinned = w, w.start(true)
	w.replicas = w.replicas[:1] // the others' calls are not for it
	p.allotment = w.open(10)
	w.until(func() error {
		_, err := p.pinned.Availability(w.ctx(), p.allotment)
		return err
	})
	for _, link := range p.links {
		link.Cut()
	}
	must(t, p.set.Servers[0].Pause())
	w.until(func() error {
		if now, err := p.set.Master(t.Context()); err != nil || now == p.set.Servers[0] {
			return fmt.Errorf("no other master yet: %w", err)
		}
		return nil
	})
	return p
}

// resume lets the old master go on, and stops the Sentinels, who would demote it.
func (p *pinned) resume() {
	p.t.Helper()
	for _, s := range p.set.Sentinels {
		must(p.t, s.Pause())
	}
	p.set.Servers[0].Resume()
}

// heal lets the pinned server ask the Sentinels again.
func (p *pinned) heal() {
	for i, s := range p.set.Sentinels {
		s.Resume()
		p.links[i].Heal()
	}
}

// F10: the pinned server does not know what the new master has granted, and must not say of such a hold that it has ended: its
// caller would refund the buyer of what can still be sold.
func TestPinnedServerEndsNoHold(t *testing.T) {
	t.Parallel()
	p := pinOne(t)
	w := p.world
	h := insistOn(t, func() (store.Hold, error) { return w.tryHold(0, p.allotment, "buyer", "r1", 1) })
	p.resume()
	w.until(func() error {
		_, err := p.pinned.Availability(w.ctx(), p.allotment)
		return err
	})
	_, err := p.pinned.ConfirmHold(w.ctx(), store.ConfirmHold{ID: h.ID, OrderID: "order"})
	wantTrouble(t, err)
	for name, ask := range map[string]func(context.Context, store.HoldID) (store.Hold, error){
		"GetHold": p.pinned.Hold, "ExtendHold": p.pinned.ExtendHold, "CancelHold": p.pinned.CancelHold,
	} {
		if _, err := ask(w.ctx(), h.ID); !isTrouble(err) {
			t.Errorf("%s at the pinned server: %v, want trouble", name, err)
		}
	}
	if _, err := w.tryConfirm(0, h, "order"); err != nil {
		t.Errorf("the hold cannot be confirmed at the new master: %v", err)
	}
	p.heal()
}

// F10: a confirm that the pinned server began comes over to the new master late. Its buyer may have been told by another server
// that the hold has lapsed, and have the money back: it does not take the hold again, though its stock is free.
func TestStaleConfirmTakesNoLapsedHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	a := w.open(1)
	h := w.hold(a, "ann", "r1", 1)
	old, f := w.copied(a), &faults{}
	pinned := w.with(false, func(o *inventory.Options) {
		f.into(o)
		o.ConfirmTime = patience
	})
	w.replicas = w.replicas[:1] // the others' calls are not for it
	frozen, wake := f.freeze("settle")
	defer wake()
	late := make(chan error, 1)
	go func() {
		_, err := pinned.ConfirmHold(w.ctx(), store.ConfirmHold{ID: h.ID, OrderID: "order"})
		late <- err
	}()
	<-frozen
	w.goBack(a, old)
	w.wantState(h, store.Held) // and adopted
	w.advance(time.Hour)
	other := w.hold(a, "bob", "r1", 1)
	_, err := w.tryConfirm(0, h, "order")
	wantRefusal(t, err, store.HoldLapsed)
	w.cancel(other)
	wake()
	wantRefusal(t, <-late, store.HoldLapsed)
	w.wantStock(a, 1, 0, 0)
}

// F19: one server is cut off from the Sentinels and pinned to the old master, which comes back. What it grants never becomes
// a sale, it does not raise epochs, and it goes over when it can ask again.
func TestServerPinnedToAnOldMaster(t *testing.T) {
	t.Parallel()
	p := pinOne(t)
	w, pinned, a := p.world, p.pinned, p.allotment
	for i := range 10 {
		h := insistOn(t, func() (store.Hold, error) { return w.tryHold(0, a, fmt.Sprint("buyer-", i), "r1", 1) })
		if i < 5 {
			w.confirm(h, fmt.Sprint("order-", i))
		}
	}
	epoch := w.epoch(a)
	p.resume()
	ghosts := 0
	w.until(func() error {
		h, err := pinned.CreateHold(w.ctx(), fmt.Sprint("ghost-", ghosts), "r1", line(a, 1))
		if err == nil {
			ghosts++
			_, err = pinned.ConfirmHold(w.ctx(), store.ConfirmHold{ID: h.ID, OrderID: fmt.Sprint("ghost-order-", ghosts)})
			if err == nil {
				t.Errorf("a ghost's confirm became a sale")
			}
		}
		if ghosts < 3 {
			return fmt.Errorf("%d holds on the old master: %w", ghosts, err)
		}
		return nil
	})
	if now := w.epoch(a); now != epoch {
		t.Errorf("the epoch is %d, was %d: the pinned server adopts", now, epoch)
	}
	p.heal()
	w.until(func() error {
		_, err := pinned.CreateHold(w.ctx(), "late", "r1", line(a, 1))
		if refusalOf(err) != store.AllHeld && refusalOf(err) != store.SoldOut {
			return fmt.Errorf("the server that was pinned says %w, want what the new master says", err)
		}
		return nil
	})
	if _, sold := w.row(a); sold != 5 {
		t.Errorf("%d sold, want 5", sold)
	}
}

func insistOn[T any](t *testing.T, call func() (T, error)) (got T) {
	t.Helper()
	if err := insist(func() (err error) {
		got, err = call()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Allotments of a cluster are on all masters. One is killed, and its replica promoted; slots move. Nothing that was
// acknowledged is lost, nothing is oversold.
func TestClusterUnderLoad(t *testing.T) {
	t.Parallel()
	c := storetest.NewRedisCluster(t, local.ClusterOptions{Replicas: 1})
	w := newWorld(t, 2, onSet(c.URL(), c.Masters[0], holds.Durability{Replicas: 1}))
	var loads []*buying
	for range 6 {
		loads = append(loads, w.buy(w.open(1_000_000), 1))
	}
	each := func(n int) {
		for _, b := range loads {
			b.after(n)
		}
	}
	each(50)
	moved := loads[0].allotment
	slot := slotOf(t, c, moved)
	owner, err := c.Owner(t.Context(), slot)
	must(t, err)
	to := c.Masters[0]
	if owner == to {
		to = c.Masters[1]
	}
	must(t, c.MoveSlot(t.Context(), slot, to))
	each(50)
	to.Kill()
	w.until(func() error {
		if now, err := c.Owner(t.Context(), slot); err != nil || now == to {
			return fmt.Errorf("not promoted: %w", err)
		}
		return nil
	})
	must(t, to.Restart(t.Context())) // as the replica that its successor needs to acknowledge anything
	each(50)
	for _, b := range loads {
		b.end()
		b.kept()
	}
}

func slotOf(t *testing.T, c *local.RedisCluster, group string) int {
	t.Helper()
	o, err := redis.ParseURL(c.Masters[0].URL())
	must(t, err)
	client := redis.NewClient(o)
	defer client.Close()
	slot, err := client.ClusterKeySlot(t.Context(), "{"+group+"}").Result()
	must(t, err)
	return int(slot)
}
