package result

import (
	"cmp"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
)

const (
	longest       = 120 * time.Second
	digits        = 3
	decisionLimit = 100 * time.Millisecond // what a decision may take
	ticks         = 8                      // points of a distribution for each halving of what is left
)

// Times gathers how long things took.
type Times struct {
	histogram *hdrhistogram.Histogram // in microseconds
	over      int64
}

// NewTimes makes one without any.
func NewTimes() *Times {
	return &Times{histogram: hdrhistogram.New(1, longest.Microseconds(), digits)}
}

// Add notes one.
func (t *Times) Add(d time.Duration) {
	_ = t.histogram.RecordValue(min(max(d, 0), longest).Microseconds()) // it is in range
	if d > decisionLimit {
		t.over++
	}
}

// Latency sums it up.
func (t *Times) Latency() Latency {
	l := Latency{
		Count: t.histogram.TotalCount(), P50: t.at(50), P90: t.at(90), P99: t.at(99), P999: t.at(99.9),
		Max: millis(t.histogram.Max()), Over: t.over,
	}
	for _, b := range t.histogram.CumulativeDistributionWithTicks(ticks) {
		l.Points = append(l.Points, Point{Quantile: b.Quantile / 100, Millis: millis(b.ValueAt)})
	}
	return l
}

func (t *Times) at(percentile float64) float64 {
	return millis(t.histogram.ValueAtQuantile(percentile))
}

func millis(micros int64) float64 { return float64(micros) / 1000 }

// Decisions is how long the answers to requests for holds took.
func Decisions(calls []*history.Call) Latency { return latency(calls, history.CreateHold) }

// Confirms is how long the answers to confirms took.
func Confirms(calls []*history.Call) Latency { return latency(calls, history.ConfirmHold) }

func latency(calls []*history.Call, kind history.Kind) Latency {
	t := NewTimes()
	for _, c := range calls {
		if c.Kind == kind && c.Outcome != history.NoAnswer {
			t.Add(c.Latency())
		}
	}
	return t.Latency()
}

// Late is by how much calls were sent too late: what the generator itself could not do in time.
func Late(calls []*history.Call) Latency {
	t := NewTimes()
	for _, c := range calls {
		t.Add(c.Sent - c.Intended)
	}
	return t.Latency()
}

// RatesOf is how fast a load of so many requests, which began at begin, was sent and decided.
func RatesOf(calls []*history.Call, begin, duration time.Duration, requests int) Rates {
	r := Rates{Offered: float64(requests) / duration.Seconds()}
	var lastSent, lastDecision time.Duration
	for _, c := range calls {
		if c.Kind != history.CreateHold || c.Attempt > 0 {
			continue
		}
		r.Requests++
		lastSent = max(lastSent, c.Sent)
		if c.Decided() {
			r.Decisions++
			lastDecision = max(lastDecision, c.Answered)
		}
	}
	// The last request stands for a span of its own, as all the others do.
	span := time.Duration(float64(duration) / float64(requests))
	if r.Requests > 0 {
		r.Sent = float64(r.Requests) / (lastSent - begin + span).Seconds()
	}
	if r.Decisions > 0 {
		r.Decided = float64(r.Decisions) / (lastDecision - begin + span).Seconds()
	}
	return r
}

// LastFirstAnswer is when the last first try of a request for a hold was answered.
func LastFirstAnswer(calls []*history.Call) (last time.Duration) {
	for _, c := range calls {
		if c.Kind == history.CreateHold && c.Attempt == 0 && c.Outcome != history.NoAnswer {
			last = max(last, c.Answered)
		}
	}
	return last
}

// Names of outcomes.
const (
	granted  = "granted"
	known    = "known"
	sold     = "sold"
	refused  = "refused"
	trouble  = "trouble"
	noAnswer = "no answer"
)

// sorter tells the first hold of a buyer from those that repeat it.
type sorter map[int32]bool

func (s sorter) name(c *history.Call) string {
	switch c.Outcome {
	case history.Refused:
		return refused
	case history.Trouble:
		return trouble
	case history.NoAnswer:
		return noAnswer
	}
	if c.Kind == history.ConfirmHold {
		return sold
	}
	if s[c.Buyer] {
		return known
	}
	s[c.Buyer] = true
	return granted
}

// answered returns the calls in the order of their answers, those without one last.
func answered(calls []*history.Call) []*history.Call {
	sorted := slices.Clone(calls)
	slices.SortStableFunc(sorted, func(a, b *history.Call) int {
		if (a.Outcome == history.NoAnswer) != (b.Outcome == history.NoAnswer) {
			return cmp.Compare(b.Outcome, a.Outcome)
		}
		return cmp.Compare(a.Answered, b.Answered)
	})
	return sorted
}

// OutcomesOf counts the calls by how they ended.
func OutcomesOf(h *history.History) []Outcome {
	counts := map[Outcome]*Outcome{}
	first := sorter{}
	for _, c := range answered(h.Calls) {
		o := Outcome{Name: first.name(c), Call: "hold", Why: string(c.Reason)}
		if c.Kind == history.ConfirmHold {
			o.Call = "confirm"
		}
		if counts[o] == nil {
			entry := o
			counts[o] = &entry
		}
		counts[o].Calls++
		counts[o].Units += h.Buyer(c.Buyer).Quantity
	}
	order := []string{granted, known, sold, refused, trouble, noAnswer}
	var all []Outcome
	for _, o := range counts {
		all = append(all, *o)
	}
	slices.SortFunc(all, func(a, b Outcome) int {
		return cmp.Or(
			-cmp.Compare(a.Call, b.Call), // hold, confirm
			cmp.Compare(slices.Index(order, a.Name), slices.Index(order, b.Name)),
			-cmp.Compare(a.Calls, b.Calls),
			cmp.Compare(a.Why, b.Why),
		)
	})
	return all
}

// HoldsOf counts the holds and those of them that were sold.
func HoldsOf(outcomes []Outcome, window time.Duration) Holds {
	h := Holds{Window: window.Seconds()}
	for _, o := range outcomes {
		switch o.Name {
		case granted:
			h.Granted += o.Calls
		case sold:
			h.Confirmed += o.Calls
		}
	}
	return h
}

// StockOf is a reading for the result.
func StockOf(s history.Stock) Stock {
	return Stock{Seconds: s.Answered.Seconds(), Capacity: s.Capacity, Available: s.Available, Held: s.Held, Sold: s.Sold}
}
