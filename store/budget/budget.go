// Package budget bounds calls in time as context.WithTimeout does, at a small part of its price: the calls of one
// budget that end at about the same time share a timer, and a call's channel is only made for who asks for it.
package budget

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// grain is how much later than its deadline a call may be woken.
const grain = 2 * time.Millisecond

// Budget is what every call of a kind may take.
type Budget struct {
	time time.Duration

	mu   sync.Mutex
	tick time.Time     // the end of the latest calls, rounded up
	ends chan struct{} // closed then
}

// New makes a budget of so much time.
func New(d time.Duration) *Budget { return &Budget{time: d} }

// Time is how much it is.
func (b *Budget) Time() time.Duration { return b.time }

// Context is that of a call which began at a time: its deadline is the budget's end, or the caller's if that is earlier.
// There is nothing to cancel when the call has ended.
func (b *Budget) Context(caller context.Context, began time.Time) context.Context {
	deadline := began.Add(b.time)
	if earlier, ok := caller.Deadline(); ok && earlier.Before(deadline) {
		return caller
	}
	return &call{Context: caller, deadline: deadline, ends: b.endsAt(deadline)}
}

// endsAt is closed within grain after a deadline.
func (b *Budget) endsAt(deadline time.Time) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	// Calls begin in about the order of their deadlines; one that is late for the tick of the others gets one of its own.
	if ahead := b.tick.Sub(deadline); ahead < 0 || ahead >= grain {
		b.tick, b.ends = deadline.Add(grain-1), make(chan struct{})
		ends := b.ends
		time.AfterFunc(time.Until(b.tick), func() { close(ends) })
	}
	return b.ends
}

// call is the context of one call.
type call struct {
	context.Context // the caller's

	deadline time.Time
	ends     <-chan struct{}

	once sync.Once
	full atomic.Pointer[context.Context] // the same as an ordinary context, if somebody has asked for its channel
}

// Deadline is the budget's.
func (c *call) Deadline() (time.Time, bool) { return c.deadline, true }

// Err is what ended the call.
func (c *call) Err() error {
	if full := c.full.Load(); full != nil {
		return (*full).Err()
	}
	if err := c.Context.Err(); err != nil {
		return err
	}
	select {
	case <-c.ends:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Done is dear: Wait does without it.
func (c *call) Done() <-chan struct{} {
	c.once.Do(func() {
		full, cancel := context.WithDeadline(c.Context, c.deadline)
		context.AfterFunc(full, cancel)
		c.full.Store(&full)
	})
	return (*c.full.Load()).Done()
}

// Wait waits for done, or for the end of ctx, whose error it then returns.
func Wait(ctx context.Context, done <-chan struct{}) error {
	c, ok := ctx.(*call)
	if !ok {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case <-done:
		return nil
	case <-c.ends:
		return context.DeadlineExceeded
	case <-c.Context.Done():
		return c.Context.Err()
	}
}
