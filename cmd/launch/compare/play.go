package compare

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// answer is what a request was told, and when.
type answer struct {
	Request    int           `json:"n"`
	Quantity   int64         `json:"q"`
	Start, End time.Duration // since the clock's start
	Got        bool          // sold, else refused
}

// clock is the start of a run. It is handed to other processes of this machine as a time of day.
type clock struct{ start time.Time }

func newClock() clock { return clock{start: time.Now()} }

// clockOf is the clock of another process of this machine. From here on it cannot be stepped.
func clockOf(startNanos int64) clock {
	now := time.Now()
	return clock{start: now.Add(-time.Duration(now.UnixNano() - startNanos))}
}

func (c clock) nanos() int64 { return c.start.UnixNano() }

func (c clock) now() time.Duration { return time.Since(c.start) }

// decide asks for what a request wants and tells whether it got it. An error is neither: it ends the run.
type decide func(ctx context.Context, r request) (bool, error)

// play has the requests asked for by so many callers. Each takes the next one when it has been answered.
func play(ctx context.Context, requests []request, callers int, c clock, ask decide) ([]answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := make([]answer, len(requests))
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(callers, len(requests)) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(requests) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				r, start := requests[i], c.now()
				got, err := ask(ctx, r)
				if err != nil {
					cancel(fmt.Errorf("request %d: %w", r.number, err))
					return
				}
				answers[i] = answer{Request: r.number, Quantity: r.quantity, Start: start, End: c.now(), Got: got}
			}
		})
	}
	all.Wait()
	return answers, context.Cause(ctx)
}
