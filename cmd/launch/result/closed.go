package result

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
)

// Closed is what closed loops found: rounds of Holdfast and of a server that decides nothing, in turn.
type Closed struct {
	Kind     string    `json:"kind"` // of answers: refusals or holds
	Started  time.Time `json:"started"`
	InFlight int       `json:"in_flight"`
	Seconds  float64   `json:"round_seconds"`
	// Interrupted: it was broken off, and has only the rounds that were finished by then.
	Interrupted bool    `json:"interrupted,omitempty"`
	Holdfast    []Round `json:"holdfast"`
	First       []Round `json:"first,omitempty"` // the first of several servers, or of several allotments, alone
	Noop        []Round `json:"noop"`

	// Of the medians. Unset: it is not known, or there is nothing to compare.
	Rate    *float64 `json:"rate_by_noop,omitempty"`
	CPU     *float64 `json:"cpu_by_noop,omitempty"` // of the server and, if it is known, Redis, for a decision
	Several *float64 `json:"rate_by_first,omitempty"`
	// Fairness is the median of the answers of the server with the fewest to those of the one with the most.
	Fairness *float64 `json:"fewest_by_most,omitempty"`
}

// Round is what was answered in one round.
type Round struct {
	Answers int64            `json:"answers"`
	PerSec  float64          `json:"answers_per_second"`
	P50     float64          `json:"p50_ms"`
	P99     float64          `json:"p99_ms"`
	From    map[string]int64 `json:"answers_by_address"`
	Odd     int64            `json:"odd"`                // answers other than those to be measured
	OddText string           `json:"odd_text,omitempty"` // of one of them
	Usage   machine.Usage    `json:"usage"`
}

// cpu is what a decision cost the processes named, in microseconds.
func (r Round) cpu(names ...string) (micros float64, ok bool) {
	for _, name := range names {
		used, known := r.Usage.CPU[name]
		if !known || r.Answers == 0 {
			return 0, false
		}
		micros += float64(used.Microseconds()) / float64(r.Answers)
	}
	return micros, true
}

// decisionCPU is that of Redis, too, where it is known.
func (r Round) decisionCPU() (micros float64, ok bool) {
	if _, both := r.Usage.CPU["redis"]; both {
		return r.cpu("server", "redis")
	}
	return r.cpu("server")
}

// fairness is the answers of the server with the fewest to those of the one with the most.
func (r Round) fairness() (float64, bool) {
	if len(r.From) < 2 {
		return 0, false
	}
	counts := slices.Sorted(maps.Values(r.From))
	return float64(counts[0]) / float64(counts[len(counts)-1]), r.Answers > 0
}

func perSec(r Round) (float64, bool) { return r.PerSec, true }

// Compare fills in what compares the rounds.
func (c *Closed) Compare() {
	c.Rate = ratio(c.Holdfast, c.Noop, perSec)
	c.CPU = ratio(c.Holdfast, c.Noop, Round.decisionCPU)
	c.Several = ratio(c.Holdfast, c.First, perSec)
	if fair := valuesOf(c.Holdfast, Round.fairness); len(fair) > 0 {
		c.Fairness = new(median(fair))
	}
}

// Finished leaves only rounds that were finished by all servers, and returns how many.
func (c *Closed) Finished() int {
	n := len(c.Holdfast) // they come last
	c.First, c.Noop = c.First[:min(n, len(c.First))], c.Noop[:n]
	return n
}

// Write writes it as JSON.
func (c *Closed) Write(file string) error { return write(file, c) }

// Print writes it for people.
func (c *Closed) Print(out io.Writer) error {
	if c.Interrupted {
		fmt.Fprintln(out, "INTERRUPTED: only the rounds that were finished")
	}
	fmt.Fprintf(out, "%s, %d in flight, %d rounds of %s s each; medians, least and most in brackets\n\n",
		c.Kind, c.InFlight, len(c.Holdfast), figures.Short(c.Seconds))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")+"\t") }
	row("", "answers/s", "p50 ms", "p99 ms", "server us", "server + redis us", "launch us", "steal", "odd answers")
	row(rowOf("holdfast", c.Holdfast)...)
	if len(c.First) > 0 {
		row(rowOf("the first alone", c.First)...)
	}
	row(rowOf("no-op", c.Noop)...)
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, note := range c.notes() {
		if _, err := fmt.Fprintln(out, note); err != nil {
			return err
		}
	}
	return nil
}

func rowOf(name string, rounds []Round) []string {
	odd := int64(0)
	for _, r := range rounds {
		odd += r.Odd
	}
	return []string{
		name,
		spread(rounds, 0, perSec),
		spread(rounds, 2, func(r Round) (float64, bool) { return r.P50, true }),
		spread(rounds, 2, func(r Round) (float64, bool) { return r.P99, true }),
		spread(rounds, 1, func(r Round) (float64, bool) { return r.cpu("server") }),
		spread(rounds, 1, func(r Round) (float64, bool) { return r.cpu("server", "redis") }),
		spread(rounds, 1, func(r Round) (float64, bool) { return r.cpu(machine.Self) }),
		spread(rounds, 3, func(r Round) (float64, bool) {
			if r.Usage.Steal == nil {
				return 0, false
			}
			return *r.Usage.Steal, true
		}),
		figures.Count(odd),
	}
}

// notes are what does not fit into the table.
func (c *Closed) notes() []string {
	var lines []string
	if c.Rate != nil {
		lines = append(lines, fmt.Sprintf("rate: %.2f of the no-op's", *c.Rate))
	}
	if c.CPU != nil {
		lines = append(lines, fmt.Sprintf("CPU of the server, and of Redis if it is known, for a decision: %.2f times the no-op's", *c.CPU))
	}
	if c.Several != nil {
		lines = append(lines, fmt.Sprintf("rate: %.2f of the first's alone", *c.Several))
	}
	if c.Fairness != nil {
		lines = append(lines, fmt.Sprintf("the server with the fewest answers has %.2f of those of the one with the most; in the last round:", *c.Fairness))
		last := c.Holdfast[len(c.Holdfast)-1].From
		for _, address := range slices.Sorted(maps.Keys(last)) {
			lines = append(lines, fmt.Sprintf("  %s: %s", address, figures.Count(last[address])))
		}
	}
	return lines
}

// Check is an error if there are answers that are not what was to be measured.
func (c *Closed) Check() error {
	for _, r := range slices.Concat(c.Holdfast, c.First, c.Noop) {
		if r.Odd > r.Answers/100 {
			return fmt.Errorf("%d of %d answers were others than those to be measured, such as %s", r.Odd, r.Answers, r.OddText)
		}
	}
	return nil
}

// spread is the median of the rounds with the least and the most.
func spread(rounds []Round, digits int, of func(Round) (float64, bool)) string {
	values := valuesOf(rounds, of)
	if len(values) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.*f (%.*f-%.*f)", digits, median(values), digits, values[0], digits, values[len(values)-1])
}

// ratio compares medians; nil if one of them is not known, or nothing was answered.
func ratio(ours, theirs []Round, of func(Round) (float64, bool)) *float64 {
	a, b := valuesOf(ours, of), valuesOf(theirs, of)
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	r := median(a) / median(b)
	if math.IsNaN(r) || math.IsInf(r, 0) {
		return nil
	}
	return &r
}

func valuesOf(rounds []Round, of func(Round) (float64, bool)) []float64 {
	var values []float64
	for _, r := range rounds {
		if v, ok := of(r); ok {
			values = append(values, v)
		}
	}
	slices.SortFunc(values, cmp.Compare[float64])
	return values
}

// median of sorted values.
func median(values []float64) float64 {
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
