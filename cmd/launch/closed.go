package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-inventory/holdfast/cmd/launch/books"
	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/load"
	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
)

// closedCommand compares the highest rate with that of a server that decides nothing, round by round in turn.
type closedCommand struct {
	target `embed:""`

	InFlight int           `name:"in-flight" default:"64" placeholder:"N" help:"Callers, each of which asks again when it is answered."`
	Kind     string        `name:"kind" default:"refusals" enum:"refusals,holds" placeholder:"refusals|holds" help:"What is answered."`
	Duration time.Duration `name:"duration" default:"3s" placeholder:"DURATION" help:"How long each round counts."`
	Warm     time.Duration `name:"warm-up" default:"1s" placeholder:"DURATION" help:"How long it goes on before."`
	Rounds   int           `name:"rounds" default:"3" placeholder:"N" help:"Rounds of each server; the table has the medians."`
}

// Validate is called by kong when the command line has been read.
func (c *closedCommand) Validate() error {
	all := []error{c.check()}
	if c.InFlight < 1 || c.InFlight > 100_000 {
		all = append(all, errors.New("--in-flight must be from 1 to 100,000"))
	}
	if c.Duration < 10*time.Millisecond || c.Warm < 0 || c.Rounds < 1 {
		all = append(all, errors.New("--duration must be at least 10ms, --warm-up not below 0, --rounds at least 1"))
	}
	return errors.Join(all...)
}

// round is what one server did in one round.
type round struct {
	load.Pace
	usage machine.Usage
}

// cpu is what a decision cost the processes named, in microseconds.
func (r round) cpu(names ...string) (micros float64, ok bool) {
	for _, name := range names {
		used, known := r.usage.CPU[name]
		if !known || r.Answers == 0 {
			return 0, false
		}
		micros += float64(used.Microseconds()) / float64(r.Answers)
	}
	return micros, true
}

// Run measures and prints.
func (c *closedCommand) Run(ctx context.Context, out, errOut io.Writer) error {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	noop, err := startNoop(c.noopHolds())
	if err != nil {
		return err
	}
	defer func() { _ = noop.stop() }() // it has been used
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	var ours, theirs []round
	for n := range c.Rounds {
		fmt.Fprintf(errOut, "round %d of %d\n", n+1, c.Rounds)
		nothing, err := c.round(ctx, n, "launch-noop", []string{noop.address}, map[string]int{"server": noop.command.Process.Pid})
		if err != nil {
			return err
		}
		decided, err := c.round(ctx, n, b.Allotment, c.Addr, c.watched())
		if err != nil {
			return err
		}
		ours, theirs = append(ours, decided), append(theirs, nothing)
	}
	if err := b.Retire(ctx); err != nil {
		return err
	}
	return c.print(out, ours, theirs)
}

func (c *closedCommand) noopHolds() int64 {
	if c.Kind == "holds" {
		return math.MaxInt64
	}
	return 0
}

// open opens enough stock for every hold, or ten units that are all held.
func (c *closedCommand) open(ctx context.Context) (*books.Books, error) {
	start := time.Now()
	b, err := books.Open(c.Addr[0], c.AdminAddr, allotmentID("closed"), func() time.Duration { return time.Since(start) })
	if err != nil {
		return nil, err
	}
	capacity := int64(1_000_000_000)
	if c.Kind == "refusals" {
		capacity = 10
	}
	ctx, cancel := context.WithTimeout(ctx, createLimit)
	defer cancel()
	err = b.Create(ctx, capacity, time.Hour)
	if err == nil && c.Kind == "refusals" {
		err = b.Hold(ctx, history.Buyer{ID: "first", Request: "first", Quantity: capacity})
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (c *closedCommand) round(ctx context.Context, n int, allotment string, addresses []string, pids map[string]int) (round, error) {
	want := codes.OK
	if c.Kind == "refusals" {
		want = codes.FailedPrecondition
	}
	loop := &load.Closed{
		Allotment: allotment, Addresses: addresses, Connections: c.Connections, InFlight: c.InFlight, Warm: c.Warm, Duration: c.Duration,
		Plan: load.NewPlan(load.Crowd{Seed: c.Seed + uint64(n)}), Want: want, //nolint:gosec // not below 0
	}
	watch := machine.NewWatch(pids)
	var before machine.Reading
	var r round
	var err error
	r.Pace, err = loop.Run(ctx, func() { before = watch.Read() }, func() { r.usage = watch.Read().Since(before) })
	return r, err
}

func (c *closedCommand) print(out io.Writer, ours, theirs []round) error {
	fmt.Fprintf(out, "%s, %d in flight, %d rounds of %v each; medians, least and most in brackets\n\n", c.Kind, c.InFlight, c.Rounds, c.Duration)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")+"\t") }
	row("", "answers/s", "p50 ms", "p99 ms", "server us", "server + redis us", "launch us", "steal", "odd answers")
	for _, r := range []struct {
		name   string
		rounds []round
	}{{"holdfast", ours}, {"no-op", theirs}} {
		odd := int64(0)
		for _, one := range r.rounds {
			odd += one.Odd
		}
		row(r.name,
			spread(r.rounds, 0, func(o round) (float64, bool) { return o.PerSec, true }),
			spread(r.rounds, 2, func(o round) (float64, bool) { return o.P50.Seconds() * 1000, true }),
			spread(r.rounds, 2, func(o round) (float64, bool) { return o.P99.Seconds() * 1000, true }),
			spread(r.rounds, 1, func(o round) (float64, bool) { return o.cpu("server") }),
			spread(r.rounds, 1, func(o round) (float64, bool) { return o.cpu("server", "redis") }),
			spread(r.rounds, 1, func(o round) (float64, bool) { return o.cpu(machine.Self) }),
			spread(r.rounds, 3, func(o round) (float64, bool) {
				if o.usage.Steal == nil {
					return 0, false
				}
				return *o.usage.Steal, true
			}),
			figures.Count(odd))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nrate: %.2f of the no-op's\n", ratio(ours, theirs, func(o round) (float64, bool) { return o.PerSec, true }))
	cost := ratio(ours, theirs, func(o round) (float64, bool) {
		_, both := o.usage.CPU["redis"]
		if both {
			return o.cpu("server", "redis")
		}
		return o.cpu("server")
	})
	if !math.IsNaN(cost) {
		fmt.Fprintf(out, "CPU of %s for a decision: %.2f times the no-op's\n", strings.Join(slices.Sorted(maps.Keys(c.watched())), " and "), cost)
	}
	return oddError(ours, theirs)
}

// oddError is about answers that are not what was to be measured.
func oddError(all ...[]round) error {
	for _, r := range slices.Concat(all...) {
		if r.Odd > r.Answers/100 {
			return fmt.Errorf("%d of %d answers were others than those to be measured, such as %s", r.Odd, r.Answers, r.OddText)
		}
	}
	return nil
}

// spread is the median of the rounds with the least and the most.
func spread(rounds []round, digits int, of func(round) (float64, bool)) string {
	values := valuesOf(rounds, of)
	if len(values) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.*f (%.*f-%.*f)", digits, median(values), digits, values[0], digits, values[len(values)-1])
}

func ratio(ours, theirs []round, of func(round) (float64, bool)) float64 {
	a, b := valuesOf(ours, of), valuesOf(theirs, of)
	if len(a) == 0 || len(b) == 0 {
		return math.NaN()
	}
	return median(a) / median(b)
}

func valuesOf(rounds []round, of func(round) (float64, bool)) []float64 {
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
