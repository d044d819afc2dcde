package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collecttraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// instrument is a metric as docs/metrics.md has it, or as a server exports it.
type instrument struct {
	name, kind, unit string
	prometheus       string // of the page
	seldom           bool   // of the page: it is there under some condition only
	attributes       map[string]bool
}

// metricsPage is docs/metrics.md.
type metricsPage struct {
	instruments map[string]instrument
	values      map[string][]string // of attributes; nil: the set is open
	spans       []string            // names; a part in capitals stands for any
}

func readMetricsPage(t *testing.T) metricsPage {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	page := metricsPage{instruments: map[string]instrument{}, values: map[string][]string{}}
	for line := range strings.SplitSeq(string(text), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		name := quoted(cells[0])[0]
		switch {
		case len(cells) == 6:
			i := instrument{name: name, kind: cells[1], prometheus: quoted(cells[4])[0], attributes: map[string]bool{}}
			i.unit = cmp.Or(append(quoted(cells[2]), "")...)
			i.seldom = strings.Contains(cells[5], "there only")
			for _, a := range quoted(cells[3]) {
				i.attributes[a] = true
			}
			page.instruments[name] = i
		case strings.HasPrefix(cells[1], "span"):
			page.spans = append(page.spans, name)
		case strings.HasPrefix(cells[1], "any"):
			page.values[name] = nil
		default:
			page.values[name] = quoted(cells[1])
		}
	}
	return page
}

// quoted is what stands in backquotes.
func quoted(cell string) []string {
	var all []string
	for i, part := range strings.Split(cell, "`") {
		if i%2 == 1 {
			all = append(all, part)
		}
	}
	return all
}

// collector is where a server sends its metrics and traces.
type collector struct {
	*httptest.Server

	mu          sync.Mutex
	instruments map[string]instrument
	values      map[string]map[string]bool
	spans       map[string]bool
	failure     error
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{instruments: map[string]instrument{}, values: map[string]map[string]bool{}, spans: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/metrics", func(_ http.ResponseWriter, r *http.Request) {
		var request collectmetrics.ExportMetricsServiceRequest
		c.receive(r, &request, func() { c.takeMetrics(&request) })
	})
	mux.HandleFunc("POST /v1/traces", func(_ http.ResponseWriter, r *http.Request) {
		var request collecttraces.ExportTraceServiceRequest
		c.receive(r, &request, func() { c.takeSpans(&request) })
	})
	c.Server = httptest.NewServer(mux)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) receive(r *http.Request, into proto.Message, take func()) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, into)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failure = err
		return
	}
	take()
}

func (c *collector) takeMetrics(request *collectmetrics.ExportMetricsServiceRequest) {
	for _, resource := range request.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				c.takeMetric(m)
			}
		}
	}
}

func (c *collector) takeMetric(m *metricspb.Metric) {
	i, known := c.instruments[m.GetName()]
	if !known {
		i = instrument{name: m.GetName(), unit: m.GetUnit(), attributes: map[string]bool{}}
	}
	var points [][]*commonpb.KeyValue
	switch data := m.GetData().(type) {
	case *metricspb.Metric_Gauge:
		i.kind = "gauge"
		for _, p := range data.Gauge.GetDataPoints() {
			points = append(points, p.GetAttributes())
		}
	case *metricspb.Metric_Sum:
		i.kind = map[bool]string{true: "counter", false: "up-down counter"}[data.Sum.GetIsMonotonic()]
		for _, p := range data.Sum.GetDataPoints() {
			points = append(points, p.GetAttributes())
		}
	case *metricspb.Metric_Histogram:
		i.kind = "histogram"
		for _, p := range data.Histogram.GetDataPoints() {
			points = append(points, p.GetAttributes())
		}
	}
	for _, attributes := range points {
		for _, a := range attributes {
			i.attributes[a.GetKey()] = true
			if c.values[a.GetKey()] == nil {
				c.values[a.GetKey()] = map[string]bool{}
			}
			c.values[a.GetKey()][a.GetValue().GetStringValue()] = true
		}
	}
	c.instruments[m.GetName()] = i
}

func (c *collector) takeSpans(request *collecttraces.ExportTraceServiceRequest) {
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans[s.GetName()] = true
			}
		}
	}
}

// missing is what the page has and has not come yet.
func (c *collector) missing(page metricsPage) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var missing []string
	for name, i := range page.instruments {
		if _, came := c.instruments[name]; !came && !i.seldom {
			missing = append(missing, name)
		}
	}
	for _, pattern := range page.spans {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(c.spans)), func(name string) bool { return spanMatches(pattern, name) }) {
			missing = append(missing, "span "+pattern)
		}
	}
	return missing
}

// spanMatches compares word by word; one in capitals stands for any and, behind others at the end, for all that follow.
func spanMatches(pattern, name string) bool {
	wanted := strings.FieldsFunc(pattern, isBreak)
	words := strings.FieldsFunc(name, isBreak)
	for i, word := range wanted {
		anything := word == strings.ToUpper(word)
		switch {
		case i >= len(words) || !anything && word != words[i]:
			return false
		case anything && i > 0 && i == len(wanted)-1:
			return true
		}
	}
	return len(words) == len(wanted)
}

func isBreak(r rune) bool { return r == ' ' || r == '/' }

// TestMetricsPage: a server that is used exports what docs/metrics.md lists, and nothing else: names, types, units, attributes
// and their values, as OpenTelemetry and as Prometheus know them; and spans.
func TestMetricsPage(t *testing.T) {
	page, c := readMetricsPage(t), startCollector(t)
	stores := startCluster(t, 0)
	g := newGuarded(t, t.TempDir())
	p := startWith(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_METRIC_EXPORT_INTERVAL=100", "OTEL_BSP_SCHEDULE_DELAY=10", "OTEL_TRACES_SAMPLER=always_on",
	}, "serve", "--grpc-addr=127.0.0.1:0", "--http-addr=127.0.0.1:0", "--log-format=text", "--drain-delay=0s",
		"--redis-url="+stores.redisURL, "--postgres-url="+stores.postgresURL,
		"--tls-cert="+g.path("server.crt"), "--tls-key="+g.path("server.key"))
	until(t, time.Minute, "readiness", func() bool { return strings.Contains(p.err.String(), "msg=ready") })
	use(t, g.connect(t, p.err.all("grpc=")[0], false))

	var missing []string
	until(t, time.Minute, "whole page; docs/metrics.md has what is not exported", func() bool {
		missing = c.missing(page)
		return len(missing) == 0 || t.Context().Err() != nil
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		t.Error(c.failure)
	}
	for name, got := range c.instruments {
		want, listed := page.instruments[name]
		if !listed {
			t.Errorf("docs/metrics.md does not list %s (%s, %q, %v)", name, got.kind, got.unit, got.attributes)
			continue
		}
		if got.kind != want.kind || got.unit != want.unit || !maps.Equal(got.attributes, want.attributes) {
			t.Errorf("%s is a %s in %q by %v; the page has a %s in %q by %v",
				name, got.kind, got.unit, got.attributes, want.kind, want.unit, want.attributes)
		}
	}
	checkValues(t, page, c)
	checkPrometheus(t, page, p.err.all("http=")[0])
}

func checkValues(t *testing.T, page metricsPage, c *collector) {
	t.Helper()
	for attribute, values := range c.values {
		listed, known := page.values[attribute]
		if !known {
			t.Errorf("docs/metrics.md does not list the attribute %s", attribute)
		}
		for value := range values {
			if known && listed != nil && !slices.Contains(listed, value) {
				t.Errorf("docs/metrics.md does not list %s = %s", attribute, value)
			}
		}
	}
	for name := range c.spans {
		if !slices.ContainsFunc(page.spans, func(pattern string) bool { return spanMatches(pattern, name) }) {
			t.Errorf("docs/metrics.md does not list the span %q", name)
		}
	}
}

// checkPrometheus compares the names of what is scraped. Those of Go, of the process and of the scrape itself are the client library's.
func checkPrometheus(t *testing.T, page metricsPage, addr string) {
	t.Helper()
	response, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for name, i := range page.instruments {
		listed[i.prometheus] = true
		if families[i.prometheus] == nil && !i.seldom {
			t.Errorf("%s is not scraped as %s", name, i.prometheus)
		}
	}
	for name := range families {
		prefix, _, _ := strings.Cut(name, "_")
		if !listed[name] && !slices.Contains([]string{"go", "process", "promhttp", "target"}, prefix) {
			t.Errorf("docs/metrics.md does not list %s", name)
		}
	}
}

// use makes one of everything that is measured: a sale, a refusal, a hold that lapses, an operator's call.
func use(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	s := shopOf(conn)
	steps := []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := s.admin.CreateAllotment(ctx, &pb.CreateAllotmentRequest{
				Allotment: &pb.Allotment{Id: "show", Capacity: 3, HoldDuration: durationpb.New(time.Second)},
			})
			return err
		},
		func(ctx context.Context) error { return s.hold(ctx, "ann", 2) },
		func(ctx context.Context) error {
			_, err := s.checkout.ConfirmHold(ctx, &pb.ConfirmHoldRequest{HoldId: s.id, OrderId: "order-1"})
			return err
		},
		func(ctx context.Context) error { return s.hold(ctx, "bob", 1) },
		func(ctx context.Context) error {
			if err := s.hold(ctx, "cid", 3); err == nil {
				return fmt.Errorf("3 of 1 were given")
			}
			return nil
		},
	}
	for _, step := range steps {
		if err := repeated(t.Context(), func() error { return step(t.Context()) }); err != nil {
			t.Fatal(err)
		}
	}
}

// calls are the two services at one server, and the last hold.
type calls struct {
	checkout pb.InventoryServiceClient
	admin    pb.AdminServiceClient
	id       string
}

func shopOf(conn *grpc.ClientConn) *calls {
	return &calls{checkout: pb.NewInventoryServiceClient(conn), admin: pb.NewAdminServiceClient(conn)}
}

func (c *calls) hold(ctx context.Context, buyer string, quantity int32) error {
	r, err := c.checkout.CreateHold(ctx, &pb.CreateHoldRequest{AllotmentId: "show", BuyerId: buyer, RequestId: "r1", Quantity: quantity})
	if err == nil {
		c.id = r.GetHold().GetId()
	}
	return err
}
