package prometheus

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/teststorage"
)

const (
	rulesFile = "../chart/files/alerts.yaml"
	interval  = 15 * time.Second // between two scrapes, and two evaluations
)

// groups are the rules of the file, which must be valid.
func groups(t *testing.T) []rulefmt.RuleGroup {
	t.Helper()
	all, errs := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Fatal(err)
	}
	return all.Groups
}

// alertRules are its alerts by name.
func alertRules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	found := map[string]rulefmt.Rule{}
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			found[r.Alert] = r
		}
	}
	return found
}

// server is a Prometheus without a clock: time passes when it is told.
type server struct {
	t      *testing.T
	db     *teststorage.TestStorage
	engine *promql.Engine
	now    time.Time
	every  time.Duration // between two steps
	alerts map[string]*rules.AlertingRule
	last   samples
	fired  map[string]map[string]string // the annotations of those that have fired
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{
		t: t, db: teststorage.New(t), engine: promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery),
		now: time.Unix(1_800_000_000, 0), every: interval, alerts: map[string]*rules.AlertingRule{}, fired: map[string]map[string]string{},
	}
	for name, r := range alertRules(t) {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			t.Fatal(err)
		}
		s.alerts[name] = rules.NewAlertingRule(name, expr, time.Duration(r.For), time.Duration(r.KeepFiringFor),
			labels.FromMap(r.Labels), labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
	}
	return s
}

// samples are the values of series at one moment.
type samples map[string]sample

type sample struct {
	labels labels.Labels
	value  float64
}

// step stores samples, evaluates every alert, and lets the time to the next scrape pass.
func (s *server) step(scraped samples) {
	s.t.Helper()
	appender := s.db.Appender(s.t.Context())
	for _, v := range scraped {
		if _, err := appender.Append(0, v.labels, s.now.UnixMilli(), v.value); err != nil {
			s.t.Fatal(err)
		}
	}
	for name, v := range s.last { // what is not scraped any more is marked so
		if _, still := scraped[name]; !still {
			if _, err := appender.Append(0, v.labels, s.now.UnixMilli(), math.Float64frombits(value.StaleNaN)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	if err := appender.Commit(); err != nil {
		s.t.Fatal(err)
	}
	s.last = scraped
	for name, rule := range s.alerts {
		if _, err := rule.Eval(s.t.Context(), 0, s.now, rules.EngineQueryFunc(s.engine, s.db), nil, 0); err != nil {
			s.t.Fatalf("%s: %v", name, err)
		}
		for _, a := range rule.ActiveAlerts() {
			if a.State == rules.StateFiring {
				s.fired[name] = a.Annotations.Map()
			}
		}
	}
	s.now = s.now.Add(s.every)
}

// stay lets samples stay as they are for so long.
func (s *server) stay(scraped samples, duration time.Duration) {
	s.t.Helper()
	for passed := time.Duration(0); passed <= duration; passed += s.every {
		s.step(scraped)
	}
}

// firing are the names of those that fire now.
func (s *server) firing() []string {
	var names []string
	for name, rule := range s.alerts {
		if rule.State() == rules.StateFiring {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// query is the value of an expression now, as of the last step.
func (s *server) query(expr string) (promql.Vector, error) {
	q, err := s.engine.NewInstantQuery(context.Background(), s.db, nil, expr, s.now.Add(-s.every))
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result := q.Exec(context.Background())
	if result.Err != nil {
		return nil, result.Err
	}
	switch v := result.Value.(type) {
	case promql.Vector:
		return slices.Clone(v), nil
	case promql.Scalar:
		return promql.Vector{{F: v.V}}, nil
	}
	return nil, fmt.Errorf("%s is a %s", expr, result.Value.Type())
}

// scrape reads a server's metrics, as Prometheus would: with job and instance.
func scrape(ctx context.Context, addr string) (samples, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	decoder := expfmt.SampleDecoder{
		Dec: expfmt.NewDecoder(response.Body, expfmt.NewFormat(expfmt.TypeTextPlain)), Opts: &expfmt.DecodeOptions{Timestamp: model.Now()},
	}
	found := samples{}
	for {
		var part model.Vector
		if err := decoder.Decode(&part); err != nil {
			if strings.Contains(err.Error(), "EOF") {
				return found, nil
			}
			return nil, err
		}
		for _, v := range part {
			found.add(v, addr)
		}
	}
}

func (s samples) add(v *model.Sample, instance string) {
	named := map[string]string{"job": "holdfast", "instance": instance}
	for name, text := range v.Metric {
		named[string(name)] = string(text)
	}
	l := labels.FromMap(named)
	s[l.String()] = sample{labels: l, value: float64(v.Value)}
}

// sum adds up the series of a name, those with these labels if any are given (name, value, ...).
func (s samples) sum(name string, pairs ...string) float64 {
	total := 0.0
	for _, v := range s {
		if v.labels.Get(model.MetricNameLabel) != name {
			continue
		}
		matches := true
		for i := 0; i < len(pairs); i += 2 {
			matches = matches && v.labels.Get(pairs[i]) == pairs[i+1]
		}
		if matches {
			total += v.value
		}
	}
	return total
}

// parseSeries reads name{label="value"}.
func parseSeries(text string) (model.Metric, error) {
	l, err := parser.NewParser(parser.Options{}).ParseMetric(text)
	metric := model.Metric{}
	for name, text := range l.Map() {
		metric[model.LabelName(name)] = model.LabelValue(text)
	}
	return metric, err
}
