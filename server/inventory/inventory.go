// Package inventory is the use cases of Holdfast: how a hold is taken, becomes a sale or lapses,
// and how whatever others began is brought to its end. It knows the two stores only by their
// interfaces, and neither protobuf nor status codes.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/budget"
	"github.com/holdfast-inventory/holdfast/store/seldom"
)

// Redis is what the use cases need of the hold store.
type Redis interface {
	store.Holds
	store.Confirms
	store.Upkeep
	store.Rebuild
	store.Places
	store.Events
}

// Ledger is what they need of Postgres.
type Ledger interface {
	store.Settler
	store.Sales
	store.Allotments
	store.Feed
	store.Adoption
}

// The defaults of Options.
const (
	DefaultDecisionTime = 90 * time.Millisecond
	DefaultConfirmTime  = 5 * time.Second
	DefaultConfirmLease = time.Second
	DefaultAdoptLease   = 1500 * time.Millisecond
	DefaultRetention    = 24 * time.Hour
)

// Options are what an Inventory needs.
type Options struct {
	Redis      Redis
	Ledger     Ledger
	Background Ledger // the same for loops, which then cannot take connections from sales; nil: Ledger

	DecisionTime time.Duration // a decision on stock not reached by then is ErrUnavailable; 0: DefaultDecisionTime
	ConfirmTime  time.Duration // a confirm past its begin is left to the supervisor then; 0: DefaultConfirmTime
	ConfirmLease time.Duration // a confirm not ended by then is claimed by a supervisor; 0: DefaultConfirmLease
	AdoptLease   time.Duration // an adopt whose claim is not renewed by then may be taken over; 0: DefaultAdoptLease
	Retention    time.Duration // ended holds are remembered for so long; 0: DefaultRetention

	// WithoutEvents and WithoutSweep switch drivers of lapse off: a test's way to see the others alone.
	WithoutEvents, WithoutSweep bool

	Logger *slog.Logger
	Meters metric.MeterProvider
}

// Inventory answers the requests of checkouts and operators.
type Inventory struct {
	redis  Redis
	ledger Ledger
	o      Options
	log    *slog.Logger

	decisions  *budget.Budget
	places     *directory
	adopter    *adopter
	sweeper    *sweeper
	supervisor *supervisor
	snapshots  *snapshots
	metrics    *metrics

	unfinished, unended, unadopted, unhinted seldom.Line

	detached group    // confirms past the point of no return
	drives   sync.Map // string -> true: what supervisors bring to its end, as nameOf names it
}

// New makes an Inventory. Nothing runs until Run.
func New(o Options) (*Inventory, error) {
	setDefault(&o.DecisionTime, DefaultDecisionTime)
	setDefault(&o.ConfirmTime, DefaultConfirmTime)
	setDefault(&o.ConfirmLease, DefaultConfirmLease)
	setDefault(&o.AdoptLease, DefaultAdoptLease)
	setDefault(&o.Retention, DefaultRetention)
	if o.Background == nil {
		o.Background = o.Ledger
	}
	v := &Inventory{redis: o.Redis, ledger: o.Ledger, o: o, log: o.Logger, decisions: budget.New(o.DecisionTime)}
	v.places = newDirectory(o.Redis, o.Ledger, o.DecisionTime)
	v.adopter = newAdopter(v)
	v.sweeper = newSweeper(v)
	v.supervisor = newSupervisor(v)
	v.snapshots = newSnapshots(v)
	v.redis.OnDamage(v.adopter.suspect)
	var err error
	if v.metrics, err = newMetrics(o.Meters, v.supervisor); err != nil {
		return nil, fmt.Errorf("inventory metrics: %w", err)
	}
	return v, nil
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// Run runs the loops until ctx ends, and returns when all of them have stopped.
func (v *Inventory) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { v.keepRunning(ctx, "supervisor", v.supervisor.run) })
	loops.Go(func() { v.keepRunning(ctx, "feed", v.supervisor.feed) })
	loops.Go(func() { v.keepRunning(ctx, "hints", v.supervisor.hint) })
	for range passWorkers {
		loops.Go(func() { v.keepRunning(ctx, "adopts", v.supervisor.tend) })
	}
	if !v.o.WithoutSweep {
		loops.Go(func() { v.keepRunning(ctx, "sweeper", v.sweeper.run) })
	}
	if !v.o.WithoutEvents {
		loops.Go(func() { v.keepRunning(ctx, "listener", v.sweeper.listen) })
	}
	loops.Wait()
}

// keepRunning runs a loop until ctx ends; one that panics is started anew.
func (v *Inventory) keepRunning(ctx context.Context, name string, loop func(context.Context)) {
	for ctx.Err() == nil {
		_ = v.recovered(name, func() error {
			loop(ctx)
			return nil
		})
		_ = pause(ctx, time.Second)
	}
}

// recovered runs f. A panic is logged and becomes an error: the goroutine's work is left to whoever
// would finish it after a crash, but the process and everybody else's requests go on.
func (v *Inventory) recovered(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			v.log.Error("panic", slog.String("in", what), slog.Any("value", p), slog.String("stack", string(debug.Stack())))
			err = fmt.Errorf("%w: panic in %s", store.ErrResultUnknown, what)
		}
	}()
	return f()
}

// Drain waits, until ctx ends, for the confirms that are past the point of no return, and then ends the adopts, which may have much
// left to do. Run is to have ended, since it begins more of both. What is still under way then is ended by another replica's supervisor.
func (v *Inventory) Drain(ctx context.Context) error {
	err := v.detached.wait(ctx) // some may have to wait for an adopt
	v.adopter.stop()
	if err != nil {
		return fmt.Errorf("confirms still under way: %w", err)
	}
	if err := v.adopter.wait(ctx); err != nil {
		return fmt.Errorf("adopts still under way: %w", err)
	}
	return nil
}

// demand waits until an allotment has been adopted.
type demand func(context.Context, store.Place) error

// decision runs f, which decides on stock, within the time for decisions. An allotment that must
// be adopted first is, and f runs again.
func (v *Inventory) decision(ctx context.Context, f func(ctx context.Context) error) error {
	return v.decisionAfter(ctx, v.adopter.demand, f)
}

// decisionAfter is decision with another way to wait for adopts.
func (v *Inventory) decisionAfter(ctx context.Context, adopted demand, f func(ctx context.Context) error) error {
	timed := v.decisions.Context(ctx, time.Now())
	err := after(timed, adopted, f)
	if err != nil && timed.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, store.ErrRebuilding) {
		return fmt.Errorf("%w: not decided within %s", store.ErrUnavailable, v.o.DecisionTime)
	}
	return err
}

// adopted runs f until it meets no allotment that must be adopted.
func (v *Inventory) adopted(ctx context.Context, f func(ctx context.Context) error) error {
	return after(ctx, v.adopter.demand, f)
}

func after(ctx context.Context, adopted demand, f func(ctx context.Context) error) error {
	for {
		err := f(ctx)
		needed, ok := errors.AsType[*store.AdoptNeeded](err)
		if !ok {
			return err
		}
		for _, p := range needed.Places {
			if err := adopted(ctx, p); err != nil {
				return err
			}
		}
	}
}
