package holds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	network "github.com/holdfast-inventory/holdfast/store/local/link"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// One stall of a busy machine does not make a server silent, however long ago it was; nor do batches that end without an answer together,
// nor two with a time between them in which nothing was sent.
func TestSilenceIsKnown(t *testing.T) {
	t.Parallel()
	var s silence
	at := time.Now()
	step := func(after time.Duration, begun, known bool) {
		t.Helper()
		at = at.Add(after)
		s.note(at)
		if s.begun() != begun || s.known() != known {
			t.Errorf("begun %v, known %v, want %v, %v", s.begun(), s.known(), begun, known)
		}
	}
	step(0, true, false)
	step(silentMost-1, true, false)
	step(1, true, true)
	step(time.Hour, true, true) // only an answer ends it
	s.end()
	if s.begun() || s.known() {
		t.Error("still silent after an answer")
	}
	step(0, true, false)
	step(silenceGap+1, true, false) // nothing was sent meanwhile
	step(silentMost-1, true, false)
	step(1, true, true)
	s.end()
	step(0, true, false)
	step(silenceGap, true, true)
}

// A server that answers with an error is not silent, whatever the error is.
func TestErrorsEndASilence(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	n := f.node0()
	for _, answer := range []string{"LOADING Redis is loading", "MISCONF cannot write", "NOREPLICAS", "ERR whatever"} {
		f.blame(n, io.ErrUnexpectedEOF)
		if !n.silence.begun() {
			t.Error("no silence begins")
		}
		err := f.raw.Eval(f.ctx(), "return redis.error_reply(ARGV[1])", nil, answer).Err()
		if f.blame(n, err); n.silence.begun() {
			t.Errorf("%v: still silent after an answer", err)
		}
	}
}

// Hints, too, are not sent to a server that is known to be silent, but one, whose answer ends it. A caller who goes away says nothing
// of the server.
func TestHintsOfASilentServer(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	way := storetest.NewLink(t, storetest.Redis(t).Addr())
	g := f.another(onRedis("redis://"+way.Addr()), withTimeout(time.Second))
	n := g.node0()
	read := func() error {
		_, _, err := g.Place(f.ctx(), f.place.Allotment)
		return err
	}
	gone, cancel := context.WithCancel(f.ctx())
	cancel()
	if err := g.SetPlace(gone, f.place); !errors.Is(err, store.ErrUnavailable) || n.silence.begun() {
		t.Errorf("a caller who has gone away: %v, silent %v", err, n.silence.begun())
	}

	way.Swallow()
	for !n.silence.begun() {
		if err := read(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("through a black hole: %v, want ErrUnavailable", err)
		}
	}
	way.Heal()
	storetest.Eventually(t, patience, read)
	if n.silence.begun() {
		t.Error("still silent after it has answered")
	}

	n.hints.Add(1) // one that is under way
	must(t, read())
	n.silence.state.Store(&unanswered{known: true})
	if err := read(); !errors.Is(err, store.ErrUnavailable) || !n.silence.known() {
		t.Errorf("behind a hint: %v, known %v, want ErrUnavailable", err, n.silence.known())
	}
	n.hints.Add(-1)
	must(t, g.SetPlace(f.ctx(), f.place)) // alone
	if n.silence.known() {
		t.Error("known to be silent after it has answered")
	}
}

// Of a server that is known to be silent a lane has one batch under way and one request that waits; all others are told at once.
// Whichever lane's batch is answered ends it for all.
func TestSilentServerKeepsNobody(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	read := func(int) error { return errOf(f.Counters(f.ctx(), []store.Place{f.place})) }
	g := f.shut(laneCaller, read)
	f.node0().silence.state.Store(&unanswered{since: time.Now(), known: true})
	g.start("next", 1, read)
	g.start("others", 20, read)
	if n := len(g.of("next")); n != 0 {
		t.Errorf("who waits to be next was answered: %v", g.of("next"))
	}
	others := g.of("others")
	for _, err := range others {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("one of many: %v, want ErrUnavailable", err)
		}
	}
	if len(others) != 20 {
		t.Errorf("%d of 20 were told while a batch is under way, want all", len(others))
	}
	f.hold("buyer", "in another lane", 1)
	g.start("after", 20, read)
	if n := len(g.of("after")); n != 0 {
		t.Errorf("%d are turned away by a server that answers: %v", n, g.of("after"))
	}
	g.open()
	for _, name := range []string{"first", "next", "after"} {
		for _, err := range g.of(name) {
			must(t, err)
		}
	}
}

// Who comes while a server does not answer waits no longer than one batch, though another is under way and its own time is longer:
// so a confirm is answered in 100 ms.
func TestNobodyWaitsForTwoBatches(t *testing.T) {
	t.Parallel()
	f := setup(t, 10, withTimeout(time.Second))
	read := func(int) error { return errOf(f.Counters(f.ctx(), []store.Place{f.place})) }
	g := f.shut(laneCaller, read)
	f.node0().silence.note(time.Now())
	g.call("behind", 1, read)
	storetest.Eventually(t, patience, func() error {
		if len(g.of("behind")) == 0 {
			return errors.New("still waits for the batch that is under way")
		}
		return nil
	})
	if err := g.of("behind")[0]; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	g.open()
}

// Steps of adopts are not turned away, so that those of a slow server come to an end.
func TestAdoptsWaitForASilentServer(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	look := func(int) error { return errOf(f.Due(f.ctx(), []store.Place{f.place}, 1)) }
	g := f.shut(laneUpkeep, look)
	f.node0().silence.state.Store(&unanswered{since: time.Now(), known: true})
	g.start("next", 1, look)
	g.start("adopts", 3, func(int) error { return f.AdoptReset(f.ctx(), f.place, "nobody's claim") })
	if told := g.of("adopts"); len(told) != 0 {
		t.Errorf("steps of adopts were told %v", told)
	}
	g.open()
	for _, err := range g.of("adopts") {
		if !errors.Is(err, store.ErrStale) {
			t.Errorf("a step without a claim: %v, want ErrStale", err)
		}
	}
}

// A server whose answers come too late for callers is slow, not silent: background work waits for them.
func TestSlowServerIsNotSilent(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	way, err := network.New(storetest.Redis(t).Addr())
	must(t, err)
	t.Cleanup(way.Close)
	slow := f.another(onRedis("redis://"+way.Addr()), withTimeout(DefaultTimeout))
	must(t, way.Delay(150*time.Millisecond))
	ctx, stop := context.WithCancel(f.ctx())
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, _ = slow.Create(ctx, slow.request(fmt.Sprint("buyer-", i), fmt.Sprint(n), 100)) // whatever it is told
			}
		})
	}
	defer callers.Wait()
	defer stop()
	for range 5 {
		storetest.Eventually(t, patience, func() error {
			if !slow.node0().silence.known() {
				return errors.New("it answers callers in time")
			}
			return nil
		})
		storetest.Eventually(t, patience, func() error {
			err := errOf(slow.Due(f.ctx(), []store.Place{f.place}, 1))
			if err == nil && slow.node0().silence.known() {
				err = errors.New("it has answered, and is known to be silent")
			}
			return err
		})
	}
}

// Callers never wait for longer than their own time; looks not as long as other background work, which has no longer
// than they once a server does not answer.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	f := setup(t, 10, withTimeout(DefaultTimeout))
	look, other := newCall(dueScript), newCall("scan")
	check := func(l lane, want time.Duration, calls ...*call) {
		t.Helper()
		if got := f.timeoutOf(l, f.node0(), calls); got != want {
			t.Errorf("lane %s, silent %v: %v, want %v", l, f.node0().silence.begun(), got, want)
		}
	}
	for _, l := range []lane{laneCreate, laneCaller, laneFinish} {
		check(l, DefaultTimeout, other)
	}
	check(laneUpkeep, lookTimeout, look, look)
	check(laneUpkeep, upkeepTimeout, look, other)
	f.node0().silence.note(time.Now())
	check(laneCaller, DefaultTimeout, other)
	check(laneUpkeep, lookTimeout, look, other)
	f.timeout = time.Minute
	check(laneUpkeep, time.Minute, look)
}

// A look gives its place to others after a while, whatever it waits for.
func TestLooksGiveUp(t *testing.T) {
	t.Parallel()
	f := setup(t, 10, withTimeout(time.Second))
	look := func(int) error { return errOf(f.Due(f.ctx(), []store.Place{f.place}, 1)) }
	g := f.shut(laneUpkeep, look)
	g.call("behind", 1, look)
	storetest.Eventually(t, patience, func() error {
		if len(g.of("behind")) == 0 {
			return errors.New("it still waits")
		}
		return nil
	})
	g.open()
}

// F13 in a cluster: while a master is frozen, looks at what is there end, however many; when it goes on, all is as before.
func TestClusterWithAFrozenMaster(t *testing.T) {
	t.Parallel()
	c := storetest.NewRedisCluster(t, local.ClusterOptions{NodeTimeout: time.Minute})
	f := onFleet(t, c.URL(), withTimeout(500*time.Millisecond)) // the machine may be busy
	var places []store.Place
	for i := range c.Masters {
		places = append(places, f.opened(onMaster(t, c, i, 0), 1_000_000))
	}
	frozen, err := f.fleet.route(places[0].Group)
	must(t, err)
	must(t, c.Masters[0].Pause())
	look := func() error { return errOf(f.Due(f.ctx(), places[:1], 1)) }
	storetest.Eventually(t, patience, func() error {
		if err := look(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a look: %v, want ErrUnavailable", err)
		}
		if !frozen.silence.known() {
			return errors.New("it is not known to be silent")
		}
		return nil
	})
	var waited atomic.Int64 // of those who look
	storetest.Together(1000, func(i int) {
		if err := look(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a look: %v, want ErrUnavailable", err)
		} else if err.Error() != frozen.silent().Error() {
			waited.Add(1)
		}
		if i%10 == 0 {
			must(t, errOf(f.createAt(places[1+i%2], fmt.Sprint("buyer-", i))))
		}
	})
	if n := waited.Load(); n == 0 || n > 100 {
		t.Errorf("%d of 1000 looks waited for an answer, want few", n)
	}
	c.Masters[0].Resume()
	storetest.Eventually(t, patience, look)
	for i, p := range places {
		must(t, errOf(f.createAt(p, fmt.Sprint("after-", i))))
	}
}
