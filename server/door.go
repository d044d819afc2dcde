package server

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// The door turns requests for holds away before they are even decoded, while more are inside than can be decided in their
// time: what is let in then is decided, and what is not costs a third of it and is told when to come again.
// Without it a server that gets more than it can do works on requests whose time is over before they are decided, and
// decides hardly any.
const (
	// insideMost is how many may be inside for each processor: at the 10,000 a second that one can do, what is inside
	// is decided in some 60 ms of its 90.
	insideMost = 600
	// doorPatience is how long a call may have waited for a goroutine to begin it: it has that before it some times more.
	doorPatience = 40 * time.Millisecond

	slotFirst  = 50 * time.Millisecond // the earliest return
	slotLast   = 5 * time.Second       // the latest
	slotWidth  = time.Millisecond      // between two who are to return, while the rate is not known
	slotWidest = 10 * time.Millisecond
	rateTime   = 100 * time.Millisecond // that the rate is measured for
)

// overloaded is what is answered at the door.
type overloaded struct{ wait time.Duration }

// Error is for logs.
func (e *overloaded) Error() string { return "more requests than can be decided in time" }

// door counts who is inside, and gives those turned away a time to return: one after another, at a quarter of
// the rate at which others leave. If all were told the same, they would be as many again each time they come back.
type door struct {
	most   int64
	inside atomic.Int64
	left   atomic.Int64 // since began

	mu    sync.Mutex
	began time.Time
	width time.Duration
	next  time.Time
}

func newDoor() *door {
	return &door{most: int64(insideMost * runtime.GOMAXPROCS(0)), width: slotWidth}
}

// enter lets a call in, which must leave, or returns an overloaded.
func (d *door) enter(arrived time.Time) error {
	now := time.Now()
	if d.inside.Add(1) <= d.most && now.Sub(arrived) <= doorPatience {
		return nil
	}
	d.inside.Add(-1)
	return &overloaded{wait: d.slot(now)}
}

func (d *door) leave() {
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
	if !m.limited {
		return call()
	}
	arrived := arrivalOf(ctx)
	if err := i.door.enter(arrived); err != nil {
		f := i.failed(ctx, name, err)
		m.record(ctx, time.Since(arrived), f)
		return nil, f
	}
	defer i.door.leave()
	return call()
}
