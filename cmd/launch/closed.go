package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-inventory/holdfast/cmd/caller"
	"github.com/holdfast-inventory/holdfast/cmd/launch/books"
	"github.com/holdfast-inventory/holdfast/cmd/launch/flags"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/load"
	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
	"github.com/holdfast-inventory/holdfast/cmd/launch/result"
	"github.com/holdfast-inventory/holdfast/cmd/launch/wire"
)

var (
	errNoRound   = errors.New("interrupted before a round was finished: there is nothing to tell")
	errFewRounds = errors.New("interrupted: the rounds that were finished were compared, not all")
)

// closedCommand compares the highest rate with that of a server that decides nothing, round by round in turn.
type closedCommand struct {
	target `embed:""`

	InFlight   int           `name:"in-flight" default:"64" placeholder:"N" help:"Callers, each of which asks again when it is answered."`
	Allotments int           `name:"allotments" default:"1" placeholder:"N" help:"Allotments that are asked for in turn, each a group of its own."`
	Kind       string        `name:"kind" default:"refusals" enum:"refusals,holds" placeholder:"refusals|holds" help:"What is answered."`
	Duration   time.Duration `name:"duration" default:"3s" placeholder:"DURATION" help:"How long each round counts."`
	Warm       time.Duration `name:"warm-up" default:"1s" placeholder:"DURATION" help:"How long it goes on before."`
	Rounds     int           `name:"rounds" default:"3" placeholder:"N" help:"Rounds of each server; the table has the medians."`
	JSON       string        `name:"json" placeholder:"FILE" help:"Write everything that was found there, too."`

	played uint64 // rounds
}

// Validate is called by kong when the command line has been read.
func (c *closedCommand) Validate() error {
	all := []error{
		c.check(),
		flags.Count("--in-flight", c.InFlight, 1, 100_000),
		flags.Count("--allotments", c.Allotments, 1, 10_000),
		flags.Lasts("--duration", c.Duration, 10*time.Millisecond, time.Hour),
		flags.Lasts("--warm-up", c.Warm, 0, time.Hour),
		flags.Count("--rounds", c.Rounds, 1, 1000),
		flags.File("--json", c.JSON),
	}
	if c.Allotments > 1 && len(c.Addr) > 1 {
		all = append(all, errors.New("--allotments and --addr are several, must be one of them: several of either are compared with one"))
	}
	if errors.Join(all...) == nil {
		all = append(all, flags.Lasts("--rounds times --warm-up and --duration", c.counts(), 0, longestCount))
	}
	return errors.Join(all...)
}

// opening is more than one allotment takes to be opened.
const opening = 50 * time.Millisecond

// A hold of the longest sort lasts 24 h, through three times the rounds, the opening of 10,000 allotments and a minute.
const longestCount = 7 * time.Hour

// counts is how long the rounds of one server take.
func (c *closedCommand) counts() time.Duration {
	return time.Duration(c.Rounds) * (c.Warm + c.Duration)
}

// Run measures and prints.
func (c *closedCommand) Run(ctx context.Context, out, errOut io.Writer) error {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	found := &result.Closed{Kind: c.Kind, Started: time.Now(), InFlight: c.InFlight, Seconds: c.Duration.Seconds()}
	err := c.measure(ctx, found, errOut)
	finished := found.Finished()
	found.Interrupted = ctx.Err() != nil && finished < c.Rounds
	switch {
	case found.Interrupted && finished == 0:
		return errors.Join(errNoRound, err)
	case found.Interrupted:
		err = errors.Join(errFewRounds, err)
	case err != nil:
		return err
	}
	found.Compare()
	err = errors.Join(found.Print(out), found.Check(), err)
	if c.JSON != "" {
		err = errors.Join(err, found.Write(c.JSON))
	}
	return err
}

// measure opens the sales, and plays the rounds. That it was interrupted is no error here.
func (c *closedCommand) measure(ctx context.Context, found *result.Closed, errOut io.Writer) (err error) {
	credentials, access, err := c.enter()
	if err != nil {
		return err
	}
	if err := load.Reach(ctx, c.Addr, access); err != nil {
		return unlessDone(ctx, unreachable(err))
	}
	b, allotments, err := c.open(ctx, credentials)
	if err != nil {
		return unlessDone(ctx, err)
	}
	defer b.Close()
	defer func() { err = errors.Join(err, retire(ctx, b, allotments)) }()
	noop, err := startNoop(c.noopHolds())
	if err != nil {
		return err
	}
	defer func() { _ = noop.stop() }() // it has been used
	for n := range c.Rounds {
		fmt.Fprintf(errOut, "round %d of %d\n", n+1, c.Rounds)
		if err := c.playOnEach(ctx, found, noop, allotments, access); err != nil {
			return unlessDone(ctx, err)
		}
	}
	return nil
}

// unlessDone leaves out an error that comes of an interrupt, which is told otherwise.
func unlessDone(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// playOnEach plays a round on each server. Of several servers or allotments the first is also asked alone, to tell what the
// others add.
func (c *closedCommand) playOnEach(
	ctx context.Context, found *result.Closed, noop *noopProcess, allotments []string, access wire.Access,
) error {
	noopPIDs := map[string]int{"server": noop.command.Process.Pid}
	if err := c.round(ctx, &found.Noop, []string{"launch-noop"}, []string{noop.address}, wire.Access{}, noopPIDs); err != nil {
		return err
	}
	if len(c.Addr) > 1 || len(allotments) > 1 {
		if err := c.round(ctx, &found.First, allotments[:1], c.Addr[:1], access, c.watched()); err != nil {
			return err
		}
	}
	return c.round(ctx, &found.Holdfast, allotments, c.Addr, access, c.watched())
}

// retire closes the allotments, also after an interrupt.
func retire(ctx context.Context, b *books.Books, allotments []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createLimit)
	defer cancel()
	return each(ctx, b, allotments, func(ctx context.Context, one *books.Books) error { return one.Retire(ctx) })
}

func (c *closedCommand) noopHolds() int64 {
	if c.Kind == "holds" {
		return math.MaxInt64
	}
	return 0
}

// open opens allotments with enough stock for every hold, or with ten units that are all held.
func (c *closedCommand) open(ctx context.Context, credentials *caller.Credentials) (*books.Books, []string, error) {
	start := time.Now()
	allotments := []string{allotmentID("closed")}
	b, err := books.Open(c.Addr[0], c.AdminAddr, allotments[0], func() time.Duration { return time.Since(start) }, credentials.DialOptions()...)
	if err != nil {
		return nil, nil, err
	}
	for n := 1; n < c.Allotments; n++ {
		allotments = append(allotments, fmt.Sprintf("%s-%d", allotments[0], n))
	}
	if err := c.begin(ctx, b, allotments); err != nil {
		b.Close()
		return nil, nil, err
	}
	return b, allotments, nil
}

// begin opens the sales, if this caller may sell, and every server sells of them.
func (c *closedCommand) begin(ctx context.Context, b *books.Books, allotments []string) error {
	if err := b.MaySell(ctx); err != nil {
		return err
	}
	err := each(ctx, b, allotments, c.create)
	if err == nil {
		err = c.knownEverywhere(ctx, b)
	}
	if errors.Is(err, books.ErrOtherStores) {
		err = errors.Join(err, retire(ctx, b, allotments))
	}
	return err
}

func (c *closedCommand) create(ctx context.Context, b *books.Books) error {
	ctx, cancel := context.WithTimeout(ctx, createLimit)
	defer cancel()
	// No hold lapses while others are opened and it is measured, with each round up to three times, and none is left for long.
	lasts := time.Minute + 3*c.counts() + time.Duration(c.Allotments)*opening
	if c.Kind == "holds" {
		return b.Create(ctx, 1_000_000_000, lasts)
	}
	const capacity = 10
	if err := b.Create(ctx, capacity, lasts); err != nil {
		return err
	}
	// A buyer for each: one alone would be held back by the limit for buyers, for minutes.
	_, err := b.Hold(ctx, history.Buyer{ID: "first-" + b.Allotment, Request: "first", Quantity: capacity})
	return err
}

// each does something with the books of every allotment, of some at a time.
func each(ctx context.Context, b *books.Books, allotments []string, do func(context.Context, *books.Books) error) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(16)
	for _, allotment := range allotments {
		all.Go(func() error { return do(ctx, b.Of(allotment)) })
	}
	return all.Wait()
}

// round plays one more round.
func (c *closedCommand) round(ctx context.Context, rounds *[]result.Round, allotments, addresses []string, access wire.Access, pids map[string]int) error {
	want := codes.OK
	if c.Kind == "refusals" {
		want = codes.FailedPrecondition
	}
	c.played++ // each round has buyers of its own: those of an earlier one have their holds
	loop := &load.Closed{
		Allotments: allotments, Addresses: addresses, Access: access, Connections: c.Connections, InFlight: c.InFlight, Warm: c.Warm, Duration: c.Duration,
		Plan: load.NewPlan(load.Crowd{Seed: c.Seed + c.played}), Want: want,
	}
	watch := machine.NewWatch(pids)
	var before machine.Reading
	var usage machine.Usage
	pace, err := loop.Run(ctx, func() { before = watch.Read() }, func() { usage = watch.Read().Since(before) })
	if err != nil {
		return err
	}
	*rounds = append(*rounds, result.Round{
		Answers: pace.Answers, PerSec: pace.PerSec, P50: pace.P50.Seconds() * 1000, P99: pace.P99.Seconds() * 1000,
		From: pace.From, Odd: pace.Odd, OddText: pace.OddText, Usage: usage,
	})
	return nil
}
