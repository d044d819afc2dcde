package cases

import (
	"context"
	"time"
)

// clearStep is more than two readings of a clock differ by: deadlines are told in whole milliseconds.
const clearStep = time.Millisecond

// watchClock returns when ctx ends, and by how much the clock of this machine was stepped until then, if clearly: as after a virtual
// machine was moved. Redis has deadlines by that clock, and callers by the monotonic one, so what they find then is not the
// program's doing.
func watchClock(ctx context.Context, ahead func() time.Duration) (most time.Duration) {
	start := ahead()
	for pause(ctx, readEvery) == nil {
		step := (ahead() - start).Abs()
		step = min(step, (ahead() - start).Abs()) // who is held up between two readings of clocks is so once
		if step > clearStep {
			most = max(most, step)
		}
	}
	return most
}

// ahead is how far the wall clock is before the monotonic one.
func ahead() time.Duration {
	now := time.Now()
	return time.Duration(now.UnixNano()) - now.Sub(origin)
}

var origin = time.Now()
