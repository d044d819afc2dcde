package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/result"
)

// launches are open loops: requests come in at their rate whether or not answers do.
func launches() []experiment {
	common := []measure{
		{name: "sent", unit: "%", what: "sent, of 20,000 requests/s", target: atLeast(99.9)},
		{name: "answered", unit: "%", what: "decided, of 20,000 requests/s", target: atLeast(99.9)},
		{name: "p50", unit: "ms", what: "decision, p50, counted from when the request should have been sent"},
		{name: "p99", unit: "ms", what: "decision, p99", target: atMost(100)},
		{name: "max", unit: "ms", what: "decision, slowest"},
		{name: "late", what: "answers that took more than 100 ms"},
		{name: "undecided", what: "answers that were trouble, or none came; repeats of such are counted, too"},
		{name: "oversold", what: "units oversold", target: always(0)},
		{name: "refusals", what: "requests that were refused"},
		{name: "valid refusals", what: "of these refused although enough was free", target: always(0)},
		{name: "server", unit: "us", what: "CPU of the server for a request"},
		{name: "redis", unit: "us", what: "CPU of Redis for a request"},
		{name: "busy", unit: "%", what: "the machine was busy"},
	}
	plenty := slices.Clone(common)
	scarce := slices.Insert(slices.Clone(common), 5,
		measure{name: "ratio", unit: "times", what: "p99, to that of the no-op server in the same run", target: atMost(4)},
		measure{name: "held+sold", what: "units held or sold after the last request, of 5,000", target: always(5000)},
	)
	inReadme(scarce, map[string]string{
		"answered": "a launch, 200,000 requests in 10 s for 5,000 units: decided, of 20,000/s", "p99": "p99 of its decisions",
		"ratio": "that p99, to the p99 of a server that decides nothing", "oversold": "units oversold in it",
		"valid refusals": "requests refused in it although enough was free",
	})
	paying := slices.Clone(plenty)
	inReadme(plenty, map[string]string{"p99": "the same with 300,000 units, so that all get a hold, and two minutes to pay for it: p99"})
	inReadme(paying, map[string]string{
		"answered": "the same with 12 s to pay, so that up to 13,000 a second pay besides: decided, of 20,000/s",
		"p99":      "p99 of its decisions",
	})
	return []experiment{
		{
			name: "launch", title: "A launch", measures: scarce, once: onsale("--noop"),
			asked: "`launch onsale --noop`: 200,000 requests in 10 s for 5,000 units; the generator, the server, Redis and Postgres share " +
				"the machine. Before, the same load goes to a server of the same messages that decides nothing.",
		},
		{
			name: "plentiful", title: "A launch with enough for everybody", measures: plenty, once: onsale("--capacity=300000", "--time-scale=1", "--no-lapses"),
			asked: "`launch onsale --capacity=300000 --time-scale=1 --no-lapses`: nobody is refused, so that every request writes. Buyers have " +
				"the two minutes of life for paying, so that confirms come at up to 1,100 a second.",
		},
		{
			name: "paying", title: "A launch with enough for everybody, who pay within 12 s", measures: paying, once: onsale("--capacity=300000"),
			asked: "`launch onsale --capacity=300000`: the same with a window of 12 s, in which two thirds pay: up to 13,000 confirms a second besides.",
		},
	}
}

// inReadme gives some measures, by name, a row in the README's table.
func inReadme(measures []measure, texts map[string]string) {
	for i, m := range measures {
		measures[i].readme = texts[m.name]
	}
}

func onsale(args ...string) func(context.Context, *bench) (run, error) {
	return func(ctx context.Context, b *bench) (run, error) {
		var found result.Result
		r, err := b.launch(ctx, 1, &found, append([]string{"onsale"}, args...)...)
		if err == nil && found.Verdict != nil {
			r.Figures = onsaleFigures(&found)
			if broken := brokenPromises(found.Verdict); broken != "" {
				r.Failure = broken
			}
		}
		return r, err
	}
}

// launch runs launch against so many servers on stores of their own, and reads what it found.
func (b *bench) launch(ctx context.Context, servers int, found any, args ...string) (r run, err error) {
	p, err := open(ctx, b.binary("holdfast"), servers)
	if err != nil {
		return run{}, err
	}
	defer func() { err = errors.Join(err, p.close()) }() //nolint:contextcheck // stopping has its own time
	return b.readJSON(ctx, found, append(args, p.flags()...)...)
}

// readJSON runs launch and reads what it found. What it does not find is a failure, and leaves found as it is.
func (b *bench) readJSON(ctx context.Context, found any, args ...string) (run, error) {
	file := filepath.Join(b.scratch, "found.json")
	if err := os.RemoveAll(file); err != nil {
		return run{}, err
	}
	_, r, err := b.play(ctx, exec.Command(b.binary("launch"), append(args, "--json="+file)...))
	if err != nil {
		return run{}, err
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) && r.Failure != "" {
		return run{}, errors.New(r.Failure)
	}
	if err == nil {
		err = json.Unmarshal(text, found)
	}
	return r, err
}

// onsaleFigures are the figures of a launch.
func onsaleFigures(r *result.Result) []figure {
	d, decisions := r.Decisions, float64(max(1, r.Rates.Decisions))
	all := []figure{
		{"sent", "%", 100 * r.Rates.Sent / r.Rates.Offered},
		{"answered", "%", 100 * r.Rates.Decided / r.Rates.Offered},
		{"p50", "ms", d.P50},
		{"p99", "ms", d.P99},
		{"max", "ms", d.Max},
		{"late", "", float64(d.Over)},
		{"undecided", "", undecided(r)},
		{"oversold", "", float64(r.Verdict.Oversold)},
		{"refusals", "", float64(r.Verdict.Refusals)},
		{"valid refusals", "", float64(r.Verdict.ValidRefusals)},
	}
	for _, name := range []string{"server", "redis"} {
		if used, known := r.Usage.CPU[name]; known {
			all = append(all, figure{name, "us", float64(used) / float64(time.Microsecond) / decisions})
		}
	}
	if r.Usage.Busy != nil {
		all = append(all, figure{"busy", "%", 100 * *r.Usage.Busy})
	}
	if r.Noop != nil {
		all = append(all, figure{"ratio", "times", r.Noop.Ratio})
	}
	if s := r.AfterLoad; s != nil {
		all = append(all, figure{"held+sold", "", float64(s.Held + s.Sold)})
	}
	return all
}

// undecided counts calls for holds whose answer was no decision.
func undecided(r *result.Result) (calls float64) {
	for _, o := range r.Outcomes {
		if o.Call == "hold" && (o.Name == "trouble" || o.Name == "no answer") {
			calls += float64(o.Calls)
		}
	}
	return calls
}

// brokenPromises names them; empty: all were kept.
func brokenPromises(v *history.Verdict) string {
	var broken []string
	for _, p := range v.Promises {
		switch {
		case p.Breaches > 0:
			broken = append(broken, fmt.Sprintf("%s (%s) broken %d times", p.ID, p.Name, p.Breaches))
		case !p.Kept:
			broken = append(broken, fmt.Sprintf("%s (%s) not known: %s", p.ID, p.Name, p.Unknown))
		}
	}
	return strings.Join(broken, ", ")
}
