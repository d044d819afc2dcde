package window

import (
	"math"
	"time"
)

// Launch is the demand that meets the stock.
type Launch struct {
	Capacity int64
	Requests int64 // that come in Duration, evenly
	Duration time.Duration
	Items    float64 // that a request asks for, on average
}

// Wanted is how many items are asked for in all.
func (l Launch) Wanted() float64 { return float64(l.Requests) * l.Items }

// Demand is how many times the stock is asked for.
func (l Launch) Demand() float64 { return l.Wanted() / float64(l.Capacity) }

// RequestsPerSecond is the rate of the rush.
func (l Launch) RequestsPerSecond() float64 { return float64(l.Requests) / l.Duration.Seconds() }

// Drains tells whether the rush takes the whole stock.
func (l Launch) Drains() bool { return l.Demand() >= 1 }

// DrainTime is how long the stock lasts at the rate of the rush.
func (l Launch) DrainTime() time.Duration {
	return time.Duration(float64(l.Capacity) / (l.RequestsPerSecond() * l.Items) * float64(time.Second))
}

// RequestsByDrain is how many requests have come when the stock is gone.
func (l Launch) RequestsByDrain() int64 { return int64(math.Round(float64(l.Capacity) / l.Items)) }

// Held is how many items the first round of holds takes.
func (l Launch) Held() float64 { return min(float64(l.Capacity), l.Wanted()) }

// Round is what becomes of the first round of holds.
type Round struct {
	Sold   int64
	Back   int64 // lapses, for the second round
	Wasted int64 // item-seconds that were held and not paid for, if nobody cancels before the deadline
}

// FirstRound is what becomes of the first holds with this window.
func (l Launch) FirstRound(w Window) Round {
	held := int64(math.Round(l.Held()))
	sold := int64(math.Round(l.Held() * w.Completion))
	return Round{
		Sold: sold, Back: held - sold,
		Wasted: int64(math.Round(float64(held-sold) * w.Length.Seconds())),
	}
}
