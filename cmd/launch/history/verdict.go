package history

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
)

const mostExamples = 5

// Verdict says which promises were kept.
type Verdict struct {
	Promises []*Promise `json:"promises"`
	// Peak is the most units that must have been held or sold at one moment, by what callers were told. More than there are
	// break R3: not all of these holds can become sales. What is oversold is sold.
	Peak int64 `json:"peak"`
	// PeakAt is when that was so first.
	PeakAt time.Duration `json:"peak_at_ns"`
	// Oversold is how many more units were sold than there were: by what callers were told, in a reading, or in the end.
	Oversold int64 `json:"oversold"`
	// Refusals is how many requests were told SOLD_OUT or ALL_HELD.
	Refusals int64 `json:"refusals"`
	// ValidRefusals is how many of those were refused although enough was free all the time.
	ValidRefusals int64 `json:"valid_refusals"`
	// Lost is how many acknowledged holds a fault that may lose them has lost, as far as can be seen.
	Lost int64 `json:"lost,omitempty"`
	// Forgiven is how often a promise was broken in a way that is forgiven, by the part of the text that says so.
	Forgiven map[string]int `json:"forgiven,omitempty"`
}

// Promise is one of R1 to R6.
type Promise struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Kept     bool     `json:"kept"`
	Unknown  string   `json:"unknown,omitempty"`  // why it could not be found out whether it was kept
	Facts    string   `json:"facts"`              // what was looked at
	Breaches int      `json:"breaches"`           // how often it was broken
	Examples []string `json:"examples,omitempty"` // the first of them: what and where

	forgives func(breach string) bool // and counts it
}

// Kept tells whether every promise is known to have been kept.
func (v *Verdict) Kept() bool {
	return !slices.ContainsFunc(v.Promises, func(p *Promise) bool { return !p.Kept })
}

// Broken tells whether a promise is known to have been broken.
func (v *Verdict) Broken() bool {
	return slices.ContainsFunc(v.Promises, func(p *Promise) bool { return p.Breaches > 0 })
}

func (p *Promise) broken(format string, args ...any) {
	breach := fmt.Sprintf(format, args...)
	if p.forgives(breach) {
		return
	}
	p.Kept = false
	p.Breaches++
	if len(p.Examples) < mostExamples {
		p.Examples = append(p.Examples, breach)
	}
}

// trial is a history being judged.
type trial struct {
	*History
	*Verdict
	lives     []*life
	possible  *steps
	certain   *steps
	mostSold  *steps
	confirmed int64 // units that were sold as far as buyers were told

	oversold, refusal, hold, once, fenced, conserved *Promise
}

// forgives tells whether a breach is forgiven, and counts it then.
func (t *trial) forgives(breach string) bool {
	for _, part := range t.Forgive {
		if strings.Contains(breach, part) {
			t.Forgiven[part]++
			return true
		}
	}
	return false
}

// Judge looks for broken promises.
func Judge(h *History) *Verdict {
	t := &trial{History: h, Verdict: &Verdict{Forgiven: map[string]int{}}, lives: h.lives()}
	t.possible, t.certain, t.mostSold = possibly(t.lives), certainly(t.lives), soldAtMost(t.lives)
	for _, p := range []struct {
		to       **Promise
		id, name string
	}{
		{&t.oversold, "R1", "never oversold"},
		{&t.refusal, "R2", "no valid refusal"},
		{&t.hold, "R3", "a hold is a promise"},
		{&t.once, "R4", "at most once"},
		{&t.fenced, "R5", "fenced"},
		{&t.conserved, "R6", "conservation"},
	} {
		*p.to = &Promise{ID: p.id, Name: p.name, Kept: true, forgives: t.forgives}
		t.Promises = append(t.Promises, *p.to)
	}
	t.judgeStock()
	t.judgeRefusals()
	t.judgeHolds()
	t.judgeRepeats()
	t.judgeTokens()
	t.judgeEnd()
	return t.Verdict
}

// call names a call for people.
func (t *trial) call(c *Call) string {
	b := t.Buyer(c.Buyer)
	what := "request"
	if c.Kind == ConfirmHold {
		what = "confirm"
	}
	return fmt.Sprintf("%s of buyer %s (sent at %s, answered at %s)", what, b.ID, seconds(c.Sent), seconds(c.Answered))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.6f s", d.Seconds()) }

// judgeStock: R1 while it went on, and R6 in each reading.
func (t *trial) judgeStock() {
	for i := range t.Stocks {
		t.judgeReading(&t.Stocks[i])
	}
	t.conserved.Facts = fmt.Sprintf("%s readings add up", figures.Count(len(t.Stocks)))
}

func (t *trial) judgeReading(s *Stock) {
	where := "the reading sent at " + seconds(s.Sent)
	t.judgeOversold(where, s.Sold)
	sum := s.Available + s.Held + s.Sold
	// What is available is never shown below 0.
	if s.Capacity != t.Capacity || sum < s.Capacity || (sum > s.Capacity && s.Available > 0) {
		t.conserved.broken("%s: %d available + %d held + %d sold of %d, and the capacity is %d",
			where, s.Available, s.Held, s.Sold, s.Capacity, t.Capacity)
	}
	if least := t.certain.over(s.Sent, s.Answered); s.Available > t.Capacity-least {
		t.conserved.broken("%s: %d available, though at least %d of %d were held or sold", where, s.Available, least, t.Capacity)
	}
	if most := t.possible.over(s.Sent, s.Answered); s.Held+s.Sold > most {
		t.conserved.broken("%s: %d held + %d sold, though at most %d had been taken and not lapsed", where, s.Held, s.Sold, most)
	}
	if most := t.mostSold.over(s.Sent, s.Answered); s.Sold > most {
		t.conserved.broken("%s: %d sold, though at most %d had been confirmed", where, s.Sold, most)
	}
}

// judgeRefusals: R2.
func (t *trial) judgeRefusals() {
	for _, c := range t.Calls {
		if c.Kind != CreateHold || c.Outcome != Refused {
			continue
		}
		if c.Reason != SoldOut && c.Reason != AllHeld {
			t.refusal.broken("%s: refused with %s, for which there was no cause", t.call(c), c.Reason)
			continue
		}
		t.Refusals++
		quantity := t.Buyer(c.Buyer).Quantity
		if free := t.Capacity - t.possible.over(c.Sent, c.Answered); free >= quantity {
			t.ValidRefusals++
			t.refusal.broken("%s: %d refused with %s, though at least %d were free all the time", t.call(c), quantity, c.Reason, free)
		}
		if problem := t.disproved(c, quantity); problem != "" {
			t.refusal.broken("%s: %s %s (%d sold, %d held of %d, %d asked for)",
				t.call(c), c.Reason, problem, c.Numbers.Sold, c.Numbers.Held, c.Numbers.Capacity, c.Numbers.Requested)
		}
	}
	t.refusal.Facts = fmt.Sprintf("%s refused, %s of them while enough was free", figures.Count(t.Refusals), figures.Count(t.ValidRefusals))
}

// disproved says what is wrong with the numbers of a refusal; nothing if they prove it.
func (t *trial) disproved(c *Call, quantity int64) string {
	n := c.Numbers
	unsold := n.Capacity - n.Sold
	switch {
	case n.Capacity != t.Capacity:
		return fmt.Sprintf("with another capacity than %d", t.Capacity)
	case n.Requested != quantity:
		return fmt.Sprintf("of another quantity than %d", quantity)
	case n.Sold < 0 || n.Held < 0:
		return "with a number below 0"
	case n.Sold+n.Held > n.Capacity:
		return "with more sold and held than there is"
	case c.Reason == SoldOut && unsold >= quantity:
		return "though enough is unsold by its own numbers"
	case c.Reason == AllHeld && unsold < quantity:
		return "though too little is unsold by its own numbers"
	case c.Reason == AllHeld && unsold-n.Held >= quantity:
		return "though enough is free by its own numbers"
	}
	if most := t.mostSold.over(c.Sent, c.Answered); n.Sold > most {
		return fmt.Sprintf("though at most %d had been confirmed", most)
	}
	if most := t.possible.over(c.Sent, c.Answered); n.Sold+n.Held > most {
		return fmt.Sprintf("though at most %d had been taken", most)
	}
	return ""
}
