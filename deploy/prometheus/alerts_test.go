package prometheus

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	holdfast "github.com/holdfast-inventory/holdfast/server"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
)

// story makes the conditions of some alerts real, on a server of its own or several.
type story struct {
	alerts []string
	tell   func(t *testing.T)
}

// stories have every alert.
func stories() map[string]story {
	return map[string]story{
		"nobody is there": {[]string{"HoldfastAbsent"}, nobodyThere},
		"numbers are wrong": {[]string{
			"HoldfastConservationOff", "HoldfastFalseRefusal", "HoldfastRefusedForRoom", "HoldfastHoldsEnded",
		}, wrongNumbers},
		"the ledger refuses and forgets": {[]string{"HoldfastConstraintViolation", "HoldfastLedgerRewound"}, strangeLedger},
		"Postgres is away":               {[]string{"HoldfastStoreDown", "HoldfastConfirmBacklog", "HoldfastRebuilding"}, withoutPostgres},
		"Redis stands still":             {[]string{"HoldfastQueueFull", "HoldfastDecisionsSlow", "HoldfastUnsupervised"}, frozenRedis},
		"Redis is set up badly":          {[]string{"HoldfastNotificationSilence", "HoldfastRedisUnfit", "HoldfastRedisEvictions"}, badRedis},
		"Redis is full":                  {[]string{"HoldfastRedisMemory", "HoldfastRedisRefuses", "HoldfastCallsInTrouble"}, fullRedis},
		"one server of two":              {[]string{"HoldfastStoreCutOff", "HoldfastServerMissing"}, oneOfTwo},
		"clocks and pauses":              {[]string{"HoldfastLapseLag", "HoldfastClockJump"}, strangeTime},
		"a bug":                          {[]string{"HoldfastPanic"}, aBug},
		"a certificate is old":           {[]string{"HoldfastCertificateExpires"}, oldCertificate},
	}
}

// TestEveryAlertFires: each alert fires when its condition is made real on a running server, and not before.
func TestEveryAlertFires(t *testing.T) {
	missing := alertRules(t)
	for name, s := range stories() {
		for _, alert := range s.alerts {
			if _, known := missing[alert]; !known {
				t.Errorf("the file has no alert %s", alert)
			}
			delete(missing, alert)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.tell(t)
		})
	}
	for alert := range missing {
		t.Errorf("no story makes %s fire", alert)
	}
}

func nobodyThere(t *testing.T) {
	g := newStage(t, world.Settings{})
	g.fires("HoldfastAbsent", g.scraped(), samples{})
}

func wrongNumbers(t *testing.T) {
	g := newStage(t, world.Settings{})
	low, high, full := g.open(1, time.Minute), g.open(1, time.Minute), g.open(1, time.Minute)
	before := g.scraped()

	g.forge(low, -1)
	if _, err := g.hold(low); err == nil {
		t.Error("a hold was given though none is available")
	}
	off := g.above(0, "holdfast_conservation_allotments_off")
	g.fires("HoldfastConservationOff", before, off)
	g.fires("HoldfastFalseRefusal", before, off)

	g.forge(high, 1)
	first, second := g.held(high), g.held(high)
	g.eventually(func() error { return g.confirm(first, "order-1") })
	if err := g.confirm(second, "order-2"); err == nil {
		t.Error("two of one were sold")
	}
	g.fires("HoldfastRefusedForRoom", before, g.above(0, "holdfast_ledger_refusals_total", "holdfast_verdict", "refused_room"))

	g.forge(full, 1)
	g.held(full)
	g.held(full)
	g.adopt(full)
	g.fires("HoldfastHoldsEnded", before, g.above(0, "holdfast_adopt_ended_holds_total"))
}

func strangeLedger(t *testing.T) {
	g := newStage(t, world.Settings{})
	show := g.open(10, time.Minute)
	hold := g.held(show)
	g.eventually(func() error { return g.confirm(hold, "order-1") })
	before := g.scraped()

	g.statement(`alter table outcomes add constraint outcomes_order_allowed check (order_id <> 'forbidden')`)
	if err := g.confirm(g.held(show), "forbidden"); err == nil {
		t.Error("what the tables forbid was sold")
	}
	g.fires("HoldfastConstraintViolation", before, g.above(0, "holdfast_ledger_constraint_violations_total"))

	g.statement(`delete from outcomes where allotment_id = '` + show + `'; update allotments set sold = 0 where id = '` + show + `'`)
	g.adopt(show)
	g.fires("HoldfastLedgerRewound", before, g.above(0, "holdfast_adopt_rewinds_total"))
}

func withoutPostgres(t *testing.T) {
	g := newStage(t, world.Settings{})
	show := g.open(10, time.Minute)
	hold := g.held(show)
	before := g.scraped()
	if err := g.Postgres.Stop(g.ctx()); err != nil {
		t.Fatal(err)
	}
	g.fires("HoldfastStoreDown", before, g.until("Postgres is down", func(s samples) bool {
		return s.sum("holdfast_store_up", "holdfast_store", "postgres") == 0
	}))

	if err := g.confirm(hold, "order-1"); err == nil {
		t.Error("a sale was made without Postgres")
	}
	g.fires("HoldfastConfirmBacklog", before, g.above(0, "holdfast_confirm_overdue"))

	g.Redis.Kill()
	if err := g.Redis.Restart(g.ctx()); err != nil {
		t.Fatal(err)
	}
	g.fires("HoldfastRebuilding", before, g.above(0, "holdfast_adopt_pending"))
}

// frozenRedis has more callers than can be decided: Redis stands still, and sometimes the server does.
func frozenRedis(t *testing.T) {
	g := newStage(t, world.Settings{})
	show := g.open(10, time.Minute)
	g.held(show)
	before := g.above(0, "holdfast_decision_duration_seconds_count")
	if err := g.Redis.Pause(); err != nil {
		t.Fatal(err)
	}
	g.fires("HoldfastDecisionsSlow", before, g.slow(show)...)

	stop := g.crowd(show)
	const full = "holdfast_decisions_total"
	rising, last := []samples{}, before.sum(full, "holdfast_outcome", "QUEUE_FULL")
	for range 6 {
		s := g.above(last, full, "holdfast_outcome", "QUEUE_FULL")
		rising, last = append(rising, s), s.sum(full, "holdfast_outcome", "QUEUE_FULL")
	}
	g.fires("HoldfastQueueFull", before, rising...)
	stop()
	g.fires("HoldfastUnsupervised", before, g.above(10, "holdfast_supervisor_lag_seconds"))
}

// crowd asks for holds from more callers than are let in, until stop is called.
func (g *stage) crowd(allotment string) (stop func()) {
	const connections, callers = 4, 900
	ctx, cancel := context.WithCancel(g.ctx())
	var all sync.WaitGroup
	for range connections {
		checkout := pb.NewInventoryServiceClient(g.connect())
		for range callers {
			all.Go(func() {
				for ctx.Err() == nil {
					_, _ = checkout.CreateHold(ctx, &pb.CreateHoldRequest{AllotmentId: allotment, BuyerId: rand.Text(), RequestId: "r", Quantity: 1})
				}
			})
		}
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// slow has the server stand still while it waits for Redis, again and again: 6 scrapes, with more slow decisions in each.
func (g *stage) slow(allotment string) []samples {
	g.t.Helper()
	late := func(s samples) float64 {
		const name = "holdfast_decision_duration_seconds"
		return s.sum(name+"_bucket", "le", "+Inf") - s.sum(name+"_bucket", "le", "0.1")
	}
	var found []samples
	last := late(g.scraped())
	for range 6 {
		g.eventually(func() error {
			var calls sync.WaitGroup
			calls.Go(func() { _, _ = g.hold(allotment) })
			if err := errors.Join(g.Servers[0].Pause(), pause(g.ctx(), 150*time.Millisecond), g.Servers[0].Resume()); err != nil {
				return err
			}
			calls.Wait()
			if s := g.scraped(); late(s) > last {
				found, last = append(found, s), late(s)
				return nil
			}
			return errors.New("no decision was late")
		})
	}
	return found
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unannounced has a Redis that announces no expiry, with a user for the server who may not change that.
func unannounced() world.Settings {
	return world.Settings{
		User: "restricted:secret",
		Redis: local.RedisOptions{ExtraArgs: []string{
			"--user", "restricted", "on", ">secret", "~hf:*", "&__keyevent@*__:expired", "+@read", "+@write", "+@scripting", "+@connection",
			"+@pubsub", "-@dangerous", "-@admin", "+info", "+wait", "+time", "--notify-keyspace-events", "",
		}},
	}
}

// badRedis announces nothing, and drops what it has no room for.
func badRedis(t *testing.T) {
	g := newStage(t, unannounced())
	g.open(1, time.Minute)
	before := g.scraped()
	set := func(name, value string) {
		t.Helper()
		if err := g.Client.ConfigSet(g.ctx(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("maxmemory-policy", "allkeys-random")
	g.fires("HoldfastRedisUnfit", before, g.above(0, "holdfast_redis_unfit_settings"))
	set("maxmemory", "3mb")
	large := strings.Repeat("x", 1<<16)
	for i := range 100 {
		if err := g.Client.Set(g.ctx(), "other:"+string(rune('a'+i)), large, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	g.fires("HoldfastRedisEvictions", before, g.above(0, "holdfast_redis_evicted_keys_total"))
	g.fires("HoldfastNotificationSilence", before, g.above(10, "holdfast_redis_notifications_silence_seconds"))
}

// fullRedis has no room for a hold, and says so.
func fullRedis(t *testing.T) {
	g := newStage(t, world.Settings{})
	show := g.open(10, time.Minute)
	g.held(show)
	before := g.above(0, "holdfast_redis_memory_used_bytes")
	limit := func(bytes float64) {
		t.Helper()
		if err := g.Client.ConfigSet(g.ctx(), "maxmemory", strconv.FormatFloat(bytes, 'f', 0, 64)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	limit(before.sum("holdfast_redis_memory_used_bytes") * 1.1)
	g.fires("HoldfastRedisMemory", before, g.above(0, "holdfast_redis_memory_max_bytes"))

	limit(1 << 20)
	const refusals, decisions = "holdfast_redis_rejections_total", "holdfast_decisions_total"
	var rising []samples
	last := before
	for range 8 {
		if _, err := g.hold(show); err == nil {
			t.Error("a hold was given without room for it")
		}
		last = g.until("refused again", func(s samples) bool {
			return s.sum(refusals, "holdfast_rejection", "OOM") > last.sum(refusals, "holdfast_rejection", "OOM") &&
				s.sum(decisions, "holdfast_outcome", "STORE_UNAVAILABLE") > last.sum(decisions, "holdfast_outcome", "STORE_UNAVAILABLE")
		})
		rising = append(rising, last)
	}
	g.fires("HoldfastRedisRefuses", before, rising...)
	g.fires("HoldfastCallsInTrouble", before, rising...)
	g.shows(0, []string{"Redis refuses", "Refusals of Redis", "Memory of Redis"}, rising...)
	g.shows(0.8, []string{"Redis's memory used", "Calls in trouble"}, rising...)
}

// oneOfTwo has a server whose store is away, and then not the server itself.
func oneOfTwo(t *testing.T) {
	g, other := newStage(t, world.Settings{}), newStage(t, world.Settings{}).scraped()
	before := together(g.scraped(), other)
	if err := g.Postgres.Stop(g.ctx()); err != nil {
		t.Fatal(err)
	}
	cut := g.until("Postgres is down", func(s samples) bool { return s.sum("holdfast_store_up", "holdfast_store", "postgres") == 0 })
	g.fires("HoldfastStoreCutOff", before, together(cut, other))
	g.fires("HoldfastServerMissing", before, other)
}

// together is what two servers show.
func together(one, two samples) samples {
	all := maps.Clone(one)
	maps.Copy(all, two)
	return all
}

// strangeTime has holds that lapse by sweeping alone, so that on-time and late ones are of one series: a rate needs to know it before.
func strangeTime(t *testing.T) {
	settings := unannounced()
	settings.Clock = true
	g := newStage(t, settings)
	const lapses = "holdfast_lapse_lag_seconds"
	show := g.open(10, time.Second)
	g.held(show)
	before := g.above(0, lapses+"_count")
	late := func(s samples) float64 { return s.sum(lapses+"_count") - s.sum(lapses+"_bucket", "le", "2.5") }
	after := before
	g.eventually(func() error {
		g.held(show)
		g.standStill(4 * time.Second)
		if after = g.above(after.sum(lapses+"_count"), lapses+"_count"); late(after) == late(before) {
			return errors.New("the hold had lapsed before the server stood still")
		}
		return nil
	})
	g.fires("HoldfastLapseLag", before, after)

	g.held(g.open(1, time.Minute))
	before = g.above(0, "holdfast_units_held")       // a look, which is what reads the clock
	const jumps = "holdfast_redis_clock_jumps_total" // not 0, if the machine's own clock has jumped
	if err := g.MoveClock(5 * time.Minute); err != nil {
		t.Fatal(err)
	}
	g.fires("HoldfastClockJump", before, g.above(before.sum(jumps), jumps))
}

// standStill stops the server until so much time has passed for Redis.
func (g *stage) standStill(d time.Duration) {
	g.t.Helper()
	if err := g.Servers[0].Pause(); err != nil {
		g.t.Fatal(err)
	}
	begin := g.redisTime()
	g.eventually(func() error {
		if g.redisTime().Sub(begin) < d {
			return errors.New("not enough time has passed")
		}
		return nil
	})
	if err := g.Servers[0].Resume(); err != nil {
		g.t.Fatal(err)
	}
}

func (g *stage) redisTime() time.Time {
	g.t.Helper()
	now, err := g.Client.Time(g.ctx()).Result()
	if err != nil {
		g.t.Fatal(err)
	}
	return now
}

// buggy is a use case with a bug.
type buggy struct {
	holdfast.Checkouts
	holdfast.Operators
}

// CreateHold panics.
func (buggy) CreateHold(context.Context, string, string, store.Line) (store.Hold, error) {
	panic("a bug")
}

func aBug(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	telemetry, err := holdfast.NewTelemetry(t.Context(), "test", log)
	if err != nil {
		t.Fatal(err)
	}
	defer telemetry.Close(t.Context())
	server, err := holdfast.New(holdfast.Options{
		Checkouts: buggy{}, Operators: buggy{}, Logger: log, Meter: telemetry.Meters(), Tracer: telemetry.Tracers(),
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener, nil) }()
	metrics := httptest.NewServer(telemetry.Metrics())
	defer metrics.Close()
	show := func() samples {
		found, err := scrape(t.Context(), strings.TrimPrefix(metrics.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	before := show()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := pb.NewInventoryServiceClient(conn).CreateHold(t.Context(), &pb.CreateHoldRequest{
		AllotmentId: "show", BuyerId: "ann", RequestId: "r", Quantity: 1,
	}); err == nil {
		t.Error("a bug was answered with a hold")
	}
	(&stage{t: t}).fires("HoldfastPanic", before, show())
	server.Stop(t.Context())
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func oldCertificate(t *testing.T) {
	dir := t.TempDir()
	show := func(left time.Duration) samples {
		cert, key := certificate(t, dir, left)
		g := newStage(t, world.Settings{Flags: []string{"--tls-cert=" + cert, "--tls-key=" + key}})
		return g.scraped()
	}
	(&stage{t: t}).fires("HoldfastCertificateExpires", show(90*24*time.Hour), show(24*time.Hour))
}

// certificate writes one that is good for so long.
func certificate(t *testing.T, dir string, left time.Duration) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(left), DNSNames: []string{"localhost"},
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, left.String()+".crt"), filepath.Join(dir, left.String()+".key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: public}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
