package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 5000: "5,000", 12345.6: "12,346", 433.22: "433.2", 99.98: "99.98", 0.612: "0.61", 0.0421: "0.042", 3: "3",
	} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for unit, want := range map[string]string{"": "8", "ms": "8 ms", "x-baseline": "8 times the baseline"} {
		if got := withUnit("8", unit); got != want {
			t.Errorf("%q: %s, want %s", unit, got, want)
		}
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		target *target
		values []float64
		text   string
		met    string
	}{
		"the median is low enough":  {atMost(100), []float64{20, 300, 100}, "at most 100 ms", "yes"},
		"the median is too high":    {atMost(100), []float64{20, 300, 101}, "at most 100 ms", "**no**"},
		"the median is high enough": {atLeast(0.5), []float64{0.1, 0.5, 0.9}, "at least 0.5 ms", "yes"},
		"one run is other":          {always(0), []float64{0, 1, 0}, "0 ms", "**no**"},
		"all runs are so":           {always(5000), []float64{5000, 5000}, "5,000 ms", "yes"},
		"one run is not over":       {above(0), []float64{3, 0}, "over 0 ms", "**no**"},
		"what was not seen":         {always(0), nil, "0 ms", "**no**"},
		"nothing is asked":          {nil, []float64{1}, "", ""},
	} {
		r := row{measure{target: test.target}, test.values}
		if text, met := r.target.text("ms"), r.verdict(); text != test.text || met != test.met {
			t.Errorf("%s: %q %q, want %q %q", name, text, met, test.text, test.met)
		}
	}
}

// forged is an experiment with a result of three runs, of which two count.
func forged() (experiment, outcome) {
	e := experiment{
		name: "one", title: "One", asked: "What?", measures: []measure{
			{name: "p99", unit: "ms", what: "the 99th|percentile", target: atMost(100), readme: "p99"},
			{name: "gone", target: always(0)},
		}, rest: func(unit string) bool { return unit == "us" },
	}
	r := outcome{
		Name: "one", Date: time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC), Machine: facts{CPU: "Fast", Cores: 2, GOGC: "400"}, Wanted: 2,
		Runs: steals(1, 60, 2),
	}
	for i := range r.Runs {
		r.Runs[i].Figures = []figure{{"other", "us", 1.5}, {"p99", "ms", float64(100 + 10*i)}, {"hidden", "s", 1}}
	}
	r.Runs[1].Failure = "it broke"
	return e, r
}

func TestSection(t *testing.T) {
	t.Parallel()
	e, r := forged()
	want := `2026-11-29: 2 of 3 runs, steal 1.50 % (1-2).

**FAILED**: run 2 of 3: it broke

| what | target | seen | met |
|---|---|---|---|
| the 99th\|percentile | at most 100 ms | 110 ms (100-120) | **no** |
| gone | 0 | nothing | **no** |
| other |  | 1.50 us |  |

`
	if diff := cmp.Diff(want, section(e, r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r.Wanted = 3
	if line := runsLine(r); !strings.Contains(line, "**Disturbed**: fewer than 3 runs had a steal below 5 %") {
		t.Errorf("no word of the disturbance: %s", line)
	}
	r.Runs, r.Error = nil, "it cannot be"
	if diff := cmp.Diff("2026-11-29: 0 of 0 runs.\n\n**FAILED**: it cannot be\n\n", section(e, r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReadmeTable(t *testing.T) {
	t.Parallel()
	e, result := forged()
	r := &record{}
	const head = "| what | target | seen |\n|---|---|---|\n"
	if got := readmeTable([]experiment{e}, r); got != head+"| p99 | at most 100 ms | not measured yet |\n" {
		t.Errorf("without a result:\n%s", got)
	}
	result.Wanted = 3
	r.put(result)
	want := head + "| p99 | at most 100 ms | 110 ms (100-120), **not met, disturbed, a run failed** |\n\nFast, 2 cores; 2026-11-29.\n"
	if diff := cmp.Diff(want, readmeTable([]experiment{e}, r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFill(t *testing.T) {
	t.Parallel()
	got, err := fill("before\n"+begin+"old\n"+end+"after\n", "new\n")
	if err != nil || got != "before\n"+begin+"new\n"+end+"after\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"", begin, end + begin} {
		if _, err := fill(text, "new\n"); err == nil {
			t.Errorf("%q was filled", text)
		}
	}
}

// TestPartOfTheResults: measuring one experiment leaves the results of the others.
func TestPartOfTheResults(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "performance.json")
	r, err := load(file)
	if err != nil || len(r.Results) != 0 {
		t.Fatalf("nothing yet: %+v, %v", r, err)
	}
	_, first := forged()
	other := first
	other.Name, other.Runs = "another", steals(1)
	r.put(first)
	r.put(other)
	if err := r.save(file); err != nil {
		t.Fatal(err)
	}
	again, err := load(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, again); diff != "" {
		t.Errorf("-saved +loaded:\n%s", diff)
	}
	first.Runs = steals(3)
	again.put(first)
	if now, _ := again.of("one"); len(again.Results) != 2 || len(now.Runs) != 1 {
		t.Errorf("%+v", again.Results)
	}
	if kept, _ := again.of("another"); cmp.Diff(other, kept) != "" {
		t.Errorf("the other is now %+v", kept)
	}
}

// TestOtherMachine: what was measured elsewhere says so.
func TestOtherMachine(t *testing.T) {
	t.Parallel()
	e, first := forged()
	second := first
	second.Name, second.Machine.CPU, second.Date = "two", "Slow", first.Date.Add(time.Hour)
	r := &record{}
	r.put(first)
	r.put(second)
	text := render([]experiment{e}, r)
	if top, rest, _ := strings.Cut(text, "## One"); !strings.Contains(top, "Slow, 2 cores") || !strings.Contains(rest, "Fast, 2 cores") {
		t.Errorf("which machine was it?\n%s", text)
	}
}

// TestPublished: the document and the README's table are what `go run ./scripts/performance --render` makes of the figures.
func TestPublished(t *testing.T) {
	t.Parallel()
	r, err := load("../../docs/performance.json")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../" + document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(render(experiments(), r), string(page)); diff != "" {
		t.Errorf("%s: -want +got:\n%s", document, diff)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	filled, err := fill(string(readme), readmeTable(experiments(), r))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(filled, string(readme)); diff != "" {
		t.Errorf("README.md: -want +got:\n%s", diff)
	}
}
