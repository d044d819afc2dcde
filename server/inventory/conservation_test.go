package inventory

import (
	"context"
	"log/slog"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"github.com/holdfast-inventory/holdfast/store"
)

// counted is a Redis with counters.
type counted struct {
	longWalk
	counters store.Counters
}

func (r *counted) Counters(context.Context, []store.Place) ([]store.Counters, error) {
	return []store.Counters{r.counters}, nil
}

// TestOlderEpoch: that Redis has an older epoch than the ledger is found whether or not its counters add up, and though the row that
// is known is as old as they are.
func TestOlderEpoch(t *testing.T) {
	p := store.Place{Allotment: "concert", Group: "concert", Buckets: 1}
	for _, c := range []struct {
		name             string
		available, known int64 // of 3 units; epoch of the row that is known
		after            bool  // that row was read after something was left open
		off              int64
		apart            bool
	}{
		{"all is well", 3, 2, true, 0, false},
		{"an older epoch", 3, 3, true, 1, true},
		{"an older epoch, and counters that do not add up", 1, 3, true, 2, true},
		{"an older epoch, known from before", 3, 2, false, 1, true},
	} {
		row := store.Allotment{Place: p, Epoch: c.known, Capacity: 3}
		redis := &counted{counters: store.Counters{Place: p, Epoch: 2, Capacity: 3, Available: c.available}}
		ledger := &manySales{row: store.Allotment{Place: p, Epoch: 3, Capacity: 3}}
		v, err := New(Options{Redis: redis, Ledger: ledger, Logger: slog.New(slog.DiscardHandler), Meters: metricnoop.NewMeterProvider()})
		if err != nil {
			t.Fatal(err)
		}
		v.supervisor.knownAt = time.Now()
		if !c.after {
			v.supervisor.expect([]store.PlacedHold{{Place: p}})
		}
		off, known, apart := v.conservation(t.Context(), redis.counters, &row, v.supervisor.isNew(p))
		if max(off, -off) != c.off || !known || apart != c.apart {
			t.Errorf("%s: off by %d, known: %t, apart: %t; want %d, true, %t", c.name, off, known, apart, c.off, c.apart)
		}
	}
}
