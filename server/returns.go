package server

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	slotFirst  = 50 * time.Millisecond // the earliest return
	slotWidth  = time.Millisecond      // between two who are to return, while the rate is not known
	slotWidest = 10 * time.Millisecond
	rateTime   = 100 * time.Millisecond // that the rate is measured for
)

// overloaded is what those are told who are turned away.
type overloaded struct{ wait time.Duration }

// Error is for logs.
func (e *overloaded) Error() string { return "more requests than can be answered in time" }

// returns gives those turned away a time to return: one after another, at a quarter of the rate at which others leave. If all
// were told the same, they would be as many again each time they come back.
type returns struct {
	latest time.Duration
	left   atomic.Int64 // since began

	mu    sync.Mutex
	began time.Time
	width time.Duration
	next  time.Time
}

// newReturns makes one whose times to return are at most latest away.
func newReturns(latest time.Duration) *returns { return &returns{latest: latest, width: slotWidth} }

// slot is how long to wait before coming again.
func (r *returns) slot(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := now.Sub(r.began); since >= rateTime {
		if left := r.left.Swap(0); left > 0 && since < 2*rateTime {
			r.width = min(slotWidest, 4*since/time.Duration(left))
		}
		r.began = now
	}
	earliest, latest := now.Add(slotFirst), now.Add(r.latest)
	if r.next.Before(earliest) || r.next.After(latest) {
		r.next = earliest
	}
	wait := r.next.Sub(now)
	r.next = r.next.Add(r.width)
	return wait
}
