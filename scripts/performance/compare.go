package main

import "context"

// comparison is what `launch compare --json` writes, as far as it is shown.
type comparison struct {
	Ways []oneWay `json:"ways"`
}

type oneWay struct {
	Way           string   `json:"way"`
	Sold          float64  `json:"sold"`
	Oversold      float64  `json:"oversold"`
	ValidRefusals float64  `json:"valid_refusals"`
	Rate          float64  `json:"decisions_per_second"`
	Relative      *float64 `json:"rate_by_for_update"`
	P50           float64  `json:"p50_ms"`
	P99           float64  `json:"p99_ms"`
	CPU           *float64 `json:"server_cpu_us_per_decision"`
}

// otherWays is what people would use instead.
func otherWays() experiment {
	measures := []measure{
		{name: "unprotected oversold", what: "read, check, write: units oversold", target: above(0)},
		{name: "mutex oversold", what: "the same with a mutex in each of four processes: units oversold", target: above(0)},
		{name: "holdfast oversold", what: "Holdfast: units oversold", target: always(0)},
		{name: "holdfast valid refusals", what: "Holdfast: requests refused although enough was free", target: always(0)},
		{
			name: "holdfast rate", unit: "times", what: "Holdfast: decisions a second, to SELECT ... FOR UPDATE", target: atLeast(10),
			readme: "decisions a second, to those by SELECT ... FOR UPDATE",
		},
		{name: "holdfast decisions", unit: "/s", what: "Holdfast: decisions"},
		{name: "for-update decisions", unit: "/s", what: "SELECT ... FOR UPDATE: decisions"},
		{name: "optimistic valid refusals", what: "version column, three tries: requests refused although enough was free"},
	}
	for _, way := range []struct{ name, what string }{
		{"unprotected", "read, check, write"}, {"mutex", "a mutex in each of four processes"}, {"optimistic", "version column, three tries"},
		{"for-update", "SELECT ... FOR UPDATE"}, {"conditional", "one conditional UPDATE"},
		{"with-sale", "conditional UPDATE and INSERT of the sale"}, {"redis", "one EVALSHA for each request"}, {"holdfast", "Holdfast"},
	} {
		if way.name != "for-update" && way.name != "holdfast" { // whose rates are above
			measures = append(measures, measure{name: way.name + " rate", unit: "times", what: way.what + ": decisions a second, to SELECT ... FOR UPDATE"})
		}
		measures = append(measures,
			measure{name: way.name + " sold", what: way.what + ": units sold, of 5,000"},
			measure{name: way.name + " p50", unit: "ms", what: way.what + ": p50"},
			measure{name: way.name + " p99", unit: "ms", what: way.what + ": p99"},
			measure{name: way.name + " cpu", unit: "us", what: way.what + ": CPU of servers and stores for a decision"})
	}
	return experiment{
		name: "compare", title: "Other ways",
		asked: "`launch compare`: 20,000 requests of 64 callers for 5,000 units, by what people would use instead and by Holdfast through gRPC. " +
			"Here Redis writes its file and Postgres waits for the disk. The callers of the others call the store itself, those of Holdfast go " +
			"through gRPC; so one EVALSHA for each request, with no service before it, comes out ahead.",
		measures: measures,
		once: func(ctx context.Context, b *bench) (run, error) {
			var found comparison
			r, err := b.readJSON(ctx, &found, "compare")
			r.Figures = found.figures()
			return r, err
		},
	}
}

func (c comparison) figures() []figure {
	var all []figure
	for _, w := range c.Ways {
		all = append(all, figure{w.Way + " oversold", "", w.Oversold}, figure{w.Way + " valid refusals", "", w.ValidRefusals},
			figure{w.Way + " decisions", "/s", w.Rate}, figure{w.Way + " sold", "", w.Sold}, figure{w.Way + " p50", "ms", w.P50},
			figure{w.Way + " p99", "ms", w.P99})
		if w.CPU != nil {
			all = append(all, figure{w.Way + " cpu", "us", *w.CPU})
		}
		if w.Relative != nil {
			all = append(all, figure{w.Way + " rate", "times", *w.Relative})
		}
	}
	return all
}
