package inventory

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// TestGroup: it is waited for to the end of what is begun meanwhile, too, or for as long as the caller wants.
func TestGroup(t *testing.T) {
	t.Parallel()
	var g group
	if err := g.wait(t.Context()); err != nil {
		t.Errorf("none is running: %v", err)
	}
	var ended atomic.Bool
	first, second := make(chan struct{}), make(chan struct{})
	g.Go(func() {
		<-first
		g.Go(func() {
			<-second
			ended.Store(true)
		})
	})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.wait(over); !errors.Is(err, context.Canceled) {
		t.Errorf("one is running: %v, want that the time is over", err)
	}
	close(first)
	if err := g.wait(over); !errors.Is(err, context.Canceled) {
		t.Errorf("another one is running: %v, want that the time is over", err)
	}
	close(second)
	if err := g.wait(t.Context()); err != nil || !ended.Load() {
		t.Errorf("%v, ended %v; want the end of all", err, ended.Load())
	}
}

// TestDrainWhileMoreIsBegun: calls that were cut off begin the end of their confirms while the process stops. With a
// sync.WaitGroup the race detector finds that.
func TestDrainWhileMoreIsBegun(t *testing.T) {
	t.Parallel()
	v := &Inventory{}
	v.adopter = newAdopter(v)
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for range 1000 {
				v.detached.Go(func() {})
				v.adopter.finished.Go(func() {})
			}
		})
	}
	for range 1000 {
		if err := v.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	calls.Wait()
}
