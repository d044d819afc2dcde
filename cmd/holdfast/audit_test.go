package main

import (
	"log/slog"
	"strings"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-inventory/holdfast/store"
)

// A bad setting that comes later is an error in the log and a number in the metrics, each change said once.
func TestSettingsAudit(t *testing.T) {
	s, log, reader := &scripted{}, &lines{}, sdkmetric.NewManualReader()
	b, err := s.open(t.Context(), instruments{})
	if err != nil {
		t.Fatal(err)
	}
	audit, err := newSettingsAudit(b.settings, instruments{
		log: slog.New(slog.NewTextHandler(log, nil)), meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		bad   []string
		err   error
		said  string
		times int
		unfit int64
	}{
		{nil, nil, "weak=", 1, 0},
		{[]string{"policy"}, nil, "level=ERROR", 1, 1},
		{[]string{"policy"}, nil, "level=ERROR", 1, 1},
		{nil, store.ErrUnavailable, "level=ERROR", 1, 1},
		{[]string{"fsync"}, store.ErrUnavailable, "level=ERROR", 2, 2}, // at another than the one that cannot be asked
		{[]string{"policy", "fsync"}, nil, "level=ERROR", 2, 2},
		{nil, nil, "as they should be again", 1, 0},
		{nil, nil, "as they should be again", 1, 0},
		{nil, nil, "weak=", 1, 0},
	} {
		s.set(func(s *scripted) { s.bad, s.redis = step.bad, step.err })
		audit.again(t.Context())
		if got := strings.Count(log.String(), step.said); got != step.times {
			t.Errorf("%v: %q is said %d times, want %d", step.bad, step.said, got, step.times)
		}
		if got := unfit(t, reader); got != step.unfit {
			t.Errorf("%v: the gauge says %d, want %d", step.bad, got, step.unfit)
		}
	}
}

func unfit(t *testing.T, reader sdkmetric.Reader) int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if gauge, ok := m.Data.(metricdata.Gauge[int64]); ok && m.Name == "holdfast.redis.unfit_settings" {
				return gauge.DataPoints[0].Value
			}
		}
	}
	return -1
}
