package server

import (
	"context"
	"sync"
	"time"
)

// Stop ends the server so that no call is lost: health says NOT_SERVING, calls are taken for the drain delay more,
// streams are ended, running calls may finish within the stop timeout, and what then still runs is cut off. It
// returns when no handler runs any more. When ctx is done the waiting is cut short. A second call waits for the first.
func (s *Server) Stop(ctx context.Context) {
	s.stopOnce.Do(func() { s.stop(ctx) })
}

func (s *Server) stop(ctx context.Context) {
	for _, e := range s.endpoints() {
		e.health.stop()
	}
	wait(ctx, s.options.DrainDelay)
	s.end()
	hard, cancel := context.WithTimeout(ctx, s.options.StopTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, e := range s.endpoints() {
		all.Go(func() { s.stopEndpoint(hard, e) })
	}
	all.Wait()
}

func (s *Server) stopEndpoint(ctx context.Context, e *endpoint) {
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		e.server.GracefulStop()
	}()
	select {
	case <-graceful:
	case <-ctx.Done():
		s.options.Logger.Warn("calls were still running at the end of the stop timeout and are cut off")
		e.server.Stop() // cancels them, and waits for their handlers
		<-graceful
	}
}

func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
