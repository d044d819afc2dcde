package server

import (
	"context"
	"runtime"
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
	// doorLatest is the longest that a buyer is told to wait before asking again.
	doorLatest = 5 * time.Second
)

// gate counts who is inside.
type gate struct {
	returns *returns
	most    int64
	inside  atomic.Int64
}

// newGate makes a gate for so many calls for each processor.
func newGate(most int) *gate {
	return &gate{returns: newReturns(doorLatest), most: int64(most * runtime.GOMAXPROCS(0))}
}

// enter lets a call in, which must leave, or returns an overloaded.
func (g *gate) enter() error {
	if g.inside.Add(1) <= g.most {
		return nil
	}
	g.inside.Add(-1)
	return g.full()
}

func (g *gate) full() error { return &overloaded{wait: g.returns.slot(time.Now())} }

func (g *gate) leave() {
	g.inside.Add(-1)
	g.returns.left.Add(1)
}

// door is a gate that those do not enter who have waited for too long.
type door struct {
	*gate
	patience time.Duration
}

func newDoor() *door { return &door{gate: newGate(insideMost), patience: doorPatience} }

// enter lets a call in, which must leave, or returns an overloaded.
func (d *door) enter(arrived time.Time) error {
	if time.Since(arrived) > d.patience {
		return d.full()
	}
	return d.gate.enter()
}

// atDoor takes a call through the door, if it asks for holds.
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
