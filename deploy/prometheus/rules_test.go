package prometheus

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
)

// TestRulesAreComplete: each alert has a severity, what to tell people, and a part of the runbook.
func TestRulesAreComplete(t *testing.T) {
	runbook, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range alertRules(t) {
		if severity := r.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: severity %q", name, severity)
		}
		for _, annotation := range []string{"summary", "description"} {
			if r.Annotations[annotation] == "" {
				t.Errorf("%s has no %s", name, annotation)
			}
		}
		_, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "/docs/runbook.md#")
		if wanted := strings.ToLower(name); anchor != wanted || !strings.Contains(string(runbook), "\n### "+name+"\n") {
			t.Errorf("%s: docs/runbook.md has no part %q", name, anchor)
		}
	}
	for line := range strings.SplitSeq(string(runbook), "\n") {
		if name, is := strings.CutPrefix(line, "### Holdfast"); is {
			if _, known := alertRules(t)["Holdfast"+name]; !known && name != "" {
				t.Errorf("docs/runbook.md has a part on Holdfast%s, which is no alert", name)
			}
		}
	}
}

// line is a series and its value at each scrape; the last one stays.
type line struct {
	series string    // name{label="value"}
	values []float64 // NaN: it is not there
}

func at(lines []line, scrapeNo int) samples {
	found := samples{}
	for _, l := range lines {
		metric, err := parseSeries(l.series)
		if err != nil {
			panic(err)
		}
		if value := l.values[min(scrapeNo, len(l.values)-1)]; !math.IsNaN(value) {
			found.add(&model.Sample{Metric: metric, Value: model.SampleValue(value)}, "one")
		}
	}
	return found
}

// rise is a counter that rises by so much between two scrapes.
func rise(by float64) []float64 {
	values := make([]float64, 40)
	for i := range values {
		values[i] = by * float64(i)
	}
	return values
}

// there is a series that is there from a scrape on, up to another.
func there(from, to int) []float64 {
	values := make([]float64, to+1)
	for i := range values {
		if values[i] = 1; i < from || i == to {
			values[i] = math.NaN()
		}
	}
	return values
}

const violations = `holdfast_ledger_constraint_violations_total{holdfast_constraint="allotments_never_oversold"}`

// TestRules plays made-up series to the rules: what fires, and when for the first time, at scrapes 15 s apart.
func TestRules(t *testing.T) {
	t.Parallel()
	ready := line{"holdfast_server_ready", []float64{1}}
	for _, test := range []struct {
		name  string
		lines []line
		until time.Duration
		want  []string
		first time.Duration // when the first fires
	}{
		{"all is well", []line{ready, {"holdfast_conservation_allotments_off", []float64{0}}, {violations, []float64{0}}}, 5 * time.Minute, nil, 0},
		{"a server that restarts is soon back", []line{{"holdfast_server_ready", []float64{1, 0, 0, 1}}}, 5 * time.Minute, nil, 0},
		{"none is ready", []line{{"holdfast_server_ready", []float64{0}}}, 45 * time.Second, []string{"HoldfastAbsent"}, 30 * time.Second},
		{"off for 15 s, then repaired", []line{ready, {"holdfast_conservation_allotments_off", []float64{0, 1, 1, 0}}}, 5 * time.Minute, nil, 0},
		{"off for 30 s", []line{ready, {"holdfast_conservation_allotments_off", []float64{0, 1}}}, time.Minute, []string{"HoldfastConservationOff"}, 45 * time.Second},
		{"one violation", []line{ready, {violations, []float64{0, 0, 1}}}, time.Minute, []string{"HoldfastConstraintViolation"}, 30 * time.Second},
		{"one violation of a constraint that was not known before", []line{
			ready, {`holdfast_ledger_constraint_violations_total{holdfast_constraint="other"}`, []float64{1}},
		}, time.Minute, []string{"HoldfastConstraintViolation"}, 0},
		{"the counter begins anew", []line{ready, {"holdfast_adopt_rewinds_total", []float64{2, 2, 0}}}, 5 * time.Minute, nil, 0},
		{"refused for the order alone", []line{
			ready, {`holdfast_ledger_refusals_total{holdfast_verdict="refused_order"}`, []float64{0, 5}},
		}, 5 * time.Minute, nil, 0},
		{"some turned away for a moment", []line{
			ready, {`holdfast_decisions_total{holdfast_outcome="QUEUE_FULL"}`, []float64{0, 0, 100}},
		}, 5 * time.Minute, nil, 0},
		{"one store of two is down", []line{
			ready, {`holdfast_store_up{holdfast_store="redis"}`, []float64{1}}, {`holdfast_store_up{holdfast_store="postgres"}`, []float64{0}},
		}, time.Minute, []string{"HoldfastStoreDown"}, 30 * time.Second},
		{"one server of two is cut off", []line{
			ready, {`holdfast_store_up{holdfast_store="redis"}`, []float64{1}}, {`holdfast_store_up{holdfast_store="redis",instance="two"}`, []float64{0}},
		}, 90 * time.Second, []string{"HoldfastStoreCutOff"}, time.Minute},
		{"one server of two is gone", []line{ready, {`holdfast_server_ready{instance="two"}`, there(0, 10)}}, 4 * time.Minute, []string{"HoldfastServerMissing"}, 210 * time.Second},
		{"one server of two is not ready", []line{ready, {`holdfast_server_ready{instance="two"}`, []float64{0}}}, 2 * time.Minute, []string{"HoldfastServerMissing"}, time.Minute},
		{"one more for a while, as in a roll", []line{ready, {`holdfast_server_ready{instance="two"}`, there(8, 12)}}, 8 * time.Minute, nil, 0},
		{"a tenth of all calls in trouble", []line{
			ready, {`holdfast_decisions_total{holdfast_outcome="SOLD_OUT"}`, rise(90)}, {`holdfast_decisions_total{holdfast_outcome="STORE_UNAVAILABLE"}`, rise(10)},
		}, 3 * time.Minute, []string{"HoldfastCallsInTrouble"}, 75 * time.Second},
		{"a fiftieth of all calls in trouble", []line{
			ready, {`holdfast_decisions_total{holdfast_outcome="SOLD_OUT"}`, rise(98)}, {`holdfast_decisions_total{holdfast_outcome="STORE_UNAVAILABLE"}`, rise(2)},
		}, 5 * time.Minute, nil, 0},
		{"Redis refuses for a moment, as in a failover", []line{
			ready, {`holdfast_redis_rejections_total{holdfast_rejection="READONLY"}`, []float64{0, 0, 5, 9}},
		}, 5 * time.Minute, nil, 0},
		{"Redis goes on refusing", []line{
			ready, {`holdfast_redis_rejections_total{holdfast_rejection="OOM"}`, rise(3)},
		}, 3 * time.Minute, []string{"HoldfastRedisRefuses"}, 75 * time.Second},
		{"memory without a limit", []line{ready, {"holdfast_redis_memory_used_bytes", []float64{1e9}}, {"holdfast_redis_memory_max_bytes", []float64{0}}}, 3 * time.Minute, nil, 0},
		{"memory at 81 %", []line{
			ready, {"holdfast_redis_memory_used_bytes", []float64{81}}, {"holdfast_redis_memory_max_bytes", []float64{100}},
		}, 2 * time.Minute, []string{"HoldfastRedisMemory"}, time.Minute},
		{"slow confirms are not slow decisions", []line{
			ready,
			{`holdfast_decision_duration_seconds_bucket{rpc_method="holdfast.v1.InventoryService/ConfirmHold",le="0.1"}`, []float64{0}},
			{`holdfast_decision_duration_seconds_bucket{rpc_method="holdfast.v1.InventoryService/ConfirmHold",le="0.5"}`, []float64{0, 10, 20, 30, 40, 50, 60, 70}},
			{`holdfast_decision_duration_seconds_bucket{rpc_method="holdfast.v1.InventoryService/ConfirmHold",le="+Inf"}`, []float64{0, 10, 20, 30, 40, 50, 60, 70}},
		}, 2 * time.Minute, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			first, scrapeNo := time.Duration(-1), 0
			for passed := time.Duration(0); passed <= test.until; passed += interval {
				s.step(at(test.lines, scrapeNo))
				scrapeNo++
				if first < 0 && len(s.fired) > 0 {
					first = passed
				}
			}
			var fired []string
			for name := range s.fired {
				fired = append(fired, name)
			}
			slices.Sort(fired)
			if diff := cmp.Diff(test.want, fired); diff != "" {
				t.Errorf("fired (-want +got):\n%s", diff)
			}
			if len(test.want) > 0 && first != test.first {
				t.Errorf("first after %v, want %v", first, test.first)
			}
		})
	}
}
