package holds

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Requests for holds are counted by allotment, granted or not, and counted once.
func TestAsked(t *testing.T) {
	t.Parallel()
	f := setup(t, 2)
	f.take(2)
	if _, err := f.Create(f.ctx(), f.request("late", "request", 1)); err == nil {
		t.Error("a third of two was given")
	}
	got := f.Asked()
	if diff := cmp.Diff(map[string]int64{f.place.Allotment: 3}, got); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if again := f.Asked(); len(again) != 0 {
		t.Errorf("asked again: %v", again)
	}
}

func TestSilence(t *testing.T) {
	var h hearing
	now := time.Now()
	if got := h.silence(now); got != 0 {
		t.Errorf("with nobody listened to, silence of %v", got)
	}
	one, other := &node{}, &node{}
	h.heard(one, now.Add(-3*time.Second))
	h.heard(other, now.Add(-time.Second))
	if got := h.silence(now); got != 3*time.Second {
		t.Errorf("silence of %v, want that of who has been silent for longest, 3s", got)
	}
	h.heard(one, now)
	h.forget(other)
	if got := h.silence(now); got != 0 {
		t.Errorf("silence of %v, want none", got)
	}
}

// A refusal whose own numbers say that enough was free raises the alarm; one that is right does not.
func TestFalseRefusal(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	f := setup(t, 2, fixtureOption(func(_ *fixture, o *Options) { o.Meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)) }))
	refused := func(buyer string, quantity, want int64) {
		t.Helper()
		if _, err := f.Create(f.ctx(), f.request(buyer, "request", quantity)); err == nil {
			t.Errorf("%s was given %d", buyer, quantity)
		}
		var all metricdata.ResourceMetrics
		must(t, reader.Collect(f.ctx(), &all))
		if got := counted(t, all, "holdfast.false_refusals"); got != want {
			t.Errorf("%d false refusals, want %d", got, want)
		}
	}
	refused("ann", 3, 0)
	f.hold("bob", "request", 1)
	refused("cid", 2, 0)
	f.setCounter("available", 0)
	refused("dot", 1, 1)
	refused("eve", 2, 1)
	f.broken()
}

// counted is the sum of a counter.
func counted(t *testing.T, all metricdata.ResourceMetrics, name string) (sum int64) {
	t.Helper()
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if data, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == name {
				for _, p := range data.DataPoints {
					sum += p.Value
				}
			}
		}
	}
	return sum
}
