//go:build failpoints

package inventory

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/failpoint"
	"github.com/holdfast-inventory/holdfast/store/holds"
	"github.com/holdfast-inventory/holdfast/store/ledger"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

var (
	firstSeed   = flag.Uint64("seed", 1, "first seed of TestRandomCrashes")
	seedCount   = flag.Int("seeds", 1000, "most seeds of TestRandomCrashes")
	seedTime    = flag.Duration("seed-time", 150*time.Second, "time after which TestRandomCrashes starts no more seeds")
	seedVerbose = flag.Bool("seed-log", false, "print the story of every seed of TestRandomCrashes")
)

const (
	randomWorkers   = 4
	randomSteps     = 40
	randomRetention = 10 * time.Minute // of the world's clock
	randomPatience  = 60 * time.Second // of ours
)

// TestRandomCrashes plays seeded random stories over all operations, in which replicas are killed
// before or after any call to a store, or frozen there and thawed much later, and in which Redis
// loses its data or its identity. After every step the counters must add up; every answer is
// checked against what the story allows; at the end, when supervisors have had their time,
// everything must be accounted for (R1-R6, R8).
//
// go test -tags failpoints ./server/inventory -run RandomCrashes -seed 7 -seeds 1 -seed-log
func TestRandomCrashes(t *testing.T) {
	lab := newLab(t)
	failpoint.Set(dawdle)
	defer failpoint.Set(nil)
	deadline := time.Now().Add(*seedTime)
	var next atomic.Uint64
	next.Store(*firstSeed)
	var played, crashes, freezes, losses atomic.Int64
	var workers sync.WaitGroup
	for range min(randomWorkers, *seedCount) {
		workers.Go(func() {
			var offset atomic.Int64
			h := lab.holdsAt(&offset)
			for time.Now().Before(deadline) && !t.Failed() {
				seed := next.Add(1) - 1
				if seed >= *firstSeed+uint64(*seedCount) {
					return
				}
				s := newStory(lab, h, &offset, seed)
				if err := s.play(); err != nil {
					s.tell(t)
					t.Errorf("seed %d: %v", seed, err)
				} else if *seedVerbose {
					s.tell(t)
				}
				played.Add(1)
				crashes.Add(int64(s.crashes))
				freezes.Add(int64(s.freezes))
				losses.Add(int64(s.losses))
			}
		})
	}
	workers.Wait()
	t.Logf("%d seeds from %d: %d replicas killed, %d frozen, Redis lost %d times; %d actions met trouble",
		played.Load(), *firstSeed, crashes.Load(), freezes.Load(), losses.Load(), lab.troubles.Load())
	if lab.troubles.Load() > max(2, played.Load()/100) {
		t.Error("actions met trouble that nobody made")
	}
	if played.Load() >= 20 && (crashes.Load() == 0 || freezes.Load() == 0 || losses.Load() == 0) {
		t.Error("the faults did not hit")
	}
}

// dawdle makes transactions stay open for a moment, so that others meet them.
func dawdle(point string) {
	if point == "ledger-before-commit" && rand.IntN(4) == 0 {
		time.Sleep(time.Duration(rand.IntN(8)) * time.Millisecond) // not a wait: the time itself is the fault
	}
}

// lab is the servers that all stories share.
type lab struct {
	t      *testing.T
	redis  string
	raw    *redis.Client
	ledger *ledger.Ledger
	reader *ledger.Ledger // the same, reading before it writes: a transaction can be met, and frozen, between the two
	log    *slog.Logger

	troubles atomic.Int64 // actions that met a store that was not available, though nothing was done to it
}

func newLab(t *testing.T) *lab {
	l := &lab{t: t, redis: storetest.Redis(t).URL(), log: slog.New(slog.DiscardHandler)}
	if os.Getenv("HOLDFAST_TEST_LOG") != "" {
		l.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	options, err := redis.ParseURL(l.redis)
	if err != nil {
		t.Fatal(err)
	}
	l.raw = redis.NewClient(options)
	t.Cleanup(func() { _ = l.raw.Close() })
	url := storetest.MigratedDatabase(t, ledger.Migrate)
	l.ledger, l.reader = l.ledgerAt(url, false), l.ledgerAt(url, true)
	return l
}

func (l *lab) ledgerAt(url string, readFirst bool) *ledger.Ledger {
	opened, err := ledger.Open(context.Background(), ledger.Options{
		URL: url, MaxConns: 16, BackgroundMaxConns: 8, Logger: l.log, ReadFirst: readFirst,
		CallTimeout: randomPatience, LockTimeout: randomPatience, StatementTimeout: randomPatience,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(opened.Close)
	return opened
}

func (l *lab) holdsAt(offset *atomic.Int64) *holds.Store {
	h, err := holds.Open(holds.Options{
		URL: l.redis, Timeout: randomPatience, Retention: randomRetention, Logger: l.log,
		Meters: metricnoop.NewMeterProvider(), Traces: tracenoop.NewTracerProvider(),
		Offset: func() time.Duration { return time.Duration(offset.Load()) },
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = h.Close() })
	return h
}

// life is a replica with a fate.
type life struct {
	*Inventory
	fate *fate
	name string
}

// story is one seed's run.
type story struct {
	lab    *lab
	rng    *rand.Rand
	holds  *holds.Store
	offset *atomic.Int64

	mu    sync.Mutex
	lines []string // what happened

	replicas   []*life
	lives      int // replicas made
	frozen     []*life
	allotments []string

	granted map[store.HoldID]*grant
	order   []store.HoldID               // of granted, oldest first
	touched map[store.HoldID]bool        // somebody may have ended it on purpose
	sales   map[store.HoldID]string      // acknowledged: order
	tokens  map[store.HoldID]store.Token // of acknowledged sales
	refused map[store.HoldID]string      // ORDER_EXISTS was acknowledged: order
	orders  int

	kept                     map[string]string // an older Redis state
	forged                   atomic.Bool       // Redis showed stock that is not there; actions that were frozen may ask at any time
	crashes, freezes, losses int
	lossAt                   time.Time // when Redis last lost data: no promise is older
	running                  sync.WaitGroup
}

// grant is an acknowledged hold.
type grant struct {
	hold     store.Hold
	deadline time.Time // by the world's clock, not later than Redis has it
	order    string    // order under which a confirm was tried
}

func newStory(l *lab, h *holds.Store, offset *atomic.Int64, seed uint64) *story {
	s := &story{
		lab: l, rng: rand.New(rand.NewPCG(seed, 20260730)), holds: h, offset: offset,
		granted: map[store.HoldID]*grant{}, touched: map[store.HoldID]bool{}, sales: map[store.HoldID]string{}, tokens: map[store.HoldID]store.Token{}, refused: map[store.HoldID]string{},
	}
	prefix := fmt.Sprintf("s%d-%d", seed, time.Now().UnixNano()%1_000_000_000)
	s.allotments = []string{prefix + "-a", prefix + "-b"}
	for i := range 3 {
		s.replicas = append(s.replicas, s.newLife(fmt.Sprintf("replica-%d", i)))
	}
	return s
}

func (s *story) newLife(name string) *life {
	f, books := newFate(), s.lab.ledger
	if s.lives++; s.lives%2 == 0 {
		books = s.lab.reader
	}
	v, err := New(Options{
		Redis: &mortalRedis{Redis: s.holds, f: f}, Ledger: &mortalLedger{Ledger: books, f: f}, Logger: s.lab.log,
		Meters: metricnoop.NewMeterProvider(), DecisionTime: randomPatience, ConfirmTime: randomPatience,
		AdoptLease: 50 * time.Millisecond, Retention: randomRetention,
	})
	if err != nil {
		s.lab.t.Fatal(err)
	}
	return &life{Inventory: v, fate: f, name: name}
}

func (s *story) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *story) tell(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.lines {
		t.Log(line)
	}
}

func (s *story) now() time.Time { return time.Now().Add(time.Duration(s.offset.Load())) }

func (s *story) play() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*randomPatience)
	defer cancel()
	if err := s.openAllotments(ctx); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	for i := range randomSteps {
		if err := s.step(ctx, i); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return s.end(ctx)
}

func (s *story) openAllotments(ctx context.Context) error {
	for i, id := range s.allotments {
		a := store.Allotment{
			Place: store.Place{Allotment: id, Group: s.allotments[0]}, Capacity: int64(2 + s.rng.IntN(6)),
			Rules: store.Rules{
				State: store.StateOpen, LateConfirm: store.LateConfirm(1 + s.rng.IntN(2)), HoldDuration: 120 * time.Second,
				MaxHoldDuration: 360 * time.Second, MaxPerHold: 1000,
			},
		}
		if s.rng.IntN(3) == 0 {
			a.MaxPerBuyer = int64(1 + s.rng.IntN(4))
		}
		if _, err := s.replicas[i].CreateAllotment(ctx, a); err != nil {
			return err
		}
		s.say("open %s: capacity %d, per buyer %d, late %d", id, a.Capacity, a.MaxPerBuyer, a.LateConfirm)
	}
	return nil
}

// step is one action, or some at once; a replica in it may die or freeze on the way.
func (s *story) step(ctx context.Context, number int) error {
	switch n := s.rng.IntN(100); {
	case n < 12:
		d := []time.Duration{time.Second, 11 * time.Second, 60 * time.Second, 121 * time.Second, randomRetention + time.Minute}[s.rng.IntN(5)]
		s.offset.Add(int64(d))
		s.say("%d: %s pass", number, d)
	case n < 16:
		s.loseRedis(ctx, number)
	case n < 17:
		s.keep(ctx)
	case n < 20:
		s.thaw(number)
	case n < 35:
		return s.atOnce(ctx, number, 2+s.rng.IntN(2))
	default:
		return s.atOnce(ctx, number, 1)
	}
	return s.addsUp(ctx)
}

// atOnce runs n random actions at the same time, each on a replica of its own.
func (s *story) atOnce(ctx context.Context, number, n int) error {
	type result struct {
		r   *life
		err error
	}
	results, froze := make(chan result, n), make(chan *life, n)
	waiting := map[*life]bool{}
	for _, i := range s.rng.Perm(len(s.replicas))[:n] {
		r, act := s.replicas[i], s.action()
		doom, at := s.rng.IntN(100), 1+s.rng.IntN(8)
		switch {
		case doom < 20:
			r.fate.set(func(f *fate) { f.killAt, f.killAfter = f.calls+at, doom%2 == 0 })
		case doom < 32 && len(s.frozen) < 3:
			r.fate.set(func(f *fate) { f.freezeAt = f.calls + at })
			s.replicas[i] = s.newLife(fmt.Sprintf("replica-%d.%d", i, number)) // the others go on without it
			go func() {
				select {
				case <-r.fate.frozen:
					froze <- r
				case <-ctx.Done():
				}
			}()
		}
		waiting[r] = true
		s.running.Go(func() { results <- result{r, s.perform(ctx, number, r, act)} })
	}
	for len(waiting) > 0 {
		select {
		case done := <-results:
			delete(waiting, done.r)
			if done.err != nil {
				return done.err
			}
		case r := <-froze:
			s.say("%d: %s froze", number, r.name)
			s.frozen = append(s.frozen, r)
			s.freezes++
			delete(waiting, r) // its action ends when it is thawed
		}
	}
	s.replaceDead(number)
	return s.addsUp(ctx)
}

func (s *story) replaceDead(number int) {
	for i, r := range s.replicas {
		if r.fate.isDead() {
			s.say("%d: %s died", number, r.name)
			s.crashes++
			s.replicas[i] = s.newLife(fmt.Sprintf("replica-%d.%d", i, number))
		}
	}
}

// thaw lets the longest frozen replica go on where it stood.
func (s *story) thaw(number int) {
	if len(s.frozen) == 0 {
		return
	}
	s.say("%d: %s thaws", number, s.frozen[0].name)
	close(s.frozen[0].fate.thaw)
	s.frozen = s.frozen[1:]
}

// loseRedis takes the allotments' Redis state away, makes it another server's, brings an older one
// back, or makes it show stock that is not there.
func (s *story) loseRedis(ctx context.Context, number int) {
	s.losses++
	kind := []int{0, 0, 1, 1, 2, 3, 3, 4, 4, 5}[s.rng.IntN(10)]
	s.say("%d: Redis %s", number, []string{
		"loses its data", "loses its counters", "is another server", "goes back in time", "goes back in time", "shows too much",
	}[kind])
	keys, err := s.lab.raw.Keys(ctx, "hf:{"+s.allotments[0]+"}:*").Result()
	s.must(err)
	if kind == 3 || kind == 4 {
		s.goBack(ctx, keys)
	}
	for _, key := range keys {
		isCounters := strings.HasPrefix(key, "hf:{"+s.allotments[0]+"}:c")
		switch {
		case kind == 0, kind == 1 && isCounters:
			s.must(s.lab.raw.Del(ctx, key).Err())
		case kind == 2 && isCounters:
			s.must(storetest.MakeForeign(ctx, s.lab.raw, key))
		case kind == 5 && isCounters && s.lab.raw.HExists(ctx, key, "counters").Val():
			storetest.AddToCounter(ctx, s.lab.t, s.lab.raw, key, "capacity", 2)
			storetest.AddToCounter(ctx, s.lab.t, s.lab.raw, key, "available", 2)
			s.forged.Store(true)
		}
	}
	if kind == 0 || kind == 3 || kind == 4 {
		s.mu.Lock()
		s.lossAt = s.now()
		s.mu.Unlock()
	}
}

func (s *story) must(err error) {
	if err != nil {
		s.lab.t.Error(err)
	}
}

// keep remembers the Redis state as a lagging replica or an old file would have it.
func (s *story) keep(ctx context.Context) {
	keys, err := s.lab.raw.Keys(ctx, "hf:{"+s.allotments[0]+"}:*").Result()
	s.must(err)
	s.kept = map[string]string{}
	for _, key := range keys {
		if value, err := s.lab.raw.Dump(ctx, key).Result(); err == nil { // else a marker that has just expired
			s.kept[key] = value
		}
	}
}

// goBack replaces the state by the kept one, as found on another server.
func (s *story) goBack(ctx context.Context, keys []string) {
	if s.kept == nil || len(keys) == 0 {
		return
	}
	_, err := s.lab.raw.TxPipelined(ctx, func(p redis.Pipeliner) error { // at once, as another server appears
		p.Del(ctx, keys...)
		for key, value := range s.kept {
			p.RestoreReplace(ctx, key, 0, value)
			if strings.HasPrefix(key, "hf:{"+s.allotments[0]+"}:c") {
				if err := storetest.MakeForeign(ctx, p, key); err != nil {
					return err
				}
			}
		}
		return nil
	})
	s.must(err)
}

// perform runs one action, and forgives only what a dead or frozen replica would never have said, and the trouble of a machine
// that stands still for longer than a transaction may: it is counted.
func (s *story) perform(ctx context.Context, number int, r *life, act action) error {
	text, err := act(ctx, r)
	if r.fate.isDead() {
		s.say("%d: %s: %s: died on the way", number, r.name, text)
		return nil
	}
	s.say("%d: %s: %s: %v", number, r.name, text, err)
	var broken *brokenPromise
	if errors.As(err, &broken) {
		return err
	}
	var no *store.Refusal
	var field *store.InvalidField
	if err == nil || errors.As(err, &no) || errors.As(err, &field) || errors.Is(err, store.ErrResultUnknown) {
		return nil
	}
	if errors.Is(err, store.ErrUnavailable) {
		s.lab.troubles.Add(1)
		return nil
	}
	return fmt.Errorf("%s: %w", text, err)
}
