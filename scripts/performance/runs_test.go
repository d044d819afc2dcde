package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
)

// steals makes runs with these steals, whose figure is the steal, too.
func steals(percent ...float64) []run {
	var runs []run
	for _, p := range percent {
		runs = append(runs, run{Steal: &p, Figures: []figure{{"steal", "%", p}}})
	}
	return runs
}

func stealsOf(runs []run) []float64 {
	var all []float64
	for _, r := range runs {
		all = append(all, r.steal())
	}
	return all
}

func TestCountedRuns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		runs      []run
		counted   []float64
		disturbed bool
	}{
		"enough are undisturbed": {steals(1, 9, 4.9, 2), []float64{1, 4.9, 2}, false},
		"5 % is too much":        {steals(1, 5, 2, 7), []float64{1, 2, 5}, true},
		"fewer than were wanted": {steals(6, 1), []float64{1, 6}, true},
		"steal is not known":     {[]run{{}, {}, {}}, []float64{0, 0, 0}, false},
		"none":                   {nil, nil, false},
	} {
		runs, disturbed := outcome{Wanted: 3, Runs: test.runs}.counted()
		if got := stealsOf(runs); !slices.Equal(got, test.counted) || disturbed != test.disturbed {
			t.Errorf("%s: %v, %v, want %v, %v", name, got, disturbed, test.counted, test.disturbed)
		}
	}
}

// TestTries: it goes on until enough runs were undisturbed, and not for ever.
func TestTries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		runs []run
		want int
	}{
		"no more than are wanted":  {steals(1, 1, 1, 1, 1), 2},
		"one more for a disturbed": {steals(1, 20, 1, 1, 1), 3},
		"no more than may be":      {steals(9, 9, 9, 9, 9), 4},
	} {
		next := 0
		e := experiment{name: name, once: func(context.Context, *bench) (run, error) {
			next++
			return test.runs[next-1], nil
		}}
		if r := (&bench{log: io.Discard}).measure(t.Context(), e, 2, 4); len(r.Runs) != test.want || r.Error != "" || r.Date.IsZero() {
			t.Errorf("%s: %+v, want %d runs", name, r, test.want)
		}
	}
}

// TestFailuresAreKept: what fails is told, whether or not the run counts.
func TestFailuresAreKept(t *testing.T) {
	t.Parallel()
	runs := steals(50, 1)
	runs[0].Failure = "R1 (never oversold) broken 3 times"
	next := 0
	e := experiment{once: func(context.Context, *bench) (run, error) {
		if next++; next > len(runs) {
			return run{}, errors.New("/src/bin/launch is gone\nfor good")
		}
		return runs[next-1], nil
	}}
	r := (&bench{root: "/src", log: io.Discard}).measure(t.Context(), e, 3, 9)
	want := []string{"run 1 of 2: R1 (never oversold) broken 3 times", "bin/launch is gone"}
	if got := r.failures(); !slices.Equal(got, want) {
		t.Errorf("failures %q, want %q", got, want)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	all := []experiment{{name: "launch"}, {name: "sweep"}, {name: "sweep-lag"}, {name: "closed-a"}, {name: "closed-b"}}
	for only, want := range map[string][]string{
		"":                            {"launch", "sweep", "sweep-lag", "closed-a", "closed-b"},
		"sweep":                       {"sweep"},
		"closed":                      {"closed-a", "closed-b"},
		"closed-b,sweep-lag,closed-b": {"sweep-lag", "closed-b"},
	} {
		chosen, err := choose(all, only)
		if err != nil || !slices.Equal(names(chosen), want) {
			t.Errorf("%q: %v, %v, want %v", only, names(chosen), err, want)
		}
	}
	for _, only := range []string{"clo", "launch,", "swoop"} {
		if _, err := choose(all, only); err == nil {
			t.Errorf("%q was found", only)
		}
	}
}

// TestExperiments: each has a name of its own, and its rows can be told apart.
func TestExperiments(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, e := range experiments() {
		if seen[e.name] || e.title == "" || e.asked == "" || e.once == nil {
			t.Errorf("%q is there twice, or something of it is missing", e.name)
		}
		seen[e.name] = true
		rows := map[measure]bool{}
		for _, m := range e.measures {
			key := measure{name: m.name, unit: m.unit}
			if rows[key] {
				t.Errorf("%s: %s is there twice", e.name, m.name)
			}
			rows[key] = true
		}
	}
}
