package holds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

const (
	patience  = 20 * time.Second // for what must happen; the machine may be busy
	second    = time.Second
	holdTime  = store.DefaultHoldDuration
	lease     = 10 * time.Second
	retention = DefaultRetention
)

// fixture is a Store with one allotment of its own under epoch 1, and a clock that the test moves.
type fixture struct {
	*Store
	t      testing.TB
	url    string
	raw    *redis.Client // for looking, and for doing damage
	clock  *atomic.Int64 // what the scripts add to Redis's clock
	logs   *logs
	place  store.Place
	places []store.Place // every allotment made
}

type fixtureOption func(*fixture, *Options)

func onRedis(url string) fixtureOption { return func(f *fixture, _ *Options) { f.url = url } }

func withTimeout(d time.Duration) fixtureOption {
	return func(_ *fixture, o *Options) { o.Timeout = d }
}

func setup(t testing.TB, capacity int64, options ...any) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: new(atomic.Int64)}
	var rules []func(*store.Rules)
	var choices []fixtureOption
	for _, o := range options {
		switch o := o.(type) {
		case func(*store.Rules):
			rules = append(rules, o)
		case fixtureOption:
			choices = append(choices, o)
		default:
			t.Fatalf("setup does not know %T", o)
		}
	}
	f.open(choices...)
	f.warm()
	f.place = f.allot(storetest.UniqueID(t), "", capacity, rules...)
	return f
}

// open makes the Store; on the shared Redis unless an option says otherwise.
func (f *fixture) open(choices ...fixtureOption) {
	f.t.Helper()
	f.logs = &logs{}
	o := Options{
		Timeout: patience, Offset: func() time.Duration { return time.Duration(f.clock.Load()) },
		Meters: metricnoop.NewMeterProvider(), Traces: tracenoop.NewTracerProvider(),
	}
	for _, c := range choices {
		c(f, &o)
	}
	if f.url == "" {
		f.url = storetest.Redis(f.t).URL()
	}
	o.URL, o.Logger = f.url, slog.New(slog.NewTextHandler(f.logs, nil))
	s, err := Open(o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = s.Close() })
	f.Store = s
	if s.fleet.target.kind == standalone {
		f.raw = rawClient(f.t, f.url)
	}
}

// another is a second Store on the same Redis and clock: another replica.
func (f *fixture) another(choices ...fixtureOption) *fixture {
	f.t.Helper()
	g := &fixture{t: f.t, url: f.url, clock: f.clock, place: f.place}
	g.open(choices...)
	g.warm()
	return g
}

// warm makes the connections that the lanes will use: on a busy machine a dial may take longer than the client
// allows.
func (f *fixture) warm() {
	f.t.Helper()
	for range 4 {
		conn := f.redis().Conn() // its own until it is closed
		defer conn.Close()
		storetest.Eventually(f.t, patience, func() error { return conn.Ping(f.ctx()).Err() })
	}
}

func rawClient(t testing.TB, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.Protocol, o.DisableIdentity, o.MaxRetries, o.ReadTimeout = 2, true, -1, patience
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (f *fixture) ctx() context.Context { return f.t.Context() }

func (f *fixture) advance(d time.Duration) { f.clock.Add(int64(d)) }

// allot makes an allotment under epoch 1, in a group of its own unless one is named, and checks its
// numbers when the test ends.
func (f *fixture) allot(id, group string, capacity int64, rules ...func(*store.Rules)) store.Place {
	f.t.Helper()
	if group == "" {
		group = id
	}
	return f.allotAt(store.Place{Allotment: id, Group: group, Buckets: 4}, capacity, rules...)
}

func (f *fixture) allotAt(p store.Place, capacity int64, rules ...func(*store.Rules)) store.Place {
	f.t.Helper()
	f.adopt(newAllotment(p, capacity, rules...), 1)
	f.places = append(f.places, p)
	f.t.Cleanup(func() { f.checkNumbers(p) })
	return p
}

func newAllotment(p store.Place, capacity int64, rules ...func(*store.Rules)) store.Allotment {
	a := store.Allotment{Place: p, Capacity: capacity, Rules: defaultRules()}
	for _, change := range rules {
		change(&a.Rules)
	}
	return a
}

func defaultRules() store.Rules {
	return store.Rules{
		State: store.StateOpen, LateConfirm: store.LateAccept, HoldDuration: holdTime,
		MaxHoldDuration: store.DefaultMaxHoldDuration, MaxPerHold: 1000,
	}
}

// adopt opens an allotment in which nothing lives.
func (f *fixture) adopt(a store.Allotment, epoch int64) {
	f.t.Helper()
	claim := fmt.Sprintf("claim-%d", epoch)
	f.adoptBegin(a.Place, claim)
	must(f.t, f.AdoptReset(f.ctx(), a.Place, claim))
	must(f.t, f.AdoptEnd(f.ctx(), a, claim, store.Counters{
		Epoch: epoch, Capacity: a.Capacity, Available: a.Capacity, Version: 1,
	}, 0))
}

func (f *fixture) adoptBegin(p store.Place, claim string) *store.Past {
	f.t.Helper()
	past, left, err := f.AdoptBegin(f.ctx(), p, claim, lease, true)
	must(f.t, err)
	if past == nil {
		f.t.Fatalf("AdoptBegin: another claim is in force for %v", left)
	}
	return past
}

// checkNumbers checks conservation, that nothing is negative, and that the counters are what the
// holds make.
func (f *fixture) checkNumbers(p store.Place) {
	if f.t.Failed() || f.t.Skipped() {
		return
	}
	f.t.Helper()
	s, err := f.state(p)
	if errors.Is(err, errNoState) {
		return // the test took it away
	}
	if err != nil {
		f.t.Errorf("read the state of %s: %v", p.Allotment, err)
		return
	}
	for _, wrong := range s.wrong() {
		f.t.Errorf("allotment %s: %s", p.Allotment, wrong)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// logs collects what the Store logs.
type logs struct{ storetest.Log }

func (l *logs) count(part string) int { return strings.Count(l.String(), part) }

// redis is the client for the one server of a Store.
func (s *Store) redis() *redis.Client { return s.node0().client }

func (s *Store) node0() *node { return s.fleet.view.Load().masters[0] }
