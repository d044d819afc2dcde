package compare

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// tally is what the answers of one run come to.
type tally struct {
	Decisions     int
	Sold          int64 // items that buyers were told they have
	Oversold      int64 // of them, more than there were
	Refused       int
	ValidRefusals int // requests refused although enough was free
	Took          time.Duration
	SoldOut       time.Duration // when as much was sold as there was; 0: it never was
	P50, P99      time.Duration
}

// count makes the tally of the answers to a demand of that many requests. Each must have been answered once.
func count(capacity int64, requests int, answers []answer) (tally, error) {
	if err := checkComplete(requests, answers); err != nil {
		return tally{}, err
	}
	t := tally{Decisions: len(answers), ValidRefusals: validRefusals(capacity, answers)}
	times := make([]time.Duration, len(answers))
	first, last := answers[0].Start, answers[0].End
	for i, a := range answers {
		if a.Got {
			t.Sold += a.Quantity
		} else {
			t.Refused++
		}
		times[i] = a.End - a.Start
		first, last = min(first, a.Start), max(last, a.End)
	}
	slices.Sort(times)
	t.P50, t.P99 = times[len(times)/2], times[len(times)*99/100]
	t.Took = last - first
	t.Oversold = max(0, t.Sold-capacity)
	if end, ok := soldOut(capacity, answers); ok {
		t.SoldOut = end - first
	}
	return t, nil
}

func checkComplete(requests int, answers []answer) error {
	if len(answers) == 0 {
		return fmt.Errorf("no answers to %d requests", requests)
	}
	seen := make([]bool, requests)
	for _, a := range answers {
		if a.Request < 0 || a.Request >= requests || seen[a.Request] || a.End < a.Start {
			return fmt.Errorf("request %d of %d was answered twice, before it was asked, or never made", a.Request, requests)
		}
		seen[a.Request] = true
	}
	if len(answers) != requests {
		return fmt.Errorf("%d answers to %d requests", len(answers), requests)
	}
	return nil
}

// validRefusals counts the refused requests that should have been served. Nothing comes back in a run, so what is free only
// falls: a refusal is wrong if enough was free when it was answered. Then at most those sales had taken effect that had been
// asked for by that time. So what is counted is certain, and a wrong refusal that may have been right is not counted.
func validRefusals(capacity int64, answers []answer) int {
	sales, refusals := split(answers)
	slices.SortFunc(sales, func(a, b answer) int { return cmp.Compare(a.Start, b.Start) })
	slices.SortFunc(refusals, func(a, b answer) int { return cmp.Compare(a.End, b.End) })
	wrong, next, free := 0, 0, capacity
	for _, r := range refusals {
		for ; next < len(sales) && sales[next].Start <= r.End; next++ {
			free -= sales[next].Quantity
		}
		if free >= r.Quantity {
			wrong++
		}
	}
	return wrong
}

// soldOut is when the buyer was answered who took the last of the stock.
func soldOut(capacity int64, answers []answer) (time.Duration, bool) {
	sales, _ := split(answers)
	slices.SortFunc(sales, func(a, b answer) int { return cmp.Compare(a.End, b.End) })
	for _, a := range sales {
		if capacity -= a.Quantity; capacity <= 0 {
			return a.End, true
		}
	}
	return 0, false
}

func split(answers []answer) (sales, refusals []answer) {
	for _, a := range answers {
		if a.Got {
			sales = append(sales, a)
		} else {
			refusals = append(refusals, a)
		}
	}
	return sales, refusals
}

// rate is in decisions per second.
func (t tally) rate() float64 { return float64(t.Decisions) / t.Took.Seconds() }
