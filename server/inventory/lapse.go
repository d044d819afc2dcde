package inventory

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	sweepBatch  = 256                    // holds released in one call
	sweepJitter = 20 * time.Millisecond  // so that replicas do not all wake at once
	sweepRetry  = 250 * time.Millisecond // after trouble
	hintsMost   = 100_000                // announced holds waiting to be released; more are left to the sweep
)

// sweeper releases lapsed holds on time: it knows when the next deadline of each allotment is, from
// what this replica granted and from what it reads, and looks then. It also gathers what Redis
// announces. Both lead to the same release, which looks only at the deadline.
type sweeper struct {
	v *Inventory

	mu    sync.Mutex
	next  map[string]*deadlineAt // when to look at an allotment
	order deadlines              // the same
	wake  chan struct{}
	hints map[store.HoldID]struct{}
	told  chan struct{}
}

type deadlineAt struct {
	at        time.Time
	allotment string
	place     int // in the order
}

func newSweeper(v *Inventory) *sweeper {
	return &sweeper{
		v: v, next: map[string]*deadlineAt{}, wake: make(chan struct{}, 1),
		hints: map[store.HoldID]struct{}{}, told: make(chan struct{}, 1),
	}
}

// note remembers that a hold of the allotment ends in so long.
func (s *sweeper) note(allotment string, in time.Duration) {
	//nolint:gosec // jitter, not a secret
	at := time.Now().Add(max(0, in) + time.Millisecond + rand.N(sweepJitter))
	s.mu.Lock()
	defer s.mu.Unlock()
	switch d, known := s.next[allotment]; {
	case !known:
		d = &deadlineAt{at: at, allotment: allotment}
		s.next[allotment] = d
		heap.Push(&s.order, d)
	case at.Before(d.at):
		d.at = at
		heap.Fix(&s.order, d.place)
	default:
		return
	}
	if s.order[0].allotment == allotment {
		signal(s.wake)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run sweeps allotments when they are due.
func (s *sweeper) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var sweeps sync.WaitGroup
	defer sweeps.Wait()
	slots := make(chan struct{}, 16)
	for {
		allotments, wait := s.take(time.Now())
		for _, id := range allotments {
			slots <- struct{}{}
			sweeps.Go(func() {
				defer func() { <-slots }()
				_ = s.v.recovered("sweeper", func() error {
					s.sweep(ctx, id)
					return nil
				})
			})
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.wake:
		}
	}
}

// take returns the allotments that are due, and how long nothing else is.
func (s *sweeper) take(now time.Time) ([]string, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var allotments []string
	for len(s.order) > 0 {
		first := s.order[0]
		if first.at.After(now) {
			return allotments, first.at.Sub(now)
		}
		heap.Pop(&s.order)
		delete(s.next, first.allotment)
		allotments = append(allotments, first.allotment)
	}
	s.order, s.next = nil, map[string]*deadlineAt{} // maps and slices do not shrink by themselves
	return allotments, time.Minute
}

// sweep releases what is due at one allotment and notes its next deadline.
func (s *sweeper) sweep(ctx context.Context, id string) {
	p, err := s.v.places.place(ctx, id)
	for err == nil {
		var work []store.Work
		if work, err = s.v.redis.Due(ctx, []store.Place{p}, sweepBatch); err != nil {
			break
		}
		if len(work[0].Lapsed) == 0 {
			if next := work[0].NextLapse; !next.IsZero() {
				s.note(id, next.Sub(work[0].Now))
			}
			return
		}
		_, err = s.v.redis.Release(ctx, p, work[0].Lapsed, store.LapseBySweep)
	}
	var no *store.Refusal
	if errors.As(err, &no) || ctx.Err() != nil { // no such allotment
		return
	}
	// Whoever asks for it has it adopted, and else the supervisor, who takes so many at a time: after a failover that is every
	// allotment. The look that finds it adopted notes its next deadline anew.
	var needed *store.AdoptNeeded
	if errors.As(err, &needed) {
		return
	}
	s.note(id, sweepRetry)
}

// listen lets Redis's announcements drive releases.
func (s *sweeper) listen(ctx context.Context) {
	var releases sync.WaitGroup
	releases.Go(func() { s.v.keepRunning(ctx, "announced lapses", s.releaseHints) })
	s.v.redis.Listen(ctx, s.hint, s.gap)
	releases.Wait()
}

func (s *sweeper) hint(id store.HoldID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.hints) < hintsMost {
		s.hints[id] = struct{}{}
		signal(s.told)
	}
}

// gap looks at once at every allotment of which announcements may have been lost.
func (s *sweeper) gap(at func(store.Place) bool) {
	for _, p := range s.v.places.all() {
		if at(p) {
			s.note(p.Allotment, 0)
		}
	}
}

// releaseHints releases announced holds in batches.
func (s *sweeper) releaseHints(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.told:
		}
		s.mu.Lock()
		hints := s.hints
		s.hints = map[store.HoldID]struct{}{}
		s.mu.Unlock()
		for allotment, ids := range perAllotment(hints) {
			if err := s.releaseHinted(ctx, allotment, ids); err != nil && ctx.Err() == nil {
				s.v.log.Debug("announced holds are left to the sweep", slog.Any("error", err))
			}
		}
	}
}

func (s *sweeper) releaseHinted(ctx context.Context, allotment string, ids []store.HoldID) error {
	p, err := s.v.places.place(ctx, allotment)
	if err != nil {
		return err
	}
	for len(ids) > 0 {
		n := min(sweepBatch, len(ids))
		if _, err := s.v.redis.Release(ctx, p, ids[:n], store.LapseByEvent); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

func perAllotment(hints map[store.HoldID]struct{}) map[string][]store.HoldID {
	sorted := map[string][]store.HoldID{}
	for id := range hints {
		sorted[id.Allotment] = append(sorted[id.Allotment], id)
	}
	return sorted
}

// deadlines is a heap, earliest first.
type deadlines []*deadlineAt

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at.Before(d[j].at) }

// Swap is heap.Interface's.
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

// Push is heap.Interface's.
func (d *deadlines) Push(x any) {
	if e, ok := x.(*deadlineAt); ok {
		e.place = len(*d)
		*d = append(*d, e)
	}
}

// Pop is heap.Interface's.
func (d *deadlines) Pop() any {
	old := *d
	last := old[len(old)-1]
	old[len(old)-1] = nil // or it stayed in memory
	*d = old[:len(old)-1]
	return last
}
