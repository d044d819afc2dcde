package server

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// labels encodes attributes for a look at them.
var labels = attribute.DefaultEncoder()

func (b *bench) collect(t testing.TB) []metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := b.metrics.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var metrics []metricdata.Metrics
	for _, s := range all.ScopeMetrics {
		metrics = append(metrics, s.Metrics...)
	}
	return metrics
}

// sum adds up a counter over the series with this outcome; empty: over all.
func (b *bench) sum(t testing.TB, name, outcome string) int64 {
	t.Helper()
	total := int64(0)
	for _, m := range b.collect(t) {
		data, ok := m.Data.(metricdata.Sum[int64])
		if m.Name != name || !ok {
			continue
		}
		for _, p := range data.DataPoints {
			if label, _ := p.Attributes.Value("holdfast.outcome"); outcome == "" || label.AsString() == outcome {
				total += p.Value
			}
		}
	}
	return total
}

// eventually waits for what happens after the answer.
func (b *bench) eventually(t testing.TB, condition func() bool, what string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("not %s within 10 s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
