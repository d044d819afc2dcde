package admin

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// lastTrouble keeps what the last try of a call failed with. When the time is up between two tries, gRPC says only
// that it is: without this, nobody would be told that no server listens, or which store is away.
type lastTrouble struct {
	mu  sync.Mutex
	err error
}

// explains is the error to be told: err, or what was wrong for as long as there was time.
func (l *lastTrouble) explains(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if status.Code(err) == codes.DeadlineExceeded && l.err != nil {
		return l.err
	}
	return err
}

// HandleRPC implements stats.Handler: gRPC tells it the end of each try.
func (l *lastTrouble) HandleRPC(_ context.Context, s stats.RPCStats) {
	end, ok := s.(*stats.End)
	if !ok || end.Error == nil || status.Code(end.Error) == codes.DeadlineExceeded {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = end.Error
}

// TagRPC implements stats.Handler.
func (l *lastTrouble) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (l *lastTrouble) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (l *lastTrouble) HandleConn(context.Context, stats.ConnStats) {}

var _ stats.Handler = (*lastTrouble)(nil)
