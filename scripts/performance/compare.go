package main

import "context"

// comparison is what `launch compare --json` writes, as far as it is shown.
type comparison struct {
	Ways []struct {
		Way           string   `json:"way"`
		Oversold      float64  `json:"oversold"`
		ValidRefusals float64  `json:"valid_refusals"`
		Rate          float64  `json:"decisions_per_second"`
		Relative      *float64 `json:"rate_by_for_update"`
	} `json:"ways"`
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
		{"conditional", "one conditional UPDATE"}, {"with-sale", "conditional UPDATE and INSERT of the sale"}, {"redis", "one EVALSHA for each request"},
	} {
		measures = append(measures, measure{name: way.name + " rate", unit: "times", what: way.what + ": decisions a second, to SELECT ... FOR UPDATE"})
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
			figure{w.Way + " decisions", "/s", w.Rate})
		if w.Relative != nil {
			all = append(all, figure{w.Way + " rate", "times", *w.Relative})
		}
	}
	return all
}
