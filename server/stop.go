package server

import (
	"context"
	"sync"
	"time"
)

// flushTime is how long peers have to take the last answers when all calls have returned.
const flushTime = time.Second

// Stop ends the server so that no call is lost: health says NOT_SERVING, calls are taken for the drain delay more,
// streams are ended, running calls may finish within the stop timeout, and what then still runs is cut off. A peer that
// does not read delays it by a second or so, not by the stop timeout. It returns when no handler runs any more. When ctx
// is done the waiting is cut short. A second call waits for the first.
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
	s.interceptors.running.streams.Wait()
}

func (s *Server) stopEndpoint(ctx context.Context, e *endpoint) {
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		e.server.GracefulStop()
	}()
	if why := s.stuck(ctx, graceful); why != "" {
		s.options.Logger.Warn(why)
		e.server.Stop() // cancels them, and waits for their handlers
		<-graceful
	}
}

// stuck waits for a graceful stop, and says why it is not to be waited for any longer: what the last answers of a
// connection wait for is its peer alone. Empty: it has stopped.
func (s *Server) stuck(ctx context.Context, graceful <-chan struct{}) string {
	ticker := time.NewTicker(flushTime / 10)
	defer ticker.Stop()
	for busy := time.Now(); ; {
		select {
		case <-graceful:
			return ""
		case <-ctx.Done():
			return "calls were still running at the end of the stop timeout and are cut off"
		case now := <-ticker.C:
			if s.interceptors.running.calls.Load() > 0 {
				busy = now
			} else if now.Sub(busy) >= flushTime {
				return "connections whose peers do not take the last answers are cut off"
			}
		}
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
