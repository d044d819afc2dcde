package server

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// A door turns calls away before they are even decoded, while more are inside than can be answered in their
// time: what is let in then is answered, and what is not costs a third of it and is told when to come again.
// Without it a server that gets more than it can do works on calls whose time is over before they are answered, and
// answers hardly any. Requests for holds have one door, confirms another.
const (
	// holdsMost is how many requests for holds may be inside for each processor: at the 10,000 a second that one can do,
	// what is inside is decided in some 60 ms of its 90.
	holdsMost = 600
	// holdsPatience is how long such a call may have waited for a goroutine to begin it: it has that before it some times more.
	holdsPatience = 40 * time.Millisecond

	// confirmsMost is how many confirms may be inside for each processor, and confirmsAtWork how many of them work: the
	// others wait for their turn. So what pays together does not keep the processors from those who ask for holds.
	confirmsMost   = 1500
	confirmsAtWork = 32
	// confirmsPatience is how long a confirm waits for its turn, of its 2 s.
	confirmsPatience = time.Second

	slotFirst  = 50 * time.Millisecond // the earliest return
	slotLast   = 5 * time.Second       // the latest
	slotWidth  = time.Millisecond      // between two who are to return, while the rate is not known
	slotWidest = 10 * time.Millisecond
	rateTime   = 100 * time.Millisecond // that the rate is measured for
)

// overloaded is what is answered at the door.
type overloaded struct{ wait time.Duration }

// Error is for logs.
func (e *overloaded) Error() string { return "more requests than can be answered in time" }

// door counts who is inside, and gives those turned away a time to return: one after another, at a quarter of
// the rate at which others leave. If all were told the same, they would be as many again each time they come back.
type door struct {
	most     int64
	patience time.Duration       // from a call's arrival until it must begin
	work     *semaphore.Weighted // whoever works has a place in it; nil: all who are inside
	inside   atomic.Int64
	left     atomic.Int64 // since began

	mu    sync.Mutex
	began time.Time
	width time.Duration
	next  time.Time
}

func newHoldsDoor() *door {
	return &door{most: int64(holdsMost * runtime.GOMAXPROCS(0)), patience: holdsPatience, width: slotWidth}
}

func newConfirmsDoor() *door {
	return &door{
		most: int64(confirmsMost * runtime.GOMAXPROCS(0)), patience: confirmsPatience, width: slotWidth,
		work: semaphore.NewWeighted(int64(confirmsAtWork * runtime.GOMAXPROCS(0))),
	}
}

// enter lets a call in, which must leave, or returns an overloaded.
func (d *door) enter(ctx context.Context, arrived time.Time) error {
	if d.inside.Add(1) <= d.most && d.begins(ctx, arrived) {
		return nil
	}
	d.inside.Add(-1)
	return &overloaded{wait: d.slot(time.Now())}
}

// begins waits for the turn of a call that is inside, first come, first served; false: it took too long.
func (d *door) begins(ctx context.Context, arrived time.Time) bool {
	left := d.patience - time.Since(arrived)
	if left < 0 {
		return false
	}
	if d.work == nil || d.work.TryAcquire(1) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	return d.work.Acquire(ctx, 1) == nil
}

func (d *door) leave() {
	if d.work != nil {
		d.work.Release(1)
	}
	d.inside.Add(-1)
	d.left.Add(1)
}

// slot is how long to wait before coming again.
func (d *door) slot(now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if since := now.Sub(d.began); since >= rateTime {
		if left := d.left.Swap(0); left > 0 && since < 2*rateTime {
			d.width = min(slotWidest, 4*since/time.Duration(left))
		}
		d.began = now
	}
	earliest, latest := now.Add(slotFirst), now.Add(slotLast)
	if d.next.Before(earliest) || d.next.After(latest) {
		d.next = earliest
	}
	wait := d.next.Sub(now)
	d.next = d.next.Add(d.width)
	return wait
}

// atDoor takes a call through the door, if it is one of those that come in crowds.
func (i *interceptors) atDoor(ctx context.Context, name string, call func() (any, error)) (any, error) {
	m := i.method(name)
	if m.door == nil {
		return call()
	}
	arrived := arrivalOf(ctx)
	if err := m.door.enter(ctx, arrived); err != nil {
		f := i.failed(ctx, name, err)
		m.record(ctx, time.Since(arrived), f)
		return nil, f
	}
	defer m.door.leave()
	return call()
}
