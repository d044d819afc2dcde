package holds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/batch"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// gate keeps the batches of a lane from being sent, and notes them.
type gate struct {
	f       *fixture
	lane    lane
	opened  chan struct{}
	callers sync.WaitGroup

	mu      sync.Mutex
	batches [][]*op
	results map[string][]error // of the callers, by the name of what they ask for
}

// Small enough that a flood of it needs no thousands of goroutines.
const gatedMost, gatedLane = 128, 1024

// shut gives the fixture a queue with a gate, and has one request wait at it.
func (f *fixture) shut(l lane, first func(int) error) *gate {
	f.t.Helper()
	g := &gate{f: f, lane: l, opened: make(chan struct{}), results: map[string][]error{}}
	limits := batch.Limits{Batch: gatedMost + groupWeight, Flow: groupWeight, Lane: gatedLane}
	f.lanes = batch.NewLanes[queue, flow](limits, (*op).weight, func(of queue, ops []*op) {
		if of.lane == l {
			g.mu.Lock()
			g.batches = append(g.batches, ops)
			g.mu.Unlock()
			<-g.opened
		}
		f.run(of, ops)
	})
	g.call("first", 1, first)
	storetest.Eventually(f.t, patience, func() error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if len(g.batches) == 0 {
			return errors.New("no batch has begun")
		}
		return nil
	})
	return g
}

// start has n callers call, and returns when all of them wait or have an answer.
func (g *gate) start(name string, n int, call func(int) error) {
	g.f.t.Helper()
	waiting, answered := g.f.lanes.Waiting(queue{lane: g.lane}), len(g.of(name))
	g.call(name, n, call)
	storetest.Eventually(g.f.t, patience, func() error {
		if got := g.f.lanes.Waiting(queue{lane: g.lane}) - waiting + len(g.of(name)) - answered; got != n {
			return fmt.Errorf("%d of %d callers have come", got, n)
		}
		return nil
	})
}

func (g *gate) call(name string, n int, call func(int) error) {
	for i := range n {
		g.callers.Go(func() {
			err := call(i)
			g.mu.Lock()
			defer g.mu.Unlock()
			g.results[name] = append(g.results[name], err)
		})
	}
}

// of are the answers that the callers of this name have.
func (g *gate) of(name string) []error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.results[name])
}

func (g *gate) open() {
	close(g.opened)
	g.callers.Wait()
}

// in are the numbers of the batches with these ops; the one that was at the gate is 0.
func (g *gate) in(these func(*op) bool) []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	var numbers []int
	for i, ops := range g.batches {
		if slices.ContainsFunc(ops, these) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// creates calls Create for allotment p, by buyers of their own.
func (f *fixture) creates(p store.Place, request string) func(int) error {
	return func(i int) error {
		return errOf(f.Create(f.ctx(), cart(fmt.Sprint("buyer-", i), request, line(p, 1))))
	}
}

// One allotment is sold out and flooded. The neighbour's requests are all granted, and it is the flood that is told of a
// full queue. They wait for one turn of the flood, even behind all of it, or, in the same group, for what came before them.
func TestS76OneHotItemSlowsTheNeighbour(t *testing.T) {
	t.Parallel()
	const neighbours = 50
	for name, c := range map[string]struct {
		group  func(hot store.Place) string
		before int // of the flood
		batch  int
	}{
		"of another group": {func(store.Place) string { return "" }, gatedLane, 1},
		"of the same":      {func(hot store.Place) string { return hot.Group }, 300, 1 + (300+neighbours)/gatedMost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 0)
			cold := f.allot(storetest.UniqueID(t), c.group(f.place), neighbours)
			g := f.shut(laneCreate, f.creates(f.place, "first"))
			g.start("hot", c.before, f.creates(f.place, "before"))
			g.start("cold", neighbours, f.creates(cold, "request"))
			g.start("hot", gatedLane, f.creates(f.place, "behind"))
			g.open()
			for _, err := range g.of("cold") {
				if err != nil {
					t.Errorf("the neighbour: %v", err)
				}
			}
			full := 0
			for _, err := range append(g.of("hot"), g.of("first")...) {
				if errors.Is(err, store.ErrQueueFull) {
					full++
				} else {
					refusal(t, err, store.SoldOut)
				}
			}
			if flood := len(g.of("hot")); full < flood-gatedLane/2 || full == flood {
				t.Errorf("%d of a flood of %d met a full queue, in which at most %d wait", full, flood, gatedLane/2)
			}
			if got := g.in(func(o *op) bool { return o.places[0] == cold }); len(got) != 1 || got[0] != c.batch {
				t.Errorf("the neighbour's requests are in the batches %v, want %d", got, c.batch)
			}
			f.wantAt(cold, fmt.Sprintf("available 0, held %d", neighbours))
		})
	}
}

// While new holds wait, and no more of them fit, everything else is answered.
func TestFloodOfCreates(t *testing.T) {
	t.Parallel()
	f := setup(t, 2000)
	h := f.hold("early", "request", 1)
	g := f.shut(laneCreate, f.creates(f.place, "first"))
	g.start("flood", gatedLane, f.creates(f.place, "request"))
	others := f.everyCall(h)
	delete(others, "Create")
	delete(others, "repeat") // of a Create
	for name, call := range others {
		if err := call(); errors.Is(err, store.ErrQueueFull) || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	g.open()
	granted := 0
	for _, err := range g.of("flood") {
		if err == nil {
			granted++
		} else if !errors.Is(err, store.ErrQueueFull) {
			t.Errorf("a create: %v", err)
		}
	}
	if want := gatedLane/2 - groupWeight; granted != want {
		t.Errorf("%d were granted, want the %d that could wait", granted, want)
	}
}

// A confirm does not wait for all who read what is left of a hot group.
func TestFloodOfReads(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 1)
	read := func(int) error { return errOf(f.Counters(f.ctx(), []store.Place{f.place})) }
	g := f.shut(laneCaller, read)
	g.start("reads", gatedLane, read)
	if len(g.of("reads")) == 0 {
		t.Error("all reads found room")
	}
	g.start("begin", 1, func(int) error { return errOf(f.Begin(f.ctx(), f.beginRequest("order", h))) })
	g.open()
	if err := g.of("begin")[0]; err != nil {
		t.Errorf("Begin: %v", err)
	}
	if got := g.in(func(o *op) bool { return o.script == "begin" }); len(got) != 1 || got[0] != 1 {
		t.Errorf("the confirm is in the batches %v, want the next", got)
	}
}

// Reads that wait together share a call, whatever they ask for, and each gets what it asked for.
func TestReadsShareACall(t *testing.T) {
	t.Parallel()
	f := setup(t, 10, onRedis(storetest.NewRedis(t, local.RedisOptions{}).URL())) // where nobody else calls
	places, capacity := []store.Place{f.place}, []int64{10, 20, 30, 40}
	for _, c := range capacity[1:] {
		places = append(places, f.allot(storetest.UniqueID(t), "", c))
	}
	read := func(i int) error {
		one, two := i%4, (i+1+i/4%3)%4
		got, err := f.Counters(f.ctx(), []store.Place{places[one], places[two]})
		if err == nil && (got[0].Capacity != capacity[one] || got[1].Capacity != capacity[two]) {
			err = fmt.Errorf("asked for %d and %d, got %+v", one, two, got)
		}
		return err
	}
	g := f.shut(laneCaller, read)
	g.start("reads", 40, read)
	before := f.evalsha()
	g.open()
	for _, err := range g.of("reads") {
		if err != nil {
			t.Error(err)
		}
	}
	if calls := f.evalsha() - before; calls > 2 {
		t.Errorf("41 reads took %v calls, want one for the first and one for the others", calls)
	}
}

// A reply that was cut off is none: what the call did is not known. One that came in whole is, whatever became of those behind it.
func TestSettle(t *testing.T) {
	t.Parallel()
	whole := []any{int64(1)}
	errCut, failure := io.ErrUnexpectedEOF, errors.New("no connection")
	for name, c := range map[string]struct {
		value any
		err   error
		want  any
		fails error
	}{
		"whole":                {whole, nil, whole, nil},
		"another was cut off":  {whole, errCut, whole, nil},
		"a list cut off":       {[]any(nil), errCut, nil, errCut},
		"a text cut off":       {"", errCut, nil, errCut},
		"a number":             {int64(1), nil, int64(1), nil},
		"nothing came":         {nil, errCut, nil, errCut},
		"nothing was sent":     {nil, nil, nil, failure},
		"an empty list, whole": {[]any{}, errCut, []any{}, nil},
	} {
		reply := redis.NewCmd(t.Context())
		reply.SetVal(c.value)
		reply.SetErr(c.err)
		got, err := settle(reply, failure)
		if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, c.fails) {
			t.Errorf("%s: %v, %v, want %v, %v", name, got, err, c.want, c.fails)
		}
	}
}

// Whoever's time is over before its turn is not sent.
func TestDeadlineInTheQueue(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	g := f.shut(laneCreate, f.creates(f.place, "first"))
	ctx, cancel := context.WithTimeout(f.ctx(), 10*time.Millisecond)
	defer cancel()
	_, err := f.Create(ctx, f.request("late", "request", 1))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the late caller: %v", err)
	}
	g.start("behind", 1, f.creates(f.place, "behind"))
	g.open()
	f.want("held 2, sequence 2")
}
