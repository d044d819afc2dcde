package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-inventory/holdfast/cmd/launch/result"
)

// closedLoops are so many callers, each of which asks again as soon as it is answered.
func closedLoops() []experiment {
	var all []experiment
	for _, kind := range []struct {
		name   string
		target float64
	}{{"refusals", 0.60}, {"holds", 0.50}} {
		for _, callers := range []int{64, 256} {
			measures := []measure{
				{name: "rate", unit: "times", what: "rate, to the no-op server's in the same run", target: atLeast(kind.target)},
				{name: "cpu", unit: "times", what: "CPU of server and Redis for a decision, to the no-op server's", target: atMost(2.3)},
				{name: "answers", unit: "/s", what: kind.name + " a second"},
				{name: "no-op", unit: "/s", what: "answers of the no-op server"},
				{name: "p99", unit: "ms", what: "p99"},
			}
			inReadme(measures, map[string]string{
				"rate": fmt.Sprintf("%s at the highest rate, %d in flight: rate, to that of a server that decides nothing", kind.name, callers),
				"cpu":  "CPU of server and Redis for these, to that of such a server",
			})
			all = append(all, experiment{
				name: fmt.Sprintf("closed-%s-%d", kind.name, callers), title: fmt.Sprintf("Closed loop: %s, %d in flight", kind.name, callers),
				asked: fmt.Sprintf("`launch closed --kind=%s --in-flight=%d`: three rounds of 3 s, in turn with a server of the same messages "+
					"that decides nothing; medians of the rounds.", kind.name, callers),
				measures: measures, once: closedLoop(1, "--kind="+kind.name, fmt.Sprintf("--in-flight=%d", callers)),
			})
		}
	}
	return all
}

// severalServers is about what servers cost that share everything. Callers keep to their servers, so there are as many for each,
// over as many connections.
func severalServers() experiment {
	return experiment{
		name: "servers", title: "Three servers on one Redis",
		asked: "`launch closed --in-flight=192 --connections=6` over three servers, one Redis and one Postgres on the same machine, in turn " +
			"with the first of them alone: refusals, 64 in flight for each server.",
		measures: []measure{
			{
				name: "several", unit: "times", what: "rate of the three, to one server's in the same run", target: atLeast(0.9),
				readme: "three servers on the same machine: rate of refusals, to that of one",
			},
			{name: "answers", unit: "/s", what: "refusals a second of the three"},
			{name: "fairness", unit: "times", what: "answers of the server with the fewest, to those of the one with the most"},
			{name: "fewest", unit: "/s", what: "refusals a second of the server with the fewest"},
			{name: "most", unit: "/s", what: "refusals a second of the server with the most"},
		},
		once: closedLoop(3, "--in-flight=192", "--connections=6"),
	}
}

// manyGroups is about what a crowd costs that spreads over many allotments.
func manyGroups() experiment {
	return experiment{
		name: "groups", title: "4,096 hot groups",
		asked: "`launch closed --in-flight=256 --allotments=4096 --rounds=1`, in turn with one allotment: refusals of allotments that are each a group of its own.",
		measures: []measure{
			{
				name: "several", unit: "times", what: "rate over 4,096 allotments, to one allotment's in the same run", target: atLeast(0.5),
				readme: "4,096 hot allotments: rate of refusals, to that of one",
			},
			{name: "answers", unit: "/s", what: "refusals a second over 4,096 allotments"},
			{name: "p99", unit: "ms"},
		},
		once: closedLoop(1, "--in-flight=256", "--allotments=4096", "--rounds=1"),
	}
}

func closedLoop(servers int, args ...string) func(context.Context, *bench) (run, error) {
	return func(ctx context.Context, b *bench) (run, error) {
		var found result.Closed
		r, err := b.launch(ctx, servers, &found, append([]string{"closed"}, args...)...)
		r.Figures = closedFigures(&found)
		return r, err
	}
}

// closedFigures are the figures of a closed loop: those that it compared, and medians over its rounds.
func closedFigures(c *result.Closed) []figure {
	var all []figure
	for _, f := range []struct {
		name  string
		value *float64
	}{{"rate", c.Rate}, {"cpu", c.CPU}, {"several", c.Several}, {"fairness", c.Fairness}} {
		if f.value != nil {
			all = append(all, figure{f.name, "times", *f.value})
		}
	}
	over := func(name, unit string, rounds []result.Round, of func(result.Round) float64) {
		var values []float64
		for _, r := range rounds {
			values = append(values, of(r))
		}
		if len(values) > 0 {
			all = append(all, figure{name, unit, median(values)})
		}
	}
	over("answers", "/s", c.Holdfast, func(r result.Round) float64 { return r.PerSec })
	over("no-op", "/s", c.Noop, func(r result.Round) float64 { return r.PerSec })
	over("p99", "ms", c.Holdfast, func(r result.Round) float64 { return r.P99 })
	over("fewest", "/s", c.Holdfast, func(r result.Round) float64 {
		return float64(slices.Min(slices.Collect(maps.Values(r.From)))) / c.Seconds
	})
	over("most", "/s", c.Holdfast, func(r result.Round) float64 {
		return float64(slices.Max(slices.Collect(maps.Values(r.From)))) / c.Seconds
	})
	return all
}
