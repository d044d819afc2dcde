package holds

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// Scripts that the server no longer knows are loaded, and the calls go on: the identity is what says
// whether it went back in time (F18).
func TestNoScript(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{})
	f := setup(t, 1000, onRedis(server.URL()))
	replicas := []*fixture{f, f.another()}
	var done atomic.Bool
	var lost atomic.Int64
	go func() {
		defer done.Store(true)
		storetest.Together(10, func(i int) {
			for n := range 20 {
				_, err := replicas[i%2].Create(f.ctx(), f.request(fmt.Sprint(i), fmt.Sprint(n), 1))
				if errors.Is(err, store.ErrUnavailable) {
					lost.Add(1) // flushed again between loading and running
				} else if err != nil {
					t.Errorf("Create: %v", err)
				}
			}
		})
	}()
	flushes := 0
	for ; !done.Load(); flushes++ {
		must(t, f.raw.ScriptFlush(f.ctx()).Err())
	}
	t.Logf("%d flushes, %d of 200 calls lost", flushes, lost.Load())
	f.want(fmt.Sprintf("held %d, epoch 1", 200-lost.Load()))
	must(t, f.raw.ScriptFlush(f.ctx()).Err())
	f.hold("after", "request", 1)
}

// A restarted server is another: what it still has is adopted, not used; what it had survives.
func TestRestartKeepingData(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{Persist: true})
	f := setup(t, 100, onRedis(server.URL()))
	h := f.hold("buyer", "request", 2)
	f.begin("order", f.hold("pinned", "request", 3))
	must(t, server.Restart(f.ctx()))
	f.needsAdopt()
	f.shutGate(h)
	f.adoptBegin(f.place, "claim")
	records, damaged := f.survivors("claim")
	if len(records) != 2 || len(damaged) != 0 {
		t.Fatalf("survivors %+v, damaged %v", records, damaged)
	}
	f.rebuild("claim", 2, 1, records, f.buyersOf(records, nil), store.Counters{Capacity: 100, Available: 95, Held: 2, Confirming: 3})
	if b := f.begin("order-2", h); b[0].Epoch != 2 || b[0].Token != h.Token {
		t.Errorf("begun %+v", b[0])
	}
}

// needsAdopt waits until the connections of old are replaced; all the while nothing is refused.
func (f *fixture) needsAdopt() {
	f.t.Helper()
	storetest.Eventually(f.t, patience, func() error {
		_, err := f.Create(f.ctx(), f.request("probe", "request", 1000))
		var needed *store.AdoptNeeded
		if errors.As(err, &needed) {
			return nil
		}
		if !errors.Is(err, store.ErrUnavailable) {
			f.t.Fatalf("Create: %v, want AdoptNeeded or ErrUnavailable", err)
		}
		return err
	})
}

func TestRestartLosingData(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{})
	f := setup(t, 100, onRedis(server.URL()))
	h := f.hold("buyer", "request", 2)
	server.Kill()
	if err := errOf(f.Create(f.ctx(), f.request("x", "request", 1))); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("with a dead server: %v, want ErrUnavailable", err)
	}
	must(t, server.Restart(f.ctx()))
	f.needsAdopt()
	f.shutGate(h)
	if past := f.adoptBegin(f.place, "claim"); past.Epoch != 0 || past.Version != 0 {
		t.Errorf("past of an empty server: %+v", past)
	}
}

// F17.
func TestFlushAll(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{})
	f := setup(t, 100, onRedis(server.URL()))
	h := f.hold("buyer", "request", 2)
	must(t, f.raw.FlushAll(f.ctx()).Err())
	f.shutGate(h)
	f.adopt(newAllotment(f.place, 100), 2)
	if again := f.hold("buyer", "request", 1); again.Token.Epoch != 2 {
		t.Errorf("a hold after FLUSHALL: %+v", again)
	}
}

// A replica, a master that was demoted, and a replica that was promoted are no servers to decide on, and
// none may be adopted before it is a master.
func TestReplica(t *testing.T) {
	t.Parallel()
	first, second := storetest.NewRedis(t, local.RedisOptions{}), storetest.NewRedis(t, local.RedisOptions{})
	f := setup(t, 5, onRedis(first.URL()))
	f.hold("first", "request", 5) // sold out, were it asked
	other := &fixture{t: t, clock: f.clock, place: f.place, places: f.places}
	other.open(onRedis(second.URL()))
	host, port, _ := strings.Cut(first.Addr(), ":")
	must(t, other.raw.ReplicaOf(f.ctx(), host, port).Err())
	storetest.Eventually(t, patience, func() error {
		info, err := other.raw.Info(context.Background(), "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = errors.New("not in sync")
		}
		return err
	})
	// The first replica gives the master a new identity: harmless, but all is adopted.
	f.shutGate(store.Hold{ID: store.NewHoldID(f.place.Allotment, "first", "request"), BuyerID: "first", RequestID: "request", Quantity: 5})
	f.adoptBegin(f.place, "claim")
	records, _ := f.survivors("claim")
	f.rebuild("claim", 2, 1, records, f.buyersOf(records, nil), store.Counters{Capacity: 5, Held: 5})
	refusal(t, errOf(f.Create(f.ctx(), f.request("x", "request", 1))), store.AllHeld)
	// WAIT would only wait for what its own connection wrote.
	storetest.Eventually(t, patience, func() error {
		if diff := cmp.Diff(f.dump(f.place.Group), other.dump(f.place.Group)); diff != "" {
			return fmt.Errorf("the replica is behind:\n%s", diff)
		}
		return nil
	})

	other.shutGate(records[0].Hold)
	if past, _, err := other.AdoptBegin(f.ctx(), f.place, "claim-2", lease, true); past != nil || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("AdoptBegin on a replica: %+v, %v, want ErrUnavailable", past, err)
	}
	if past, left, err := other.Store.claim(f.ctx(), f.place, "claim-2", lease, true); past != nil || err != nil || left <= 0 {
		t.Errorf("a claim on what has become a replica since it was asked: %+v, %v, %v", past, left, err)
	}
	other.stale("claim-2", records[0].Hold)
	must(t, other.raw.ReplicaOf(f.ctx(), "NO", "ONE").Err()) // promoted
	other.shutGate(records[0].Hold)
	host, port, _ = strings.Cut(second.Addr(), ":")
	must(t, f.raw.ReplicaOf(f.ctx(), host, port).Err()) // demoted
	f.needsAdopt()
	if past, _, err := f.AdoptBegin(f.ctx(), f.place, "claim-3", lease, true); past != nil || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("AdoptBegin on a demoted master: %+v, %v, want ErrUnavailable", past, err)
	}
}

// With no memory left, new holds are not given, and nothing is said to be sold out; what frees memory
// or ends what was begun still works, adopts included.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{})
	f := setup(t, 100, onRedis(server.URL()))
	lapsing, ended := f.hold("lapsing", "request", 1), f.cancel(f.hold("ended", "request", 1))
	confirming := f.hold("confirming", "request", 1)
	f.begin("order", confirming)
	f.advance(retention + holdTime)
	live, other := f.hold("live", "request", 1), f.hold("other", "request", 1)
	must(t, f.raw.ConfigSet(f.ctx(), "maxmemory", "1").Err())
	before := f.dump(f.place.Group)
	for name, err := range map[string]error{
		"Create": errOf(f.Create(f.ctx(), f.request("x", "request", 1))), "Shrink": errOf(f.Shrink(f.ctx(), f.shrinkRequest("r", 1))),
	} {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
	}
	f.unchanged(before, f.place.Group, "a call without memory")
	w := f.work()
	if diff := cmp.Diff([]int{1, 1, 1}, []int{len(w.Lapsed), len(w.Confirms), len(w.Ended)}); diff != "" {
		t.Errorf("due (-want +got):\n%s", diff)
	}
	if n := f.release(lapsing); n != 1 {
		t.Errorf("released %d", n)
	}
	refusal(t, errOf(f.Create(f.ctx(), f.request("x", "request", 99))), store.AllHeld) // true, and needs none
	must(t, f.Purge(f.ctx(), f.place, ids([]store.Hold{ended})))
	claimed := f.claim(confirming)
	f.finish(confirming, soldVerdict(claimed[0].Hold))
	b := f.begin("live-order", live)
	f.finish(live, soldVerdict(b[0].Hold))
	f.cancel(other)
	f.wantFeed(1, 2, grow(1, 1), cancelled(2, 1, "live"))
	f.want("available 100, held 0, confirming 0, sold 1, capacity 101")
	f.adoptBegin(f.place, "claim")
	records, _ := f.survivors("claim")
	f.rebuild("claim", 2, 1, records, f.buyersOf(records, map[string]int64{"confirming": 1}), store.Counters{Capacity: 101, Available: 100, Sold: 1})
	f.want("epoch 2, available 100")
}

// A server that refuses to write is trouble, not a refusal.
func TestServerRefusesWrites(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{})
	f := setup(t, 5, onRedis(server.URL()))
	f.hold("a", "request", 1)
	must(t, f.raw.ConfigSet(f.ctx(), "min-replicas-to-write", "1").Err())
	before := f.dump(f.place.Group)
	for range 3 {
		if err := errOf(f.Create(f.ctx(), f.request("x", "request", 1))); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("NOREPLICAS: %v, want ErrUnavailable", err)
		}
	}
	f.unchanged(before, f.place.Group, "a refused write")
	must(t, f.raw.ConfigSet(f.ctx(), "min-replicas-to-write", "0").Err())
	f.hold("x", "request", 1)
	if n := f.logs.count("a script failed"); n != 0 {
		t.Errorf("the server's refusal was logged as a script's failure:\n%s", f.logs)
	}
}

// A script that fails is a bug, and loud: here one is made to, by a script of another text.
func TestFailingScriptIsLogged(t *testing.T) {
	t.Parallel()
	f := setup(t, 5)
	broken := f.scripts["get"]
	source := "return redis.call('GET', KEYS[1])" // of a hash
	sha, err := f.raw.ScriptLoad(f.ctx(), source).Result()
	must(t, err)
	broken.Source, broken.SHA = source, sha
	f.scripts["get"] = broken
	h := f.hold("buyer", "request", 1)
	if err := errOf(f.Get(f.ctx(), f.placed(h))); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Get: %v, want ErrUnavailable", err)
	}
	if n := f.logs.count("a script failed"); n != 1 {
		t.Errorf("logged %d failures, want 1:\n%s", n, f.logs)
	}
}
