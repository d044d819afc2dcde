package cases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/cmd/launch/books"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/load"
)

// manyHolds is the case of holds that are many, and last. They are there for an hour, so the world is its own.
func manyHolds() Case {
	return Case{
		Row: record.Row{
			Case: "F20", Title: "100,000 live holds", Deployment: standalone,
			Fault:    "100,000 holds of another allotment (short: 2,000) beside, which last, for 3 s (long: 10 s)",
			Expected: "what lapses is sold again as soon as its deadline has passed, also the last units of the other allotment; scripts are quick",
		},
		Proof:   []string{"live holds", "lapsed meanwhile", "last units sold again"},
		Guards:  []string{"need", "sweep", "reads", "subscription"},
		Prepare: func(*world.Settings) {},
		Before:  holdMany, Inject: sellBesideMany, Check: countLapses,
	}
}

const (
	// fillLimit is for 100,000 holds: a busy machine of two cores makes more than 1,000 a second.
	fillLimit = 2 * time.Minute
	// The last units, of which each is held for as short as can be, and then by another buyer.
	lastUnits = 50
	lastLasts = time.Second
	// slowScript is what a script may take at p99. On a machine that is busy with other things, too, it takes about 1 ms.
	slowScript = 5 * time.Millisecond
)

// crowded are the books of the allotment with the many holds.
func (s *Scene) crowded() *books.Books { return s.books.Of(s.Allotment + "-many") }

// holdMany takes all of another allotment for an hour, and adds some units, which are held for a moment at a time.
func holdMany(ctx context.Context, s *Scene) error {
	wanted := int64(2_000)
	if s.Long {
		wanted = 100_000
	}
	ctx, cancel := context.WithTimeoutCause(ctx, fillLimit, fmt.Errorf("%d holds were not there after %v", wanted, fillLimit))
	defer cancel()
	other := s.crowded()
	if err := other.Create(ctx, wanted, time.Hour); err != nil {
		return err
	}
	if err := s.fill(ctx, other, wanted); err != nil {
		return err
	}
	s.Hit("live holds", int(wanted))
	return errors.Join(other.Shorten(ctx, lastLasts), other.Grow(ctx, lastUnits, "last"))
}

// fill takes units, one for each buyer, until so many are held.
func (s *Scene) fill(ctx context.Context, other *books.Books, wanted int64) error {
	crowd := load.Closed{
		Allotments: []string{other.Allotment}, Addresses: s.World.Addresses(), Connections: len(s.Servers), InFlight: 100,
		Duration: 500 * time.Millisecond, Plan: load.NewPlan(load.Crowd{Seed: s.Rand.Uint64()}),
	}
	for held := int64(0); held < wanted; {
		if _, err := crowd.Run(ctx, func() {}, func() {}); err != nil {
			return fmt.Errorf("%d were held last: %w", held, cmp.Or(context.Cause(ctx), err))
		}
		if stock, err := other.Stock(ctx); err == nil { // a busy server is asked again
			held = stock.Held
		}
	}
	return nil
}

func sellBesideMany(ctx context.Context, s *Scene) error {
	if err := s.Client.ConfigResetStat(ctx).Err(); err != nil {
		return fmt.Errorf("reset what Redis counts: %w", err)
	}
	healed := s.Fault("a great many live holds", false)
	selling, stop := context.WithCancel(ctx)
	defer stop()
	var sellers sync.WaitGroup
	for unit := range lastUnits {
		sellers.Go(func() { s.sellAgain(selling, unit) })
	}
	err := s.Last(ctx, 3*time.Second, 10*time.Second)
	stop()
	sellers.Wait()
	if err != nil {
		return err
	}
	healed()
	return s.timeScripts(ctx)
}

// sellAgain holds one of the last units for one buyer after the other, each as soon as the time of the one before is over.
// There are as many who ask as there are such units, so that each finds one; they ask one after the other, as a script that
// decides for many at once is one.
func (s *Scene) sellAgain(ctx context.Context, unit int) {
	other := s.crowded()
	if pause(ctx, time.Duration(unit)*lastLasts/lastUnits) != nil {
		return
	}
	for n := 0; ; n++ {
		hold, err := other.Hold(ctx, history.Buyer{ID: fmt.Sprintf("last-%d-%d", unit, n), Request: "request", Quantity: 1})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.Wrong("one of the last units was not to be had though its deadline had passed: " + err.Error())
			return
		case n > 0:
			s.Hit("last units sold again", 1)
		}
		if pause(ctx, hold.Remaining+time.Millisecond) != nil { // what is left is told in whole milliseconds
			return
		}
	}
}

// timeScripts looks at how long Redis took for scripts since its statistics were reset.
func (s *Scene) timeScripts(ctx context.Context) error {
	text, err := s.Client.Info(ctx, "latencystats").Result()
	if err != nil {
		return fmt.Errorf("how long scripts take: %w", err)
	}
	_, percentiles, _ := strings.Cut(text, "latency_percentiles_usec_evalsha:")
	_, value, _ := strings.Cut(percentiles, "p99=")
	value, _, _ = strings.Cut(value, ",")
	micros, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return fmt.Errorf("how long scripts take: %w", err)
	}
	p99 := time.Duration(micros * float64(time.Microsecond))
	s.Hit("µs at p99 of the scripts", int(p99.Microseconds()))
	if p99 > slowScript {
		s.Wrong(fmt.Sprintf("scripts took %v at p99, at most %v is asked for", p99, slowScript))
	}
	return nil
}
