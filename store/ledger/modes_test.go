package ledger

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestExecModes: behind a pooler, the URL says how queries are sent. Everything works in each way.
func TestExecModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			u, err := url.Parse(storetest.MigratedDatabase(t, Migrate))
			if err != nil {
				t.Fatal(err)
			}
			q := u.Query()
			q.Set("default_query_exec_mode", mode)
			u.RawQuery = q.Encode()
			f := setupAt(t, u.String())
			f.create(show, 20)
			for range 2 { // the second time everything has been prepared, or is a repeat
				for name, call := range calls(f.Ledger) {
					if err := call(t.Context()); err != nil && !answered(err) {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
			f.everything(t)
		})
	}
}

// everything calls what calls does not get an answer from in any order.
func (f *fixture) everything(t *testing.T) {
	t.Helper()
	f.create("mode", 20)
	f.create("mode-2", 20)
	id := line("mode", 1, 2)
	verdicts, err := f.Settle(t.Context(), "mode", order("it's $1", id, line("mode-2", 1, 1)))
	if err != nil || verdicts[0].Kind != sold || verdicts[1].Kind != sold {
		t.Errorf("Settle: %+v, %v", verdicts, err)
	}
	if v, err := f.Settle(t.Context(), "mode", order("o2", line("mode", 2, 50))); err != nil || v[0].Kind != refusedRoom {
		t.Errorf("no room: %+v, %v", v, err)
	}
	if v, err := f.Settle(t.Context(), "mode", order("", shrink("mode", "cut", 1))); err != nil || v[0].Kind != sold {
		t.Errorf("shrink: %+v, %v", v, err)
	}
	if s, n, err := f.CancelSale(t.Context(), store.CancelSale{ID: id.ID, RequestID: "r", Quantity: 1}); err != nil || s.Cancelled != 1 || n != 1 {
		t.Errorf("CancelSale: %+v, %d, %v", s, n, err)
	}
	a := f.allotment("mode")
	if _, err := f.UpdateRules(t.Context(), "mode", a.Version, fullRules()); err != nil {
		t.Errorf("UpdateRules: %v", err)
	}
	changes := f.changes("mode")
	if len(changes) != 2 || changes[1].Rules != asStored(fullRules()) || a.Capacity != 19 || a.Sold != 1 {
		t.Errorf("feed %+v of %+v", changes, a)
	}
	if sales, err := f.ListSales(t.Context(), store.SaleFilter{OrderID: "it's $1"}, "", 10); err != nil || len(sales) != 2 {
		t.Errorf("ListSales: %+v, %v", sales, err)
	}
}

// TestTelemetry: spans and metrics are there, and no id is in them.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	reader := metric.NewManualReader()
	tracers := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	f := setup(t, 10, func(o *Options) {
		o.TracerProvider, o.MeterProvider = tracers, metric.NewMeterProvider(metric.WithReader(reader))
	})
	ctx, root := tracers.Tracer("test").Start(t.Context(), "call")
	if _, err := f.Settle(ctx, show, order("secret-order", with(line(show, 1, 1), func(l *store.ConfirmLine) { l.BuyerID = "secret-buyer" }))); err != nil {
		t.Fatal(err)
	}
	root.End()
	seen := map[string]bool{}
	for _, s := range spans.Ended() {
		seen[s.Name()] = true
		for _, a := range s.Attributes() {
			if strings.Contains(a.Value.String(), "secret") {
				t.Errorf("span %s: %s = %s", s.Name(), a.Key, a.Value.String())
			}
		}
		if s.Name() == "ledger.settle" && s.Parent().SpanID() != root.SpanContext().SpanID() {
			t.Error("ledger.settle is not a child of its call")
		}
	}
	if !seen["ledger.settle"] || len(seen) < 4 {
		t.Errorf("spans %v", seen)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			names[m.Name] = true
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "holdfast.ledger.verdicts" {
				sold := attribute.NewSet(attribute.String("holdfast.verdict", "sold"))
				for _, p := range sum.DataPoints {
					if want := map[bool]int64{true: 1}[p.Attributes.Equals(&sold)]; p.Value != want || p.Attributes.Len() != 1 {
						t.Errorf("verdicts: %+v", p)
					}
				}
			}
		}
	}
	for _, name := range []string{"holdfast.ledger.verdicts", "holdfast.ledger.batch_size", "holdfast.ledger.settle.duration", "pgxpool.acquires"} {
		if !names[name] {
			t.Errorf("no metric %s in %v", name, names)
		}
	}
}
