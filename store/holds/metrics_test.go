package holds

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// count sums up what a histogram or gauge recorded, by the value of one attribute. No other attribute, and so
// no id, may be there.
func count(t *testing.T, m metricdata.Metrics, key string) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	label := func(set attribute.Set) string {
		value, ok := set.Value(attribute.Key(key))
		if !ok || set.Len() != 1 {
			t.Errorf("%s has attributes %v, want %s alone", m.Name, set.ToSlice(), key)
		}
		return value.AsString()
	}
	switch data := m.Data.(type) {
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			got[label(p.Attributes)] += float64(p.Sum)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			got[label(p.Attributes)] += float64(p.Count)
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			got[label(p.Attributes)] += float64(p.Value)
		}
	default:
		t.Errorf("%s is a %T", m.Name, m.Data)
	}
	return got
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	f := setup(t, 8, fixtureOption(func(_ *fixture, o *Options) { o.Meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)) }))
	holds := f.take(8)
	_, err := f.Cancel(f.ctx(), f.placed(holds[7])) // in time: no lapse
	must(t, err)
	f.advance(holdTime)
	f.release(holds[0])
	if _, err := f.Release(f.ctx(), f.place, ids(holds[1:3]), store.LapseByEvent); err != nil {
		t.Error(err)
	}
	for range 2 { // somebody cancels too late, and once more
		if h, err := f.Cancel(f.ctx(), f.placed(holds[3])); err != nil || h.State != store.Lapsed {
			t.Errorf("%+v, %v", h, err)
		}
	}
	f.hold("late", "request", 8) // needs the other three
	var all metricdata.ResourceMetrics
	must(t, reader.Collect(context.Background(), &all))
	byName := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			byName[m.Name] = m
		}
	}
	if diff := cmp.Diff(map[string]float64{"sweep": 1, "event": 2, "need": 4}, count(t, byName["holdfast.lapse.lag"], "holdfast.driver")); diff != "" {
		t.Errorf("lapses by driver (-want +got):\n%s", diff)
	}
	if got := count(t, byName["holdfast.queue.batch_size"], "holdfast.lane"); got["create"] != 10 || got["upkeep"] == 0 || got["caller"] == 0 {
		t.Errorf("batch sizes %v, want 10 creates, one of which was decided twice", got)
	}
	if diff := cmp.Diff(map[string]float64{"create": 0, "caller": 0, "finish": 0, "upkeep": 0}, count(t, byName["holdfast.queue.depth"], "holdfast.lane")); diff != "" {
		t.Errorf("queue depth (-want +got):\n%s", diff)
	}
}

// Commands carry buyers' ids: no span may show them.
func TestSpansShowNoIDs(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{})
	spans := tracetest.NewSpanRecorder()
	f := setup(t, 100, onRedis(server.URL()), fixtureOption(func(_ *fixture, o *Options) {
		o.Traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	}))
	f.hold("secret-buyer", "secret-request", 1)
	ended := spans.Ended()
	if len(ended) == 0 {
		t.Error("Redis calls make no spans")
	}
	for _, span := range ended {
		for _, a := range append(span.Attributes(), attribute.String("name", span.Name())) {
			if text := a.Value.String(); text != "" && (strings.Contains(text, "secret") || strings.Contains(text, f.place.Allotment)) {
				t.Errorf("span %s shows %s = %q", span.Name(), a.Key, text)
			}
		}
	}
}
