package holds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/batch"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func testOptions(url string) Options {
	return Options{
		URL: url, Logger: slog.New(slog.DiscardHandler), Meters: metricnoop.NewMeterProvider(), Traces: tracenoop.NewTracerProvider(),
	}
}

// The effective values, whatever the URL asks for: above all, nothing is ever sent twice.
func TestClientOptions(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://127.0.0.1:1/3",
		"redis://127.0.0.1:1/3?max_retries=5&protocol=3&pool_size=1000&read_timeout=9s&dial_timeout=9s&pool_timeout=9s&pipeline_pool_size=7",
	} {
		s, err := Open(testOptions(url))
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		got := s.redis().Options()
		for name, ok := range map[string]bool{
			"MaxRetries: the client turns -1 into none": got.MaxRetries == 0,
			"ContextTimeoutEnabled":                     got.ContextTimeoutEnabled,
			"Protocol 2":                                got.Protocol == 2,
			"DisableIdentity":                           got.DisableIdentity,
			"DialTimeout":                               got.DialTimeout == 50*time.Millisecond,
			"DialerRetries":                             got.DialerRetries == 1,
			"ReadTimeout":                               got.ReadTimeout == 2*time.Second,
			"WriteTimeout":                              got.WriteTimeout == 2*time.Second,
			"PoolTimeout":                               got.PoolTimeout == 20*time.Millisecond,
			"PoolSize":                                  got.PoolSize == 16,
			"no pool of its own for pipelines":          got.PipelinePoolSize == -1,
			"buffers":                                   got.ReadBufferSize == 64<<10 && got.WriteBufferSize == 64<<10,
			"the database of the URL":                   got.DB == 3 && s.database == 3,
			"the default timeout":                       s.timeout == DefaultTimeout,
			"the default retention":                     s.retention == DefaultRetention,
			"no connection is made before it is needed": s.redis().PoolStats().TotalConns == 0,
			"no client-side cache and no automatic pipelines": got.AutoPipelineOptions == nil,
		} {
			if !ok {
				t.Errorf("%s: not so with %s", name, url)
			}
		}
	}
}

func TestOpenRefusesBadURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "127.0.0.1:6379", "http://127.0.0.1", "redis://user:secret@127.0.0.1:port/0", "redis://user:secret@127.0.0.1:1/x",
		"redis://user:secret@127.0.0.1:1/0?max_retrys=1", "redis://us er:secret@127.0.0.1:1/0", "redis://user:secret@[::1/0",
	} {
		_, err := Open(testOptions(url))
		if err == nil {
			t.Errorf("Open(%q): no error", url)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// A server that is not there is quickly said to be so, and never as a refusal.
func TestNoServer(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	addr := listener.Addr().String()
	must(t, listener.Close())
	f := &fixture{t: t, clock: new(atomic.Int64), place: store.Place{Allotment: "show", Group: "show", Buckets: 16}}
	f.open(onRedis("redis://"+addr+"/0"), withTimeout(0))
	if err := f.Ping(t.Context()); err == nil {
		t.Error("Ping: no error")
	}
	h := store.Hold{ID: store.NewHoldID("show", "buyer", "request"), Quantity: 1}
	for name, call := range f.everyCall(h) {
		if err := call(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
	}
	for name, err := range map[string]error{
		"SetPlace": f.SetPlace(t.Context(), f.place), "AdoptReset": f.AdoptReset(t.Context(), f.place, "claim"),
	} {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
	}
	if _, _, err := f.CheckSettings(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("CheckSettings: %v, want ErrUnavailable", err)
	}
	if _, _, err := f.Place(t.Context(), "show"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Place: %v, want ErrUnavailable", err)
	}
}

// evalsha is how many scripts the server has run, for whomever: a test that counts has a server of its own.
func (f *fixture) evalsha() int { return f.calls("evalsha") }

// calls is how often the server has run a command.
func (f *fixture) calls(command string) int {
	f.t.Helper()
	info, err := f.raw.Info(context.Background(), "commandstats").Result()
	must(f.t, err)
	_, rest, _ := strings.Cut(info, "cmdstat_"+command+":calls=")
	calls := 0
	_, _ = fmt.Sscanf(rest, "%d,", &calls)
	return calls
}

// A frozen server gets each call once, and runs it once when it thaws. Meanwhile callers are told that
// nothing is known, never "no".
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{})
	f := setup(t, 100, onRedis(server.URL()), withTimeout(100*time.Millisecond))
	sent := &declared{keys: map[string]bool{}}
	f.redis().AddHook(sent)
	h := f.hold("buyer", "request", 2)
	before, sentBefore := f.evalsha(), sent.count()
	must(t, server.Pause())
	unknown := func(what string, err error) {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", what, err)
		}
	}
	unknown("Create", errOf(f.Create(f.ctx(), f.request("one", "request", 1))))
	unknown("Extend", errOf(f.Extend(f.ctx(), f.placed(h))))
	unknown("Begin", errOf(f.Begin(f.ctx(), f.beginRequest("order", h))))
	storetest.Together(20, func(i int) {
		unknown("Create", errOf(f.Create(f.ctx(), f.request(fmt.Sprint("many-", i), "request", 1))))
	})
	server.Resume()
	calls := sent.count() - sentBefore
	storetest.Eventually(t, patience, func() error { // what lay in the sockets has been run
		if f.evalsha() == before {
			return errors.New("nothing was run")
		}
		return nil
	})
	must(t, errOf(f.Get(f.ctx(), f.placed(h)))) // behind all that the server had been sent
	if ran := f.evalsha() - before - 1; ran > calls || calls > 23 {
		t.Errorf("the server ran %d scripts, %d were sent for 23 calls", ran, calls)
	}
	if c := f.mustState().counters; c["sequence"] > 22 {
		t.Errorf("%d holds were made of 22 requests", c["sequence"])
	}
	// The same requests again: each has one hold.
	must(t, errOf(f.Begin(f.ctx(), f.beginRequest("order", h))))
	for i := range 20 {
		f.hold(fmt.Sprint("many-", i), "request", 1)
	}
	f.hold("one", "request", 1)
	f.want("available 77, held 21, confirming 2, sequence 22")
}

func (d *declared) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sent
}

// A full queue says so; a caller who has gone before its turn is not sent.
func TestQueueFull(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{})
	f := setup(t, 100, onRedis(server.URL()))
	f.lanes = batch.NewLanes[queue, flow](batch.Limits{Batch: 2, Lane: 6}, (*op).weight, f.run)
	f.hold("warm", "up", 1)
	sent := &declared{keys: map[string]bool{}}
	f.redis().AddHook(sent)
	must(t, server.Pause())
	results := make(chan error, 10)
	start := func(ctx context.Context, name string) {
		waiting, before := f.lanes.Waiting(queue{lane: laneCreate}), sent.count()
		go func() { results <- errOf(f.Create(ctx, f.request(name, "request", 1))) }()
		storetest.Eventually(t, patience, func() error {
			if f.lanes.Waiting(queue{lane: laneCreate}) == waiting && sent.count() == before {
				return errors.New("neither sent nor queued yet")
			}
			return nil
		})
	}
	start(f.ctx(), "first") // is sent, the next three wait
	start(f.ctx(), "second")
	gone, leave := context.WithCancel(f.ctx())
	start(gone, "gone")
	start(f.ctx(), "third")
	if err := errOf(f.Create(f.ctx(), f.request("too many", "request", 1))); !errors.Is(err, store.ErrQueueFull) {
		t.Errorf("with a full lane: %v, want ErrQueueFull", err)
	}
	leave()
	if err := <-results; !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("the caller who left: %v", err)
	}
	server.Resume()
	for range 3 {
		must(t, <-results)
	}
	for _, name := range []string{"gone", "too many"} {
		id := store.NewHoldID(f.place.Allotment, name, "request")
		refusal(t, errOf(f.Get(f.ctx(), store.PlacedHold{Place: f.place, ID: id})), store.HoldNotFound)
	}
	f.want("held 4")
}

// INFO errorstats: neither connecting nor any normal work raises an error in the server.
func TestNoErrorsInTheServer(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{})
	f := setup(t, 100, onRedis(server.URL())) // has loaded the scripts
	before := f.raw.Info(f.ctx(), "errorstats").Val()
	g := f.another()
	g.allEverything()
	if after := f.raw.Info(f.ctx(), "errorstats").Val(); after != before {
		t.Errorf("errorstats before:\n%s\nafter:\n%s", before, after)
	}
}

// allEverything uses every method once or more.
func (f *fixture) allEverything() {
	f.t.Helper()
	second := f.withSecond(10)
	f.begin("cart", f.cartOf("cart", "request", second, 1, 1)...)
	all := f.ended()
	h := f.hold("live", "request", 1)
	f.extend(h)
	f.work()
	f.claim(all["confirming"])
	must(f.t, f.apply(grow(1, 1)))
	must(f.t, f.Purge(f.ctx(), f.place, []store.HoldID{all["lapsed"].ID}))
	must(f.t, f.SetPlace(f.ctx(), f.place))
	_, _, err := f.Place(f.ctx(), f.place.Allotment)
	must(f.t, err)
	f.counters(f.place, second)
	f.walk("")
	f.adoptBegin(f.place, "claim")
	records, _ := f.survivors("claim")
	c := f.mustState().counters
	f.rebuild("claim", 2, 1, records, f.buyersOf(records, map[string]int64{"sold": 1}), store.Counters{
		Capacity: c["capacity"], Available: c["available"], Held: c["held"], Confirming: c["confirming"], Shrinking: c["shrinking"], Sold: 1,
	})
	must(f.t, f.Ping(f.ctx()))
}
