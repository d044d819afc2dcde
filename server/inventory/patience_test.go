package inventory

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"github.com/holdfast-inventory/holdfast/store"
)

// neighbours is a Redis with some allotments whose adopts take minutes, and one with a confirm that was left open.
type neighbours struct {
	longWalk

	mu     sync.Mutex
	claims []time.Time // when somebody went to end the confirm
	fed    []time.Time // when somebody saw to its feed
}

func (r *neighbours) Asked() map[string]int64 { return nil }

func (r *neighbours) note(times *[]time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*times = append(*times, time.Now())
}

func (r *neighbours) Due(_ context.Context, places []store.Place, _ int) ([]store.Work, error) {
	if places[0].Allotment != "open" {
		return nil, &store.AdoptNeeded{Places: places}
	}
	return []store.Work{{
		Counters: store.Counters{Place: places[0], Now: time.Now()},
		Confirms: []store.HoldID{store.NewHoldID("open", "buyer", "request")}, Pending: 1,
	}}, nil
}

func (r *neighbours) Claim(context.Context, store.Place, []store.HoldID, time.Duration) ([]store.Begun, error) {
	r.note(&r.claims)
	return nil, nil
}

func (r *neighbours) Counters(_ context.Context, places []store.Place) ([]store.Counters, error) {
	if places[0].Allotment != "open" {
		return nil, &store.AdoptNeeded{Places: places}
	}
	r.note(&r.fed)
	return []store.Counters{{Place: places[0]}}, nil
}

// neighboursLedger has their rows, and a change for each that is not applied.
type neighboursLedger struct {
	manySales
	ids []string
}

func (l *neighboursLedger) Down() bool { return false }

func (l *neighboursLedger) Allotment(_ context.Context, id string) (store.Allotment, error) {
	return store.Allotment{Place: store.Place{Allotment: id, Group: id, Buckets: 1}}, nil
}

func (l *neighboursLedger) InRedis(ctx context.Context, _ time.Time, _ string, _ int) ([]store.Allotment, error) {
	var rows []store.Allotment
	for _, id := range l.ids {
		row, _ := l.Allotment(ctx, id)
		rows = append(rows, row)
	}
	return rows, nil
}

func (l *neighboursLedger) RaiseEpoch(ctx context.Context, id string, _, _, _ int64) (row store.Allotment, wentBack bool, err error) {
	row, err = l.Allotment(ctx, id)
	return row, false, err
}

func (l *neighboursLedger) Pending(_ context.Context, after string, _ int) ([]string, error) {
	if after != "" {
		return nil, nil
	}
	return l.ids, nil
}

func (l *neighboursLedger) Applied(context.Context, string, int64, int64) error { return nil }

// TestLongAdoptsDelayNobodyElse: while adopts take minutes, what others left open elsewhere is ended in its two seconds, and
// changes get to Redis in theirs.
func TestLongAdoptsDelayNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &neighbours{}
		redis.calls.Store(1_000_000)
		ledger := &neighboursLedger{ids: []string{"long-1", "long-2", "long-3", "open"}}
		v, err := New(Options{
			Redis: redis, Ledger: ledger, Logger: slog.New(slog.DiscardHandler), Meters: metricnoop.NewMeterProvider(),
			WithoutEvents: true, WithoutSweep: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		v.Run(ctx)
		for what, times := range map[string][]time.Time{"a confirm that was left open": redis.claims, "a change": redis.fed} {
			times = slices.Concat([]time.Time{begun}, times, []time.Time{begun.Add(time.Minute)})
			for i := range times[1:] {
				if gap := times[i+1].Sub(times[i]); gap > 2*time.Second {
					t.Errorf("nobody saw to %s for %s", what, gap)
				}
			}
		}
		if err := v.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// lockedRow is a ledger in which the row of an allotment is locked by somebody else all the time.
type lockedRow struct {
	neighboursLedger
	tries atomic.Int64
}

func (l *lockedRow) RaiseEpoch(context.Context, string, int64, int64, int64) (row store.Allotment, wentBack bool, err error) {
	l.tries.Add(1)
	return row, false, store.ErrUnavailable
}

// TestFailedAdoptIsTriedAgain: what a supervisor could not adopt it tries again and again, though nobody asks for it.
func TestFailedAdoptIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &lockedRow{neighboursLedger: neighboursLedger{ids: []string{"locked"}}}
		v, err := New(Options{
			Redis: &neighbours{}, Ledger: ledger, Logger: slog.New(slog.DiscardHandler), Meters: metricnoop.NewMeterProvider(),
			WithoutEvents: true, WithoutSweep: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		v.Run(ctx)
		if n := ledger.tries.Load(); n < 30 {
			t.Errorf("tried %d times in a minute", n)
		}
		if err := v.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
