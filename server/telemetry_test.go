package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func TestPrometheus(t *testing.T) {
	telemetry, err := NewTelemetry(t.Context(), "v1.2.3", quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer telemetry.Close(t.Context())
	b := startServer(t, &fake{}, func(o *Options) { o.Meter, o.Tracer = telemetry.Meters(), telemetry.Tracers() })
	if err := b.call(t, "CreateHold", validRequests()["CreateHold"]); err != nil {
		t.Fatal(err)
	}
	checkHealth(t, b.conn, "")
	scrape := func() string {
		w := httptest.NewRecorder()
		telemetry.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		return w.Body.String()
	}
	b.eventually(t, func() bool { return strings.Contains(scrape(), "rpc_server_call_duration") }, "call measured")
	body := scrape()
	for _, want := range []string{
		`holdfast_decisions_total{holdfast_outcome="OK",rpc_method="holdfast.v1.InventoryService/CreateHold"} 1`,
		`holdfast_decision_duration_seconds_count{rpc_method="holdfast.v1.InventoryService/CreateHold"} 1`,
		`rpc_server_call_duration_seconds_count{rpc_method="holdfast.v1.InventoryService/CreateHold"`,
		`service_version="v1.2.3"`,
		"go_goroutines",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	if strings.Contains(body, "grpc.health") {
		t.Error("health checks are measured")
	}
	if _, ok := telemetry.Tracers().(noop.TracerProvider); !ok {
		t.Error("traces are made though no collector is set")
	}
}

func TestWhatIsExported(t *testing.T) {
	tests := []struct {
		env             map[string]string
		metrics, traces bool
	}{
		{nil, false, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, true, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318"}, false, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "none"}, false, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "prometheus"}, false, true},
		{map[string]string{"OTEL_TRACES_EXPORTER": "console"}, false, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, false, false},
	}
	for _, test := range tests {
		t.Run("", func(t *testing.T) {
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			if got := wanted("METRICS"); got != test.metrics {
				t.Errorf("%v: metrics %v", test.env, got)
			}
			if got := wanted("TRACES"); got != test.traces {
				t.Errorf("%v: traces %v", test.env, got)
			}
		})
	}
}

// TestCollectorAway: a collector that refuses, or takes connections and never answers, delays neither calls nor the end.
func TestCollectorAway(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	for name, endpoint := range map[string]string{"refuses": "http://127.0.0.1:1", "black hole": "http://" + hole.Addr().String()} {
		for _, protocol := range []string{"grpc", "http/protobuf"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
				t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
				t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
				start := time.Now()
				telemetry, err := NewTelemetry(t.Context(), "test", quiet())
				if err != nil {
					t.Fatal(err)
				}
				b := startServer(t, &fake{}, func(o *Options) { o.Meter, o.Tracer = telemetry.Meters(), telemetry.Tracers() })
				for range 100 {
					if err := b.call(t, "CreateHold", validRequests()["CreateHold"]); err != nil {
						t.Fatal(err)
					}
				}
				telemetry.Close(t.Context())
				if took := time.Since(start); took > 2*flushPatience {
					t.Errorf("took %v", took)
				}
			})
		}
	}
}

func TestWrongVariablesDoNotStopTheStart(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "nonsense")
	t.Setenv("OTEL_METRICS_EXPORTER", "nonsense")
	var log storetest.Log
	telemetry, err := NewTelemetry(t.Context(), "test", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	telemetry.Close(t.Context())
	if text := log.String(); strings.Count(text, "=nonsense") != 2 {
		t.Errorf("the log says nothing of it: %s", text)
	}
}

// TestSpans: calls are traced, health checks are not, and no buyer's id is in a span.
func TestSpans(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	b := startServer(t, &fake{}, func(o *Options) { o.Tracer = tracers })
	if err := b.call(t, "CreateHold", validRequests()["CreateHold"]); err != nil {
		t.Fatal(err)
	}
	checkHealth(t, b.conn, "")
	b.eventually(t, func() bool { return len(spans.GetSpans()) == 1 }, "one span made")
	span := spans.GetSpans()[0]
	if span.Name != "holdfast.v1.InventoryService/CreateHold" {
		t.Errorf("span %s", span.Name)
	}
	for _, a := range span.Attributes {
		if strings.Contains(a.Value.String(), anID) {
			t.Errorf("attribute %s shows the buyer's id", a.Key)
		}
	}
}

func TestErrorsAreLoggedOnceAMinute(t *testing.T) {
	var log storetest.Log
	e := newErrorLog(slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Now()
	for n := range 125 {
		e.handle(errors.New("away"), now.Add(time.Duration(n)*time.Second))
	}
	if lines := strings.Count(log.String(), "\n"); lines != 3 {
		t.Errorf("%d lines in 125 s, want 3:\n%s", lines, log.String())
	}
	if !strings.Contains(log.String(), "not_logged_since_the_last=59") {
		t.Errorf("it does not say how many were left out:\n%s", log.String())
	}
	e.Handle(context.Canceled)
}
