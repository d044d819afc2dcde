package inventory_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/holds"
	"github.com/holdfast-inventory/holdfast/store/ledger"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

const (
	sweepLive    = 100_000 // live holds in the background
	sweepLapsing = 4_000   // holds that lapse while it is measured, over two seconds
)

// BenchmarkSweepLag shows how late the sweeper alone, without events and without need, releases
// holds while 100,000 others are live. The shares of holds released within 50 and 250 ms of their
// deadline are what to look at; the lag of each is in the product's own metric.
func BenchmarkSweepLag(b *testing.B) {
	for range b.N {
		b.StopTimer()
		lag := newLagWorld(b)
		quiet := lag.open(b, "background", 2*sweepLive, time.Hour)
		due := lag.open(b, "lapsing", 2*sweepLapsing, 3*time.Second)
		lag.take(b, quiet, sweepLive, 0)
		b.StartTimer()
		lag.take(b, due, sweepLapsing, 500*time.Microsecond)
		lag.report(b)
	}
}

type lagWorld struct {
	v      *inventory.Inventory
	reader *sdkmetric.ManualReader
}

func newLagWorld(b *testing.B) *lagWorld {
	b.Helper()
	w := &lagWorld{reader: sdkmetric.NewManualReader()}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.reader))
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	h, err := holds.Open(holds.Options{
		URL: storetest.Redis(b).URL(), Timeout: time.Second, Logger: log, Meters: meters, Traces: tracenoop.NewTracerProvider(),
	})
	if err != nil {
		b.Fatal(err)
	}
	l, err := ledger.Open(context.Background(), ledger.Options{URL: storetest.MigratedDatabase(b, ledger.Migrate), Logger: log})
	if err != nil {
		b.Fatal(err)
	}
	w.v, err = inventory.New(inventory.Options{
		Redis: h, Ledger: l, Background: l.Background(), WithoutEvents: true, DecisionTime: patience, Logger: log, Meters: meters,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.v.Run(ctx)
	}()
	b.Cleanup(func() {
		cancel()
		<-ended
		_ = h.Close()
		l.Close()
	})
	return w
}

func (w *lagWorld) open(b *testing.B, name string, capacity int64, hold time.Duration) string {
	b.Helper()
	id := storetest.UniqueID(b) + "-" + name[:2]
	_, err := w.v.CreateAllotment(context.Background(), store.Allotment{
		Place: store.Place{Allotment: id, Group: id}, Capacity: capacity,
		Rules: store.Rules{
			State: store.StateOpen, LateConfirm: store.LateAccept, HoldDuration: hold, MaxHoldDuration: hold, MaxPerHold: 10,
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	return id
}

// take makes n holds, by 64 callers or, with a pause, one after another.
func (w *lagWorld) take(b *testing.B, id string, n int, every time.Duration) {
	b.Helper()
	one := func(i int) {
		_, err := w.v.CreateHold(context.Background(), fmt.Sprintf("buyer-%d", i), "r", store.Line{Allotment: id, Quantity: 1})
		if err != nil {
			b.Error(err)
		}
	}
	if every == 0 {
		together(64, func(k int) {
			for i := k; i < n; i += 64 {
				one(i)
			}
		})
		return
	}
	for i := range n {
		one(i)
		time.Sleep(every)
	}
}

// report waits until all have lapsed and reports the shares by the buckets of the metric.
func (w *lagWorld) report(b *testing.B) {
	b.Helper()
	var h metricdata.HistogramDataPoint[float64]
	for deadline := time.Now().Add(time.Minute); h.Count < sweepLapsing; {
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d released", h.Count, sweepLapsing)
		}
		time.Sleep(50 * time.Millisecond)
		h = w.lags(b)
	}
	within := func(seconds float64) float64 {
		var sum uint64
		for i, bound := range h.Bounds {
			if bound <= seconds {
				sum += h.BucketCounts[i]
			}
		}
		return 100 * float64(sum) / float64(h.Count)
	}
	b.ReportMetric(within(.05), "%<=50ms")
	b.ReportMetric(within(.25), "%<=250ms")
	b.ReportMetric(1000*h.Sum/float64(h.Count), "mean-lag-ms")
}

func (w *lagWorld) lags(b *testing.B) metricdata.HistogramDataPoint[float64] {
	b.Helper()
	var all metricdata.ResourceMetrics
	if err := w.reader.Collect(context.Background(), &all); err != nil {
		b.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if data, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == "holdfast.lapse.lag" && len(data.DataPoints) > 0 {
				return data.DataPoints[0]
			}
		}
	}
	return metricdata.HistogramDataPoint[float64]{}
}
