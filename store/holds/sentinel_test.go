package holds

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// onFleet opens a Store on several servers, with the timeout of production, and waits until it knows them. No test of its
// state is made at the end.
func onFleet(t *testing.T, url string, choices ...fixtureOption) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: new(atomic.Int64)}
	f.open(append([]fixtureOption{onRedis(url), withTimeout(0)}, choices...)...)
	storetest.Eventually(t, patience, func() error {
		if masters, _ := f.fleet.masters(); len(masters) == 0 {
			return fmt.Errorf("no master is known:\n%s", f.logs)
		}
		return nil
	})
	return f
}

func durable(d Durability) fixtureOption { return func(_ *fixture, o *Options) { o.Durable = d } }

// opened makes an allotment of its own group.
func (f *fixture) opened(id string, capacity int64) store.Place {
	f.t.Helper()
	p := store.Place{Allotment: id, Group: id, Buckets: 4}
	f.openAt(p, capacity, 1)
	return p
}

func (f *fixture) openAt(p store.Place, capacity, epoch int64) {
	f.t.Helper()
	storetest.Eventually(f.t, patience, func() error {
		past, _, err := f.AdoptBegin(f.ctx(), p, "claim", lease, true)
		if err == nil && past == nil {
			err = errors.New("claimed by another")
		}
		return err
	})
	must(f.t, f.AdoptReset(f.ctx(), p, "claim"))
	must(f.t, f.AdoptEnd(f.ctx(), newAllotment(p, capacity), "claim", store.Counters{
		Epoch: epoch, Capacity: capacity, Available: capacity, Version: 1,
	}, 0))
}

func (f *fixture) createAt(p store.Place, request string) ([]store.Hold, error) {
	ctx, cancel := context.WithTimeout(f.ctx(), patience)
	defer cancel()
	return f.Create(ctx, store.CreateRequest{
		BuyerID: "buyer", RequestID: request, Lines: []store.PlacedLine{{Place: p, Quantity: 1}},
	})
}

func needsAdopt(err error) bool {
	var needed *store.AdoptNeeded
	return errors.As(err, &needed)
}

// F07: the promoted replica is found by itself, quickly; it decides nothing before it is adopted, and goes on then.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	set := storetest.NewSentinel(t, local.SentinelOptions{Replicas: 1})
	f := onFleet(t, set.URL())
	p := f.opened("show", 1000)
	_, err := f.createAt(p, "before")
	must(t, err)
	set.Servers[0].Kill()
	tries := 0
	storetest.Eventually(t, patience, func() error {
		tries++
		_, err := f.createAt(p, fmt.Sprint("during-", tries))
		switch {
		case needsAdopt(err):
			return nil
		case !errors.Is(err, store.ErrUnavailable):
			t.Errorf("while there is no master: %v, want ErrUnavailable", err)
		}
		return fmt.Errorf("the new master is not reached: %w", err)
	})
	f.opened("show", 1000)
	_, err = f.createAt(p, "after")
	must(t, err)
}

// F19: a server whose master was replaced behind its back goes on there, but adopts nothing, so it cannot take
// the allotments away from the others by ever higher epochs; when it hears of the new master it drops the old one.
func TestPinnedToAnOldMaster(t *testing.T) {
	t.Parallel()
	set := storetest.NewSentinel(t, local.SentinelOptions{Replicas: 1})
	url := set.URL()
	var links []*storetest.Link
	for _, s := range set.Sentinels {
		link := storetest.NewLink(t, s.Addr())
		links = append(links, link)
		url = strings.Replace(url, s.Addr(), link.Addr(), 1)
	}
	f := onFleet(t, url)
	p := f.opened("show", 1000)
	old, other := set.Servers[0], set.Servers[1]
	pinned := f.node0()
	for _, link := range links {
		link.Cut()
	}
	must(t, old.Pause())
	storetest.Eventually(t, patience, func() error { return named1(t, set, other) })
	for _, s := range set.Sentinels {
		must(t, s.Pause()) // else they would demote the old one
	}
	old.Resume()
	storetest.Eventually(t, patience, func() error {
		_, err := f.createAt(p, "ghost")
		return err
	})
	for range 3 {
		if past, _, err := f.AdoptBegin(f.ctx(), p, "claim of the pinned", lease, true); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("AdoptBegin on an old master: %v, %v, want ErrUnavailable", past, err)
		}
	}
	_, err := f.createAt(p, "still its own")
	must(t, err) // and so nothing was changed there
	for i, s := range set.Sentinels {
		s.Resume()
		links[i].Heal()
	}
	f.opened("show", 1000)
	if got := f.node0().addr; got != other.Addr() {
		t.Errorf("it adopts on %s, want the new master %s", got, other.Addr())
	}
	if err := pinned.client.Ping(f.ctx()).Err(); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("a connection to the old master: %v, want it dropped", err)
	}
}

func named1(t *testing.T, set *local.RedisSentinel, want *local.Redis) error {
	now, err := set.Master(t.Context())
	if err == nil && now != want {
		err = fmt.Errorf("the master is %s, not yet %s", now.Addr(), want.Addr())
	}
	return err
}

// One Sentinel of three is not enough to adopt on its word: it may be cut off together with an old master.
func TestConfirmNeedsHalfOfTheSentinels(t *testing.T) {
	t.Parallel()
	set := storetest.NewSentinel(t, local.SentinelOptions{})
	f := onFleet(t, set.URL())
	f.opened("show", 1000)
	set.Sentinels[0].Kill()
	f.opened("two of three", 1000)
	must(t, set.Sentinels[1].Pause())
	place := store.Place{Allotment: "one", Group: "one", Buckets: 4}
	if _, _, err := f.AdoptBegin(f.ctx(), place, "claim", lease, true); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("AdoptBegin on the word of one Sentinel of three: %v, want ErrUnavailable", err)
	}
	storetest.Eventually(t, patience, func() error {
		if f.logs.count("which is less than half") == 0 {
			return errors.New("nothing is said of it")
		}
		return nil
	})
}

// F11: with the replica silent nothing is answered, not even a refusal; what was decided stands, and a repeat
// tells when the replica is back.
func TestDurabilityReplicas(t *testing.T) {
	t.Parallel()
	set := storetest.NewSentinel(t, local.SentinelOptions{Replicas: 1})
	f := onFleet(t, set.URL(), durable(Durability{Replicas: 1}), withTimeout(300*time.Millisecond))
	other := onFleet(t, set.URL(), durable(Durability{Replicas: 1}), withTimeout(300*time.Millisecond)) // another server of ours
	loose := onFleet(t, set.URL())                                                                      // does not wait
	p := f.opened("show", 2)
	first, err := f.createAt(p, "first")
	must(t, err)
	h := store.PlacedHold{Place: p, ID: first[0].ID}
	full := f.opened("full", 1)
	must(t, errOf(f.createAt(full, "first")))
	small := f.opened("small", 1)
	unwanted, err := f.createAt(small, "first")
	must(t, err)
	cancelled := store.PlacedHold{Place: small, ID: unwanted[0].ID}
	storetest.Eventually(t, patience, func() error { return acknowledged(t, set.Servers[0]) })
	must(t, set.Servers[1].Pause())
	undecided := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, errUnacknowledged) {
			t.Errorf("%s with the replica silent: %v, want it to be undecided", what, err)
		}
	}
	// Before anything else is written: the replica has acknowledged all there is, and a refusal adds nothing to it.
	undecided("a refusal", errOf(f.createAt(full, "second")))
	undecided("create", errOf(other.createAt(p, "second")))
	undecided("extend", errOf(f.Extend(f.ctx(), h)))
	undecided("cancel", errOf(f.Cancel(f.ctx(), cancelled)))
	undecided("begin", errOf(f.Begin(f.ctx(), store.BeginRequest{
		Holds: []store.PlacedHold{h}, OrderID: "order", Quantity: 1, Lease: lease,
	})))
	if got, err := f.Get(f.ctx(), h); err != nil || got.State != store.Confirming { // the fault hit after the decision
		t.Errorf("the first hold is %v, %v, want CONFIRMING", got.State, err)
	}
	second, err := loose.createAt(p, "second") // the control
	must(t, err)
	set.Servers[1].Resume()
	storetest.Eventually(t, patience, func() error {
		again, err := f.createAt(p, "second")
		if err == nil && again[0].Token != second[0].Token {
			t.Errorf("the repeat got %+v, want %+v", again[0], second[0])
		}
		return err
	})
	refusal(t, errOf(f.createAt(full, "second")), store.AllHeld)
	must(t, errOf(f.Cancel(f.ctx(), cancelled)))
}

// F11: what is taken without proof stands, and nobody is told that he has it. So a server takes no more than one batch
// until its replicas follow again, which it asks with an empty one. That is told as what it is.
func TestNobodyTakesWithoutReplicas(t *testing.T) {
	t.Parallel()
	set := storetest.NewSentinel(t, local.SentinelOptions{Replicas: 1})
	f := onFleet(t, set.URL(), durable(Durability{Replicas: 1}), withTimeout(300*time.Millisecond))
	p := f.opened("show", 10)
	must(t, errOf(f.createAt(p, "warm")))
	must(t, set.Servers[1].Pause())
	for _, buyer := range []string{"first", "second", "third"} {
		err := errOf(f.createAt(p, buyer))
		no, isRejection := errors.AsType[*store.Rejection](err)
		if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, errUnacknowledged) || !isRejection || no.Kind != rejectionUnacknowledged {
			t.Errorf("%s: %v, want it to be undecided for want of replicas", buyer, err)
		}
	}
	if c := f.counters(p)[0]; c.Held != 2 {
		t.Errorf("held: %d, want that of the first batch alone besides the one from before", c.Held)
	}
	set.Servers[1].Resume()
	storetest.Eventually(t, patience, func() error { return errOf(f.createAt(p, "second")) })
}

// With exactly as many replicas as must have a decision, the loss of one, as by a failover, stops all decisions until another is
// attached. The settings warn of it before, and name it then.
func TestDurabilityOfExactlyTheReplicas(t *testing.T) {
	t.Parallel()
	set := storetest.NewSentinel(t, local.SentinelOptions{Replicas: 2})
	f := onFleet(t, set.URL(), durable(Durability{Replicas: 2}), withTimeout(300*time.Millisecond))
	p := f.opened("show", 10)
	decides := func() error { return errOf(f.createAt(p, "request")) }
	storetest.Eventually(t, patience, decides)
	told := func(weak string) func() error {
		return func() error {
			b, w, err := f.CheckSettings(t.Context())
			if err == nil && (len(b) > 0 || !strings.Contains(fmt.Sprint(w), weak)) {
				err = fmt.Errorf("bad %q, weak %q; want %q", b, w, weak)
			}
			return err
		}
	}
	const enough = "have at least 3, or set a lower N"
	must(t, told(enough)())
	set.Servers[2].Kill()
	storetest.Eventually(t, patience, told("durability is replicas:2, but with 1 attached nothing is decided: have at least 3"))
	if err := decides(); !errors.Is(err, errUnacknowledged) {
		t.Errorf("with one replica: %v, want it to be undecided", err)
	}
	must(t, set.Servers[2].Restart(t.Context()))
	storetest.Eventually(t, patience, told(enough))
	storetest.Eventually(t, patience, decides)
}

// acknowledged returns nil when a master's only replica has said that it has everything.
func acknowledged(t *testing.T, master *local.Redis) error {
	info, err := rawClient(t, master.URL()).Info(t.Context(), "replication").Result()
	if err != nil {
		return err
	}
	_, all, _ := strings.Cut(info, "master_repl_offset:")
	all, _, _ = strings.Cut(all, "\r\n")
	if !strings.Contains(info, ",offset="+all+",") {
		return errors.New("the replica has not acknowledged everything")
	}
	return nil
}

// A name that the Sentinels do not know is told as that.
func TestUnknownMasterName(t *testing.T) {
	t.Parallel()
	set := storetest.NewSentinel(t, local.SentinelOptions{})
	f := &fixture{t: t, clock: new(atomic.Int64)}
	f.open(onRedis(strings.Replace(set.URL(), "/holdfast", "/typo", 1)))
	storetest.Eventually(t, patience, func() error {
		if f.logs.count("Sentinels name a master called typo") == 0 || f.logs.count("knows none of that name") == 0 {
			return fmt.Errorf("the log says something else:\n%s", f.logs)
		}
		return nil
	})
}

func TestParseDurability(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Durability{"none": {}, "fsync": {Fsync: true}, "replicas:1": {Replicas: 1}, "replicas:16": {Replicas: 16}} {
		if got, err := ParseDurability(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "None", "replicas", "replicas:", "replicas:0", "replicas:17", "replicas:-1", "replicas:1x", "always"} {
		if _, err := ParseDurability(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
