package inventory

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	adoptPoll  = 10 * time.Millisecond // between looks at another replica's adopt, and
	adoptYield = 5 * time.Second       // after so long of that its turn goes to another allotment
	adoptMost  = 8                     // at a time on one replica
	lostLogged = 100                   // most holds without their sale that are named in the log
	// adoptWaiters is how many callers who ask for holds may wait for adopts, for each processor: fewer than the door lets in
	// (server/door.go), so that an allotment that cannot be adopted, as while its row in Postgres is locked, keeps nobody out of the others. Of an
	// allotment there are never more than there is room left for others.
	adoptWaiters = 400
)

// adopter rebuilds allotments' Redis state under a raised epoch. Of those who meet the same need,
// on this replica one works and the others wait; of several replicas one wins the claim.
type adopter struct {
	v *Inventory

	mu       sync.Mutex
	running  map[string]*adoption
	waiting  int // callers who ask for holds, of all that are running
	most     int // that may wait
	backoffs backoffs
	turns    turns
	stopped  bool // none is begun any more
	finished group
}

type adoption struct {
	turn    turn
	cancel  context.CancelFunc
	done    chan struct{}
	waiting int // callers who ask for holds
	err     error
	needed  bool // it, or another replica meanwhile, rebuilt the state; false: that was in force already
}

// errCrowded is for callers that would have to wait for an adopt for which too many wait.
var errCrowded = fmt.Errorf("%w: too many wait for it", store.ErrRebuilding)

// errElsewhere ends an adopt that another replica is at, if nobody here waits for it or its turn has lasted long enough.
var errElsewhere = errors.New("another replica adopts it")

// errStopped is for those that wait for an adopt on a replica that stops.
var errStopped = fmt.Errorf("%w: this replica stops", store.ErrRebuilding)

func newAdopter(v *Inventory) *adopter {
	return &adopter{
		v: v, running: map[string]*adoption{}, most: adoptWaiters * runtime.GOMAXPROCS(0), turns: turns{most: adoptMost},
	}
}

// demand waits until the allotment has been adopted, by whomever. Its adopt comes before those that no caller waits for.
func (a *adopter) demand(ctx context.Context, p store.Place) error {
	return a.asked(ctx, p, false, await)
}

// demandInCrowd is demand for one of many who ask for holds, if there is room for it to wait.
func (a *adopter) demandInCrowd(ctx context.Context, p store.Place) error {
	return a.asked(ctx, p, false, a.awaitInCrowd)
}

// renew is demand for an allotment whose state Redis itself holds for good.
func (a *adopter) renew(ctx context.Context, p store.Place) error {
	return a.asked(ctx, p, true, await)
}

func (a *adopter) asked(ctx context.Context, p store.Place, renew bool, wait func(context.Context, *adoption) error) error {
	for {
		run := a.start(p, renew)
		a.turns.ask(&run.turn)
		err := wait(ctx, run)
		if errors.Is(err, errElsewhere) { // it had ended before it was asked for, or is to wait for another turn
			continue
		}
		if err == nil && renew && !run.needed { // it was begun by those who need no more than a state that is in force
			continue
		}
		return err
	}
}

// tend adopts an allotment that no caller waits for, and returns when that has been done or left to another replica.
func (a *adopter) tend(ctx context.Context, p store.Place) { _ = await(ctx, a.start(p, false)) }

// suspect renews an allotment that something is wrong with, some time later if that was tried lately.
func (a *adopter) suspect(p store.Place) {
	if a.backoffs.due(p.Allotment, time.Now()) {
		a.start(p, true)
	}
}

// wait returns when no adopt is running, or with ctx's error when that ends first.
func (a *adopter) wait(ctx context.Context) error { return a.finished.wait(ctx) }

// stop ends the adopts that are running, however much of them is left, and begins no more: another replica takes them over
// when their claims' leases are out.
func (a *adopter) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	for _, run := range a.running {
		run.cancel()
	}
}

func (a *adopter) awaitInCrowd(ctx context.Context, run *adoption) error {
	if !a.count(run, 1) {
		return errCrowded
	}
	defer a.count(run, -1)
	return await(ctx, run)
}

// count counts callers in or out. False: there is no room for them.
func (a *adopter) count(run *adoption, callers int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if callers > 0 && run.waiting+callers > a.most-a.waiting-callers {
		return false
	}
	run.waiting += callers
	a.waiting += callers
	return true
}

func await(ctx context.Context, run *adoption) error {
	select {
	case <-run.done:
		return run.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrRebuilding, ctx.Err())
	}
}

// start begins an adopt, or joins the one that is running. It may take as long as the allotment has state: it ends when a step
// fails, each of which the stores give a time of its own, and when this replica stops.
func (a *adopter) start(p store.Place, renew bool) *adoption {
	a.mu.Lock()
	defer a.mu.Unlock()
	if run := a.running[p.Allotment]; run != nil {
		return run
	}
	ctx, cancel := context.WithCancel(context.Background())
	run := &adoption{turn: turn{begin: make(chan struct{})}, cancel: cancel, done: make(chan struct{})}
	if a.stopped {
		cancel()
		run.err = errStopped
		close(run.done)
		return run
	}
	a.running[p.Allotment] = run
	a.finished.Go(func() {
		defer cancel()
		a.turns.take(&run.turn)
		run.err = a.v.recovered("adopt", func() error { return a.adopt(ctx, p.Allotment, renew, run) })
		if run.err != nil && ctx.Err() != nil {
			run.err = errStopped
		}
		a.say(p, run.err)
		a.turns.give(&run.turn)
		a.mu.Lock()
		delete(a.running, p.Allotment)
		a.mu.Unlock()
		close(run.done)
	})
	return run
}

// say logs why an adopt failed, if that is trouble.
func (a *adopter) say(p store.Place, err error) {
	var gone *retiredError
	if err == nil || errors.Is(err, errElsewhere) || errors.Is(err, errStopped) || errors.As(err, &gone) {
		return
	}
	a.v.unadopted.Log(a.v.log, slog.LevelWarn, time.Now(), "an allotment could not be adopted yet", slog.String("allotment", p.Allotment), slog.Any("error", err))
}

// adopt takes the four steps, from the start whenever somebody else was quicker. While another replica is at it, it waits
// only if a caller does, and then only so long that others get their turns.
func (a *adopter) adopt(ctx context.Context, id string, renew bool, run *adoption) error {
	start, claim := time.Now(), rand.Text()
	for {
		row, err := a.v.o.Background.Allotment(ctx, id)
		if err != nil {
			return err
		}
		if row.Retired {
			return &retiredError{row: row}
		}
		past, left, err := a.v.redis.AdoptBegin(ctx, row.Place, claim, a.v.o.AdoptLease, renew)
		if err != nil {
			if renew { // it may have begun all the same, and shut what was in force
				a.drop(ctx, &rebuild{v: a.v, row: row, claim: claim})
			}
			return err
		}
		if past == nil && left == 0 {
			return nil
		}
		if past == nil { // another replica is at it, and what it makes serves us too
			run.needed = true
			if !a.turns.isAsked(&run.turn) || time.Since(start) > adoptYield {
				return errElsewhere
			}
			renew = false
			if err := pause(ctx, min(max(left, time.Millisecond), adoptPoll)); err != nil {
				return err
			}
			continue
		}
		run.needed = true
		r := &rebuild{v: a.v, row: row, claim: claim, past: *past}
		err = a.claimed(ctx, r)
		if errors.Is(err, store.ErrStale) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			a.drop(ctx, r)
			return fmt.Errorf("adopt allotment %s: %w", id, err)
		}
		a.v.metrics.adopted(ctx, r)
		r.report(a.v.log, time.Since(start))
		a.v.sweeper.note(id, 0)
		return nil
	}
}

// claimed rebuilds under a claim that is renewed all the while, and gives up when it is lost.
func (a *adopter) claimed(ctx context.Context, r *rebuild) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	place, claim := r.row.Place, r.claim
	go func() {
		_ = a.v.recovered("claim of an adopt", func() error {
			for pause(ctx, a.v.o.AdoptLease/4) == nil {
				if err := a.v.redis.AdoptRenew(ctx, place, claim, a.v.o.AdoptLease); errors.Is(err, store.ErrStale) {
					stop(err)
				}
			}
			return nil
		})
	}()
	err := r.run(ctx)
	if err != nil && errors.Is(context.Cause(ctx), store.ErrStale) {
		return store.ErrStale
	}
	return err
}

// drop gives up the claim of an adopt that failed: who tries again does not wait for its lease. While nothing was changed, and
// the epoch is as it was, what a suspicion or an operator has had shut is open again, also if Postgres is away for long.
func (a *adopter) drop(ctx context.Context, r *rebuild) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.v.o.AdoptLease) // after which the claim counts for nothing
	defer cancel()
	_ = a.v.redis.AdoptDrop(ctx, r.row.Place, r.claim, !r.raised)
	a.v.supervisor.expect([]store.PlacedHold{{Place: r.row.Place}}) // the epoch may have been raised, and the answer lost
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *rebuild) report(log *slog.Logger, took time.Duration) {
	attrs := []any{
		slog.String("allotment", r.row.Place.Allotment), slog.Int64("epoch", r.row.Epoch),
		slog.Int("live_holds", r.plan.live), slog.Int64("sold", r.row.Sold), slog.Duration("took", took),
	}
	if r.row.Epoch > 1 {
		log.Info("an allotment's Redis state was rebuilt under a raised epoch", attrs...)
	} else {
		log.Info("an allotment was opened in Redis", attrs...)
	}
	if r.plan.dropped > 0 {
		log.Error("holds were ended in a rebuild: they no longer fit into the capacity",
			slog.String("allotment", r.row.Place.Allotment), slog.Int("holds", r.plan.dropped))
	}
}
