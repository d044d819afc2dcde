package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"github.com/holdfast-inventory/holdfast/store"
)

// TestLostSalesInTheLog: however many sales a ledger from a backup lacks, the line counts all and names few.
func TestLostSalesInTheLog(t *testing.T) {
	for _, lost := range []int{1, lostLogged, 5000} {
		var holds []string
		for n := range lost {
			holds = append(holds, fmt.Sprintf("concert.%d", n))
		}
		var out bytes.Buffer
		v, err := New(Options{Redis: &longWalk{}, Logger: slog.New(slog.NewJSONHandler(&out, nil)), Meters: metricnoop.NewMeterProvider()})
		if err != nil {
			t.Fatal(err)
		}
		(&rebuild{v: v}).rewound(t.Context(), holds)
		var line struct {
			SalesMissing int `json:"sales_missing"`
			Holds        []string
		}
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
		if line.SalesMissing != lost || len(line.Holds) != min(lost, lostLogged) || line.Holds[0] != "concert.0" {
			t.Errorf("of %d the log counts %d and names %d", lost, line.SalesMissing, len(line.Holds))
		}
	}
}

// TestEarlierCursor: the order in which Redis walks a table of eight is that in which it walks one of any other size.
func TestEarlierCursor(t *testing.T) {
	order := []uint64{4, 2, 6, 1, 5, 3, 7, 0} // 0 is the end
	for n, first := range order {
		for _, second := range order[n:] {
			if got := earlier(first, second); got != first || earlier(second, first) != first {
				t.Errorf("of %d and %d, %d is the earlier", first, second, got)
			}
		}
	}
}

// inForce is a Redis whose state is in force, and notes what is renewed nevertheless.
type inForce struct {
	Redis
	renewed chan string
}

var errRenewed = errors.New("renewed")

func (r inForce) AdoptBegin(_ context.Context, p store.Place, _ string, _ time.Duration, renew bool) (*store.Past, time.Duration, error) {
	if !renew {
		return nil, 0, nil
	}
	r.renewed <- p.Allotment
	return nil, 0, errRenewed
}

func (inForce) OnDamage(func(store.Place)) {}

func (inForce) AdoptDrop(context.Context, store.Place, string, bool) error { return nil }

type anyRow struct{ Ledger }

func (anyRow) Allotment(_ context.Context, id string) (store.Allotment, error) {
	return store.Allotment{Place: store.Place{Allotment: id}}, nil
}

// TestRenewIsNotLost: who wants an allotment made anew gets that, though an adopt that only looks whether it is needed was
// begun before.
func TestRenewIsNotLost(t *testing.T) {
	redis := inForce{renewed: make(chan string, 1)}
	v, err := New(Options{Redis: redis, Ledger: anyRow{}, Logger: slog.New(slog.DiscardHandler), Meters: metricnoop.NewMeterProvider()})
	if err != nil {
		t.Fatal(err)
	}
	a := v.adopter
	a.turns.most = 0 // nobody has a turn
	place := store.Place{Allotment: "concert"}
	first := a.start(place, false)
	asked := make(chan error)
	go func() { asked <- a.renew(t.Context(), place) }()
	for !a.turns.isAsked(&first.turn) { // it has joined the first
		runtime.Gosched()
	}
	a.turns.mu.Lock()
	a.turns.most = 1
	a.turns.next()
	a.turns.mu.Unlock()
	if err := <-asked; !errors.Is(err, errRenewed) {
		t.Errorf("renew: %v, and nothing was renewed", err)
	}
}

// TestOnlyTheCrowdIsTurnedAway: where no more requests for holds may wait for an adopt, whoever has a hold still does.
func TestOnlyTheCrowdIsTurnedAway(t *testing.T) {
	v := &Inventory{redis: inForce{}, log: slog.New(slog.DiscardHandler), o: Options{Background: anyRow{}, AdoptLease: time.Second}}
	a := newAdopter(v)
	a.most, a.turns.most = 0, 0 // nobody has a turn
	place := store.Place{Allotment: "concert"}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.demandInCrowd(over, place); !errors.Is(err, errCrowded) {
		t.Errorf("one too many: %v, want %v", err, errCrowded)
	}
	if err := a.demand(over, place); !errors.Is(err, context.Canceled) {
		t.Errorf("who has a hold: %v, want it to have waited until its time was over", err)
	}
	a.turns.mu.Lock()
	a.turns.most = 1
	a.turns.next()
	a.turns.mu.Unlock()
	if err := a.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.waiting != 0 {
		t.Errorf("%d still count as waiting", a.waiting)
	}
}

// longWalk is a Redis with so much state of an allotment that reading it takes so many calls, each of 20 ms.
type longWalk struct {
	Redis
	calls   atomic.Int64 // that are left
	renewed atomic.Int64
}

func (r *longWalk) OnDamage(func(store.Place)) {}

func (r *longWalk) AdoptBegin(context.Context, store.Place, string, time.Duration, bool) (*store.Past, time.Duration, error) {
	return &store.Past{Epoch: 1, Now: time.Now()}, 0, nil
}

func (r *longWalk) AdoptRenew(context.Context, store.Place, string, time.Duration) error {
	r.renewed.Add(1)
	return nil
}

func (r *longWalk) AdoptDrop(context.Context, store.Place, string, bool) error { return nil }

func (r *longWalk) SetPlace(context.Context, store.Place) error { return nil }

func (r *longWalk) Scan(ctx context.Context, _ store.Place, _ string, buckets []int, _ []string) ([]store.Part, error) {
	if err := pause(ctx, 20*time.Millisecond); err != nil { // not a wait: the time itself is what is asked about
		return nil, err
	}
	parts := make([]store.Part, len(buckets))
	if r.calls.Add(-1) > 0 {
		parts[0].Next = "more"
	}
	return parts, nil
}

func (r *longWalk) AdoptReset(context.Context, store.Place, string) error { return nil }

func (r *longWalk) AdoptEnd(context.Context, store.Allotment, string, store.Counters, int64) error {
	return nil
}

// longAdopt is an inventory with one allotment, whose adopt walks so long.
func longAdopt(t *testing.T, calls int64) (*Inventory, *longWalk, store.Place) {
	t.Helper()
	p := store.Place{Allotment: "concert", Group: "concert", Buckets: 1}
	redis := &longWalk{}
	redis.calls.Store(calls)
	ledger := &manySales{row: store.Allotment{Place: p, Capacity: 10, Epoch: 1}}
	v, err := New(Options{Redis: redis, Ledger: ledger, Logger: slog.New(slog.DiscardHandler), Meters: metricnoop.NewMeterProvider()})
	if err != nil {
		t.Fatal(err)
	}
	return v, redis, p
}

// TestAdoptOfMuchState: it goes on for as long as it gets on, with its claim renewed. It was once given up after 30 s, and
// began anew: an allotment with more state than could be read by then was never decided again.
func TestAdoptOfMuchState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 6000 // 2 minutes
		v, redis, p := longAdopt(t, calls)
		if err := v.adopter.demand(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if least := int64(calls * 20 * time.Millisecond / DefaultAdoptLease); redis.renewed.Load() < least {
			t.Errorf("the claim was renewed %d times, want at least %d", redis.renewed.Load(), least)
		}
	})
}

// TestDrainEndsAdopts: a replica that stops does not wait for its adopts to be done, leaves none behind, and begins no more.
func TestDrainEndsAdopts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, redis, p := longAdopt(t, 1_000_000)
		run := v.adopter.start(p, false)
		synctest.Wait() // it walks
		begun := time.Now()
		if err := v.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("stopping took %s", took)
		}
		if !errors.Is(run.err, store.ErrRebuilding) {
			t.Errorf("who waited was told %v", run.err)
		}
		redis.calls.Store(1)
		if err := v.adopter.demand(t.Context(), p); !errors.Is(err, errStopped) || redis.calls.Load() != 1 {
			t.Errorf("an adopt was begun afterwards: %v", err)
		}
	})
}

// dropped is a Redis that lets adopts begin, and notes which claims were dropped.
type dropped struct {
	longWalk
	unused []bool
}

func (r *dropped) AdoptDrop(_ context.Context, _ store.Place, _ string, unused bool) error {
	r.unused = append(r.unused, unused)
	return nil
}

// failingLedger fails in an adopt, before the epoch is raised or after.
type failingLedger struct {
	manySales
	raised   []error // one for each try
	wentBack bool
}

func (l *failingLedger) RaiseEpoch(context.Context, string, int64, int64, int64) (row store.Allotment, wentBack bool, err error) {
	err, l.raised = l.raised[0], l.raised[1:]
	return l.row, l.wentBack, err
}

func (l *failingLedger) RecentOutcomes(context.Context, string, time.Time, string, int) ([]store.Outcome, error) {
	return nil, store.ErrUnavailable
}

// TestFailedAdoptDropsItsClaim: nobody waits for the lease of an adopt that failed. What was in force is so again only if
// nothing was changed. One that tries again keeps its claim.
func TestFailedAdoptDropsItsClaim(t *testing.T) {
	for _, c := range []struct {
		name   string
		raised []error
		want   []bool
	}{
		{"the epoch is not raised", []error{store.ErrUnavailable}, []bool{true}},
		{"the epoch is raised", []error{nil}, []bool{false}},
		{"the epoch was another's", []error{store.ErrStale, store.ErrStale, nil}, []bool{false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			redis := &dropped{}
			p := store.Place{Allotment: "concert", Group: "concert", Buckets: 1}
			ledger := &failingLedger{manySales: manySales{row: store.Allotment{Place: p}}, raised: c.raised}
			v, err := New(Options{Redis: redis, Ledger: ledger, Logger: slog.New(slog.DiscardHandler), Meters: metricnoop.NewMeterProvider()})
			if err != nil {
				t.Fatal(err)
			}
			v.supervisor.watched[p.Allotment] = &watch{place: p, nextLook: time.Now().Add(time.Minute)}
			if err := v.adopter.demand(t.Context(), p); err == nil {
				t.Error("it did not fail")
			}
			if !slices.Equal(redis.unused, c.want) {
				t.Errorf("dropped as unused: %v, want %v", redis.unused, c.want)
			}
			if v.supervisor.watched[p.Allotment].nextLook.After(time.Now()) { // the raise may have been committed all the same
				t.Error("not looked at soon")
			}
		})
	}
}

// unanswered is a Redis that gives no answer to who begins an adopt.
type unanswered struct{ dropped }

func (r *unanswered) AdoptBegin(context.Context, store.Place, string, time.Duration, bool) (*store.Past, time.Duration, error) {
	return nil, 0, store.ErrUnavailable
}

// TestUnansweredClaimIsDropped: it may have shut an allotment that was in force, and nobody could adopt that while Postgres is away.
func TestUnansweredClaimIsDropped(t *testing.T) {
	p := store.Place{Allotment: "concert", Group: "concert", Buckets: 1}
	redis, ledger := &unanswered{}, &failingLedger{manySales: manySales{row: store.Allotment{Place: p}}}
	v, err := New(Options{Redis: redis, Ledger: ledger, Logger: slog.New(slog.DiscardHandler), Meters: metricnoop.NewMeterProvider()})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.adopter.renew(t.Context(), p); err == nil {
		t.Error("it did not fail")
	}
	if !slices.Equal(redis.unused, []bool{true}) {
		t.Errorf("dropped as unused: %v, want once", redis.unused)
	}
}

// TestRewindIsToldAtOnce: that Postgres has gone back is told though it is not known whether the epoch was raised: if it was,
// nobody finds it any more.
func TestRewindIsToldAtOnce(t *testing.T) {
	p := store.Place{Allotment: "concert", Group: "concert", Buckets: 1}
	ledger := &failingLedger{manySales: manySales{row: store.Allotment{Place: p}}, raised: []error{store.ErrUnavailable}, wentBack: true}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError}))
	v, err := New(Options{Redis: &dropped{}, Ledger: ledger, Logger: log, Meters: metricnoop.NewMeterProvider()})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.adopter.demand(t.Context(), p); err == nil {
		t.Error("it did not fail")
	}
	if !bytes.Contains(out.Bytes(), []byte("gone back in time")) {
		t.Errorf("the log says %q", &out)
	}
}
