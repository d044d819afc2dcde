package result

import (
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
)

const mostSpans = 240

// SeriesOf follows the calls and the stock over time.
func SeriesOf(h *history.History) Series {
	var end time.Duration
	for _, c := range h.Calls {
		end = max(end, c.Answered, c.Sent)
	}
	span := spanFor(end)
	n := int(end/span) + 1
	s := Series{Span: span.Seconds()}
	counts := map[string][]float64{}
	for _, name := range []string{granted, known, refused, trouble, sold} {
		counts[name] = make([]float64, n)
	}
	latencies := make([][]time.Duration, n)
	first := sorter{}
	for _, c := range answered(h.Calls) {
		if name := first.name(c); counts[name] != nil {
			counts[name][c.Answered/span] += 1 / span.Seconds()
		}
		if c.Kind != history.CreateHold || c.Outcome == history.NoAnswer {
			continue
		}
		latencies[c.Intended/span] = append(latencies[c.Intended/span], c.Latency())
	}
	s.Granted, s.Known, s.Refused, s.Trouble, s.Sold = counts[granted], counts[known], counts[refused], counts[trouble], counts[sold]
	times := NewTimes()
	for i, ofSpan := range latencies {
		s.Starts = append(s.Starts, (time.Duration(i) * span).Seconds())
		times.histogram.Reset()
		for _, l := range ofSpan {
			times.Add(l)
		}
		var p50, p99, most *float64
		if len(ofSpan) > 0 {
			p50, p99, most = new(times.at(50)), new(times.at(99)), new(times.at(100))
		}
		s.P50, s.P99, s.Max = append(s.P50, p50), append(s.P99, p99), append(s.Max, most)
	}
	for _, stock := range h.Stocks {
		s.Stocks = append(s.Stocks, StockOf(stock))
	}
	return s
}

// spanFor chooses a round length of which there are not too many.
func spanFor(total time.Duration) time.Duration {
	for unit := 10 * time.Millisecond; ; unit *= 10 {
		for _, span := range []time.Duration{unit, 2 * unit, 5 * unit} {
			if total/span < mostSpans {
				return span
			}
		}
	}
}
