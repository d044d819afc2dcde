package main

import (
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
	"github.com/holdfast-inventory/holdfast/cmd/launch/result"
)

func TestParseBenchmarks(t *testing.T) {
	t.Parallel()
	got := parseBenchmarks(`goos: linux
pkg: github.com/holdfast-inventory/holdfast/store/holds
BenchmarkScriptCPU/hold/batch=128-2         	       1	         0.4734 redis-us/DECRBY	        10.62 redis-us/decision
BenchmarkCreate-2   	   59601	     45382 ns/op	       122.9 requests/script
BenchmarkCreate-2   	   59601	     45384 ns/op	       122.1 requests/script
BenchmarkLogs
Benchmarks are fine things, 3 of them
BenchmarkAdd 	14973072	        7.5e+01 ns/op
PASS
ok  	github.com/holdfast-inventory/holdfast/store/batch	1.066s
`)
	want := []figure{
		{"ScriptCPU/hold/batch=128", "redis-us/DECRBY", 0.4734},
		{"ScriptCPU/hold/batch=128", "redis-us/decision", 10.62},
		{"Create", "ns/op", 45383},
		{"Create", "requests/script", 122.5},
		{"Add", "ns/op", 75},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// valuesOf are figures by name.
func valuesOf(figures []figure) map[string]float64 {
	values := map[string]float64{}
	for _, f := range figures {
		values[f.Name] = math.Round(f.Value*1000) / 1000
	}
	return values
}

// hasRows fails if a measure of an experiment, by its name, is none of the figures.
func hasRows(t *testing.T, name string, figures []figure) {
	t.Helper()
	chosen, err := choose(experiments(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range chosen[0].rows([]run{{Figures: figures}}) {
		if len(row.values) == 0 {
			t.Errorf("%s: no %q", name, row.name)
		}
	}
}

func TestOnsaleFigures(t *testing.T) {
	t.Parallel()
	busy := 0.9
	r := &result.Result{
		Rates:     result.Rates{Offered: 20_000, Sent: 20_000, Decided: 19_000, Decisions: 100_000},
		Decisions: result.Latency{P50: 1, P99: 40, Max: 70, Over: 3},
		Outcomes: []result.Outcome{
			{Call: "hold", Name: "granted", Calls: 100}, {Call: "hold", Name: "trouble", Calls: 4}, {Call: "hold", Name: "no answer", Calls: 1},
			{Call: "confirm", Name: "trouble", Calls: 9},
		},
		AfterLoad: &result.Stock{Held: 4000, Sold: 1000},
		Usage:     machine.Usage{Busy: &busy, CPU: map[string]time.Duration{"server": 6 * time.Second, "redis": time.Second, machine.Self: time.Second}},
		Noop:      &result.Noop{Ratio: 3.5},
		Verdict:   &history.Verdict{Refusals: 1000, ValidRefusals: 2, Oversold: 1},
	}
	want := map[string]float64{
		"sent": 100, "answered": 95, "p50": 1, "p99": 40, "max": 70, "late": 3, "undecided": 5, "oversold": 1, "refusals": 1000, "valid refusals": 2,
		"server": 60, "redis": 10, "busy": 90, "ratio": 3.5, "held+sold": 5000,
	}
	got := onsaleFigures(r)
	if diff := cmp.Diff(want, valuesOf(got)); diff != "" {
		t.Error(diff)
	}
	hasRows(t, "launch", got)
	r.Verdict.Promises = []*history.Promise{{ID: "R1", Name: "never oversold", Breaches: 2}, {ID: "R2", Kept: true}}
	r.Verdict.Promises = append(r.Verdict.Promises, &history.Promise{ID: "R6", Name: "conservation", Unknown: "not read"})
	if broken := brokenPromises(r.Verdict); broken != "R1 (never oversold) broken 2 times, R6 (conservation) not known: not read" {
		t.Errorf("broken: %q", broken)
	}
}

func TestClosedFigures(t *testing.T) {
	t.Parallel()
	rate, cpu, servers, fairness := 0.6, 2.0, 0.9, 0.8
	round := func(perSec float64, one, two int64) result.Round {
		return result.Round{PerSec: perSec, P99: 2, From: map[string]int64{"127.0.0.1:1": one, "127.0.0.1:2": two}}
	}
	got := closedFigures(&result.Closed{
		Seconds: 2, Rate: &rate, CPU: &cpu, Several: &servers, Fairness: &fairness,
		Holdfast: []result.Round{round(900, 1000, 800), round(1000, 1000, 1000), round(800, 600, 1000)}, Noop: []result.Round{round(5000, 1, 1)},
	})
	want := map[string]float64{
		"rate": 0.6, "cpu": 2, "several": 0.9, "fairness": 0.8, "answers": 900, "no-op": 5000, "p99": 2, "fewest": 400, "most": 500,
	}
	if diff := cmp.Diff(want, valuesOf(got)); diff != "" {
		t.Error(diff)
	}
	hasRows(t, "closed-holds-64", got)
	hasRows(t, "servers", got)
	if nothing := closedFigures(&result.Closed{}); len(nothing) != 0 {
		t.Errorf("of nothing: %v", nothing)
	}
}

func TestComparisonFigures(t *testing.T) {
	t.Parallel()
	relative := 12.0
	var all []figure
	for _, name := range []string{"unprotected", "mutex", "optimistic", "for-update", "conditional", "with-sale", "redis", "holdfast"} {
		c := comparison{Ways: []oneWay{{Way: name, Oversold: 7, Rate: 2000, Relative: &relative, Sold: 5000, P50: 1, P99: 20, CPU: &relative}}}
		all = append(all, c.figures()...)
	}
	hasRows(t, "compare", all)
	if values := valuesOf(all); values["mutex oversold"] != 7 || values["holdfast rate"] != 12 || values["for-update decisions"] != 2000 ||
		values["holdfast sold"] != 5000 || values["redis p99"] != 20 || values["mutex cpu"] != 12 {
		t.Errorf("%v", values)
	}
}

func TestParseMetrics(t *testing.T) {
	t.Parallel()
	got, err := parseMetrics(strings.NewReader("# HELP go_gc_gogc_percent Heap size.\ngo_gc_gogc_percent 400\nwith{label=\"a b\"} 3\n"))
	if err != nil || got["go_gc_gogc_percent"] != "400" {
		t.Errorf("%v, %v", maps.Clone(got), err)
	}
}
