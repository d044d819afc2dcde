package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const (
	serviceName    = "holdfast"
	sampledShare   = 0.01 // of calls whose caller has not decided; OTEL_TRACES_SAMPLER changes it
	flushPatience  = 2 * time.Second
	otelErrorEvery = time.Minute
)

// Telemetry is where metrics and traces go: metrics to a Prometheus endpoint, always; both to a collector if the
// standard OTEL_ variables name one. A collector that is away delays nothing.
type Telemetry struct {
	meters   *sdkmetric.MeterProvider
	tracers  *sdktrace.TracerProvider // nil: no traces
	registry *prometheus.Registry
}

// NewTelemetry reads the OTEL_ variables. What is wrong with them is logged, and that exporter left out.
func NewTelemetry(ctx context.Context, version string, log *slog.Logger) (*Telemetry, error) {
	// The SDK reports through this one variable; there is no other way to hear of its errors.
	otel.SetErrorHandler(newErrorLog(log))
	described, err := describe(ctx, version)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	pull, err := otelprometheus.New(
		otelprometheus.WithRegisterer(registry),
		otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
		otelprometheus.WithoutScopeInfo(),
	)
	if err != nil {
		return nil, fmt.Errorf("prometheus exporter: %w", err)
	}
	metricOptions := []sdkmetric.Option{sdkmetric.WithResource(described), sdkmetric.WithReader(pull)}
	if wanted("METRICS") {
		if push, err := autoexport.NewMetricReader(ctx); err != nil {
			log.Warn("metrics are not pushed", "error", err, "OTEL_METRICS_EXPORTER", os.Getenv("OTEL_METRICS_EXPORTER"))
		} else {
			metricOptions = append(metricOptions, sdkmetric.WithReader(push))
		}
	}
	t := &Telemetry{meters: sdkmetric.NewMeterProvider(metricOptions...), registry: registry}
	if wanted("TRACES") {
		if exporter, err := autoexport.NewSpanExporter(ctx); err != nil {
			log.Warn("traces are not exported", "error", err, "OTEL_TRACES_EXPORTER", os.Getenv("OTEL_TRACES_EXPORTER"))
		} else {
			t.tracers = sdktrace.NewTracerProvider(traceOptions(described, exporter)...)
		}
	}
	return t, nil
}

// wanted tells whether the standard variables ask for a signal to be exported. Prometheus has its endpoint anyway.
func wanted(signal string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	switch exporter := os.Getenv("OTEL_" + signal + "_EXPORTER"); exporter {
	case "none", "prometheus":
		return false
	case "":
		return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	default:
		return true
	}
}

func describe(ctx context.Context, version string) (*resource.Resource, error) {
	described, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName(serviceName), semconv.ServiceVersion(version)),
		resource.WithFromEnv(), // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come last and win
	)
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("describe the service: %w", err)
	}
	return described, nil
}

func traceOptions(described *resource.Resource, exporter sdktrace.SpanExporter) []sdktrace.TracerProviderOption {
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(described),
		sdktrace.WithBatcher(exporter), // drops spans when the collector is slow, never waits
	}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(sampledShare))))
	}
	return options
}

// Meters is for whoever makes instruments.
func (t *Telemetry) Meters() metric.MeterProvider { return t.meters }

// Tracers is for whoever makes spans.
func (t *Telemetry) Tracers() trace.TracerProvider {
	if t.tracers == nil {
		return noop.NewTracerProvider()
	}
	return t.tracers
}

// Metrics answers Prometheus.
func (t *Telemetry) Metrics() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{Registry: t.registry})
}

// Close sends what has not been sent, to all collectors at the same time, and gives up after 2 seconds.
func (t *Telemetry) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { _ = t.meters.Shutdown(ctx) }) // a collector that is away has been logged
	if t.tracers != nil {
		all.Go(func() { _ = t.tracers.Shutdown(ctx) })
	}
	all.Wait()
}

// errorLog logs what the SDK complains of, once a minute at most.
type errorLog struct {
	log *slog.Logger

	mu      sync.Mutex
	next    time.Time
	skipped int
}

func newErrorLog(log *slog.Logger) *errorLog { return &errorLog{log: log} }

// Handle is called from the SDK's goroutines.
func (e *errorLog) Handle(err error) { e.handle(err, time.Now()) }

func (e *errorLog) handle(err error, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Before(e.next) {
		e.skipped++
		return
	}
	e.log.Warn("telemetry", "error", err, "not_logged_since_the_last", e.skipped)
	e.next, e.skipped = now.Add(otelErrorEvery), 0
}
