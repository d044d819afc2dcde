package load

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// TestClosedAgain: a load that is run again asks as it did the first time, for other buyers, and counts from nothing.
func TestClosedAgain(t *testing.T) {
	t.Parallel()
	const enough = 100 // of each run: many more than its callers
	var asked atomic.Int64
	var stop atomic.Value // of the run
	address, s := serve(t, func(context.Context, string, int) error {
		if asked.Add(1)%enough == 0 {
			stop.Load().(context.CancelFunc)() //nolint:forcetypeassert // nothing else is stored
		}
		return nil
	})
	loop := Closed{
		Allotments: []string{"a"}, Addresses: []string{address}, Connections: 2, InFlight: 4, Duration: 20 * time.Second, Plan: NewPlan(Crowd{Seed: 3}),
	}
	for run := range int64(3) {
		ctx, cancel := context.WithCancel(t.Context())
		stop.Store(cancel)
		if _, err := loop.Run(ctx, func() {}, func() {}); !errors.Is(err, context.Canceled) || asked.Load() < (run+1)*enough {
			t.Fatalf("run %d has ended after %d requests of all runs: %v", run+1, asked.Load(), err)
		}
		cancel()
	}
	for request, times := range s.asked {
		if times > 1 {
			t.Errorf("request %s was sent %d times", request, times)
		}
	}
}
