package holds

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// onMaster is the name of a group whose slot a master has at the start.
func onMaster(t *testing.T, c *local.RedisCluster, master, number int) string {
	t.Helper()
	for i := 0; ; i++ {
		name := fmt.Sprintf("show-%d-%d", number, i)
		owner, err := c.Owner(t.Context(), slotOf(name))
		must(t, err)
		if owner == c.Masters[master] {
			return name
		}
	}
}

func TestSlotOf(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]int{"123456789": 0x31c3, "foo": 12182, "": 0} { // as the cluster specification says
		if got := slotOf(tag); got != want {
			t.Errorf("slot of %q: %d, want %d", tag, got, want)
		}
	}
}

// Everything works on every master, as the user that the documentation tells to make: carts in one group, hints,
// announcements of what lapses, batches counted.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := storetest.NewRedisCluster(t, local.ClusterOptions{})
	for _, r := range c.Masters {
		asUser(t, r, "~hf:* &__keyevent@*__:expired +@read +@write +@scripting +@connection +@pubsub -@dangerous -@admin "+
			"+info +wait +time +cluster|slots")
	}
	user := url.UserPassword("holdfast", "secret").String()
	f := onFleet(t, strings.Replace(c.URL(), "://", "://"+user+"@", 1))
	l := f.listen1()
	l.gaps(3) // subscribed to each
	var all []store.HoldID
	for i := range c.Masters {
		p := f.opened(onMaster(t, c, i, 0), 10)
		if n := l.gapsAt(p); n != 1 {
			t.Errorf("%d gaps say that they are of what is at the master of %s, want its own", n, p.Group)
		}
		second := store.Place{Allotment: p.Group + "-second", Group: p.Group, Buckets: 4}
		f.openAt(second, 10, 1)
		must(t, f.SetPlace(f.ctx(), second))
		if got, found, err := f.Place(f.ctx(), second.Allotment); err != nil || !found || got != second {
			t.Errorf("the place is %+v, %v, %v, want %+v", got, found, err, second)
		}
		cart, err := f.Create(f.ctx(), store.CreateRequest{BuyerID: "buyer", RequestID: "cart", Lines: []store.PlacedLine{
			{Place: p, Quantity: 2}, {Place: second, Quantity: 3},
		}})
		must(t, err)
		begun, err := f.Begin(f.ctx(), store.BeginRequest{
			Holds:   []store.PlacedHold{{Place: p, ID: cart[0].ID}, {Place: second, ID: cart[1].ID}},
			OrderID: "order", Cart: ids(cart), Lease: lease,
		})
		if err != nil || len(begun) != 2 {
			t.Errorf("begin of a cart: %v, %v", begun, err)
		}
		f.shortHolds(p)
		short, err := f.createAt(p, "short")
		must(t, err)
		all = append(all, short[0].ID)
	}
	l.hears(all...)
	f.inOneBatch(c.Masters[0].Addr(), f.opened(onMaster(t, c, 0, 1), 10), f.opened(onMaster(t, c, 0, 2), 10))
	bad, weak, err := f.CheckSettings(f.ctx())
	must(t, err)
	if len(bad) != 0 || len(weak) != 3 || !strings.Contains(weak[2], c.Masters[2].Addr()) {
		t.Errorf("settings: bad %q, weak %q", bad, weak)
	}
	must(t, f.Ping(f.ctx()))
}

// inOneBatch asks for a hold of each of these, which are on one master, in one batch.
func (f *fixture) inOneBatch(addr string, places ...store.Place) {
	f.t.Helper()
	var ops []*op
	for _, p := range places {
		r := store.CreateRequest{BuyerID: "buyer", RequestID: "batch", Lines: []store.PlacedLine{{Place: p, Quantity: 1}}}
		o := createOp(r, []store.Place{p}, []store.HoldID{store.NewHoldID(p.Allotment, r.BuyerID, r.RequestID)})
		o.ctx, o.done = f.ctx(), make(chan struct{})
		ops = append(ops, o)
	}
	f.run(queue{laneCreate, addr}, ops)
	for _, o := range ops {
		<-o.done
		if o.err != nil || o.reply[0].status() != statusOK {
			f.t.Errorf("%s, with another group in its batch: %v, %v", o.places[0].Group, o.reply, o.err)
		}
	}
}

// shortHolds makes new holds lapse at once.
func (f *fixture) shortHolds(p store.Place) {
	f.t.Helper()
	rules := defaultRules()
	rules.HoldDuration = 50 * time.Millisecond
	_, _, err := f.Apply(f.ctx(), p, []store.Change{{Number: 1, Kind: store.ChangeRules, Rules: rules}})
	must(f.t, err)
}

// A user that may not ask for the slots is told so.
func TestClusterUserWithoutSlots(t *testing.T) {
	t.Parallel()
	c := storetest.NewRedisCluster(t, local.ClusterOptions{})
	for _, r := range c.Masters {
		asUser(t, r, "~hf:* &* +@all -cluster")
	}
	f := &fixture{t: t}
	f.open(func(f *fixture, o *Options) {
		f.url, o.Offset = strings.Replace(c.URL(), "://", "://holdfast:secret@", 1), nil
	})
	storetest.Eventually(t, patience, func() error {
		if f.logs.count("grant +cluster|slots") == 0 {
			return errors.New("nothing is said of CLUSTER SLOTS")
		}
		return nil
	})
	if _, _, err := f.CheckSettings(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("CheckSettings: %v, want ErrUnavailable", err)
	}
}

// A master that is silent, then dead, delays nothing on the others; what it had goes on at its replica once that is promoted
// and adopted.
func TestClusterLosesAMaster(t *testing.T) {
	t.Parallel()
	c := storetest.NewRedisCluster(t, local.ClusterOptions{Replicas: 1, NodeTimeout: 2 * time.Second})
	f := onFleet(t, c.URL(), withTimeout(3*time.Second)) // the machine may be busy
	var places []store.Place
	for i := range c.Masters {
		places = append(places, f.opened(onMaster(t, c, i, 0), 1_000_000))
	}
	must(t, c.Masters[0].Pause())
	stuck := make(chan error)
	go func() {
		_, err := f.createAt(places[0], "stuck")
		stuck <- err
	}()
	rounds := 0
	for lost := false; !lost; { // as long as one call waits at the silent one
		select {
		case err := <-stuck:
			lost = true
			if !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("on the silent master: %v, want ErrUnavailable", err)
			}
		default:
			f.onOthers(places[1:])
			rounds++
		}
	}
	if rounds < 50 { // some before the call had begun to wait, the others beside it
		t.Errorf("%d rounds on the others while a call waited at the silent master: they waited with it", rounds)
	}
	c.Masters[0].Kill()
	storetest.Eventually(t, 2*patience, func() error {
		f.onOthers(places[1:])
		_, err := f.createAt(places[0], storetest.UniqueID(t))
		if needsAdopt(err) {
			return nil
		}
		return fmt.Errorf("not promoted yet: %w", err)
	})
	f.opened(places[0].Allotment, 10)
	must(t, errOf(f.createAt(places[0], "after")))
}

func (f *fixture) onOthers(places []store.Place) {
	f.t.Helper()
	for _, p := range places {
		if _, err := f.createAt(p, storetest.UniqueID(f.t)); err != nil {
			f.t.Errorf("on another master: %v", err)
		}
	}
}

// A group whose slot moves to another master under load is followed there: nothing but UNAVAILABLE while its keys are under way,
// then it is adopted; with its records, as they moved along.
func TestClusterMovesAGroup(t *testing.T) {
	t.Parallel()
	c := storetest.NewRedisCluster(t, local.ClusterOptions{})
	f := onFleet(t, c.URL())
	p, other := f.opened(onMaster(t, c, 0, 0), 1_000_000), f.opened(onMaster(t, c, 1, 1), 1_000_000)
	l := f.listen1()
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var mu sync.Mutex
	var granted []store.HoldID
	adoptions := 0
	for worker := range 4 {
		load.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				holds, err := f.createAt(p, fmt.Sprintf("%d-%d", worker, i))
				mu.Lock()
				switch {
				case err == nil:
					granted = append(granted, holds[0].ID)
				case needsAdopt(err):
					adoptions++
				case !errors.Is(err, store.ErrUnavailable):
					t.Errorf("while the slot moves: %v, want ErrUnavailable or the need to adopt", err)
				}
				mu.Unlock()
			}
		})
	}
	storetest.Eventually(t, patience, func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(granted) < 100 {
			return errors.New("not enough load")
		}
		return nil
	})
	must(t, c.MoveSlot(t.Context(), slotOf(p.Group), c.Masters[1]))
	storetest.Eventually(t, patience, func() error {
		mu.Lock()
		defer mu.Unlock()
		if adoptions == 0 {
			return errors.New("the group is not reached on its new master")
		}
		return nil
	})
	cancel()
	load.Wait()
	if past := f.adoptBegin(p, "claim"); past.Epoch != 1 {
		t.Errorf("epoch %d came along, want 1", past.Epoch)
	}
	found := map[store.HoldID]bool{}
	for _, r := range f.walkOf(p, "claim") {
		found[r.ID] = true
	}
	for _, id := range granted {
		if !found[id] {
			t.Fatalf("hold %s did not come along", id)
		}
	}
	f.openAt(p, 1_000_000, 2)
	must(t, errOf(f.createAt(p, "after")))
	must(t, errOf(f.createAt(other, "after")))
	f.shortHolds(p)
	short, err := f.createAt(p, "short")
	must(t, err)
	l.hears(short[0].ID)
}

// walkOf reads all records of an allotment that is being adopted.
func (f *fixture) walkOf(p store.Place, claim string) (records []store.Record) {
	f.t.Helper()
	for bucket := range p.Buckets {
		for cursor := ""; ; {
			parts, err := f.Scan(f.ctx(), p, claim, []int{bucket}, []string{cursor})
			must(f.t, err)
			records = append(records, parts[0].Records...)
			if cursor = parts[0].Next; cursor == "" {
				break
			}
		}
	}
	return records
}

// Only what most masters say counts for an adopt; for the rest the loudest voice is good enough.
func TestVotes(t *testing.T) {
	t.Parallel()
	before := []claim{{0, 99, "a"}, {100, 199, "b"}, {200, slotCount - 1, "c"}}
	after := []claim{{0, 99, "new"}, {100, 199, "b"}, {200, slotCount - 1, "c"}}
	for name, test := range map[string]struct {
		voices         []voice
		owner, trusted string // of slot 50
	}{
		"one voice":                   {[]voice{{before, []string{"a", "b", "c"}}}, "a", "a"},
		"two of three":                {[]voice{{before, []string{"a"}}, {after, []string{"b", "c"}}}, "new", "new"},
		"the old master alone":        {[]voice{{before, []string{"a"}}}, "a", ""},
		"the old one and a follower":  {[]voice{{before, []string{"a", "its replica"}}}, "a", ""},
		"as many for each":            {[]voice{{before, []string{"b"}}, {after, []string{"c"}}}, "a", ""},
		"the new one and one of them": {[]voice{{after, []string{"new", "c"}}}, "new", "new"},
	} {
		e := countVotes(slices.Clone(test.voices))
		if got := e.masters[e.owners[50]]; got != test.owner {
			t.Errorf("%s: the slot is on %s, want %s", name, got, test.owner)
		}
		if got := e.majority(50); got != test.trusted {
			t.Errorf("%s: most masters name %q, want %q", name, got, test.trusted)
		}
		if got := e.majority(150); test.trusted != "" && got != "b" {
			t.Errorf("%s: most masters name %q for another slot, want b", name, got)
		}
		for i, tags := range e.tags() {
			if len(tags) != tagsEach || slotOf(tags[0]) == slotOf(tags[1]) {
				t.Errorf("%s: the tags %q of %s are not of two slots", name, tags, e.masters[i])
			}
			for _, tag := range tags {
				if e.owners[slotOf(tag)] != int16(i) {
					t.Errorf("%s: the tag %s does not lead to %s", name, tag, e.masters[i])
				}
			}
		}
	}
}

// What a server refuses to run it says where to send: there it goes, once, before anybody has looked at the slots again.
func TestClusterRedirects(t *testing.T) {
	t.Parallel()
	c := storetest.NewRedisCluster(t, local.ClusterOptions{})
	f := onFleet(t, c.URL(), withTimeout(patience))
	p := f.opened(onMaster(t, c, 0, 0), 10)
	q := store.Place{Allotment: onMaster(t, c, 0, 1), Group: p.Group, Buckets: 8}
	f.fleet.stop() // it looks no more
	must(t, c.MoveSlot(t.Context(), slotOf(p.Group), c.Masters[1]))
	if _, err := f.createAt(p, "moved"); !needsAdopt(err) {
		t.Errorf("a script whose slot has moved: %v, want it to run on the new master, which needs to adopt", err)
	}
	must(t, f.SetPlace(f.ctx(), p))
	hintAsks(t, c, slotOf(q.Allotment), func() {
		must(t, f.SetPlace(f.ctx(), q))
		if got, found, err := f.Place(f.ctx(), q.Allotment); err != nil || !found || got != q {
			t.Errorf("a key under way: %+v, %v, %v, want %+v", got, found, err, q)
		}
		alone := store.Place{Allotment: q.Allotment, Group: q.Allotment, Buckets: 4}
		if _, err := f.createAt(alone, "under way"); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "TRYAGAIN") {
			t.Errorf("a script whose keys are under way: %v, want ErrUnavailable for TRYAGAIN", err)
		}
	})
}

// hintAsks runs f while a slot without keys is on its way from the first master to the third.
func hintAsks(t *testing.T, c *local.RedisCluster, slot int, f func()) {
	t.Helper()
	from, to := rawClient(t, c.Masters[0].URL()), rawClient(t, c.Masters[2].URL())
	must(t, to.Do(t.Context(), "cluster", "setslot", slot, "importing", from.ClusterMyID(t.Context()).Val()).Err())
	must(t, from.Do(t.Context(), "cluster", "setslot", slot, "migrating", to.ClusterMyID(t.Context()).Val()).Err())
	f()
}

// A master that has a single slot has a tag for it.
func TestTagOfASingleSlot(t *testing.T) {
	t.Parallel()
	e := countVotes([]voice{{[]claim{{0, 76, "a"}, {77, 77, "b"}, {78, slotCount - 1, "a"}}, []string{"a", "b"}}})
	for i, tags := range e.tags() {
		if want := map[string]int{"a": tagsEach, "b": 1}[e.masters[i]]; len(tags) != want {
			t.Errorf("%s has the tags %q, want %d", e.masters[i], tags, want)
		}
	}
}

// While the slot of a count of batches is under way, and after it has moved, decisions go on: there is another count. When both
// have moved nothing is decided, until the fleet has looked at the slots, which it does at once.
func TestClusterCountMoves(t *testing.T) {
	t.Parallel()
	c := storetest.NewRedisCluster(t, local.ClusterOptions{Replicas: 1})
	f := onFleet(t, c.URL(), withTimeout(patience), durable(Durability{Replicas: 1}))
	p := f.opened(onMaster(t, c, 0, 0), 10)
	n, err := f.fleet.route(p.Group)
	must(t, err)
	tags := f.fleet.view.Load().tags[n]
	if len(tags) != tagsEach || tagsEach < 2 {
		t.Fatalf("the tags are %q", tags)
	}
	must(t, errOf(f.createAt(p, "before")))
	f.fleet.stop() // it looks no more
	f.fleet.loops.Wait()
	f.looks()
	for i, tag := range tags {
		last := i == len(tags)-1
		wanted := func(when string, err error) {
			t.Helper()
			if last != errors.Is(err, store.ErrUnavailable) || !last && err != nil {
				t.Errorf("count %d of %d %s: %v", i+1, len(tags), when, err)
			}
		}
		raw := rawClient(t, c.Masters[0].URL())
		must(t, raw.Del(t.Context(), f.fleet.keysOn(n, batchesKey)[i]).Err()) // as if it were at the other end already
		hintAsks(t, c, slotOf(tag), func() { wanted("is under way", errOf(f.createAt(p, "under way "+tag))) })
		must(t, raw.Do(t.Context(), "cluster", "setslot", slotOf(tag), "stable").Err())
		must(t, rawClient(t, c.Masters[2].URL()).Do(t.Context(), "cluster", "setslot", slotOf(tag), "stable").Err())
		must(t, c.MoveSlot(t.Context(), slotOf(tag), c.Masters[1]))
		wanted("has moved", errOf(f.createAt(p, "after "+tag)))
		if !f.looks() {
			t.Error("nothing calls for a look")
		}
	}
	must(t, f.fleet.look(t.Context()))
	must(t, errOf(f.createAt(p, "after")))
}

// looks says whether the fleet was called on to look since this was last asked.
func (f *fixture) looks() bool {
	select {
	case <-f.fleet.kick:
		return true
	default:
		return false
	}
}
