package inventory

import (
	"context"
	"sync"
)

// group counts goroutines that others wait for. Unlike a sync.WaitGroup, it may be waited for while more are begun, as they are
// when the process stops: a call that was cut off may be about to begin the end of its confirm.
type group struct {
	mu      sync.Mutex
	running int
	none    chan struct{} // closed when none is running; nil: nobody waits
}

// Go runs f in a goroutine of the group.
func (g *group) Go(f func()) {
	g.mu.Lock()
	g.running++
	g.mu.Unlock()
	go func() {
		defer g.end()
		f()
	}()
}

func (g *group) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.running == 0 && g.none != nil {
		close(g.none)
		g.none = nil
	}
}

// wait returns when none is running, or with ctx's error when that ends first.
func (g *group) wait(ctx context.Context) error {
	g.mu.Lock()
	if g.running == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.none == nil {
		g.none = make(chan struct{})
	}
	none := g.none
	g.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
