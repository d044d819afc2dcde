package server

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// BuyerLimit is how often one buyer may ask for holds, on one replica. A storm of one buyer's retries then
// ends before the queue and costs nobody else time.
type BuyerLimit struct {
	PerSecond float64 // 0: no limit
	Burst     int     // requests that may come at once
}

// mostBuyers bounds the memory: about 20 MB, 50 with the longest ids. Who is forgotten, having been silent for longer than that many
// others, has its whole burst again, as it would have within seconds anyway.
const mostBuyers = 1 << 16

// tooOften is what a buyer without a token is told.
type tooOften struct {
	wait  time.Duration
	limit float64 // a second
}

// Error is for logs.
func (e *tooOften) Error() string {
	return "this buyer asks too often; may again in " + e.wait.String()
}

// limiter keeps a token bucket for each buyer that was here lately.
type limiter struct {
	limit BuyerLimit

	mu      sync.Mutex
	latest  time.Time
	buckets *simplelru.LRU[string, *rate.Limiter]
}

// newLimiter returns nil, which never limits, without a limit.
func newLimiter(limit BuyerLimit, most int) (*limiter, error) {
	if limit.PerSecond <= 0 {
		return nil, nil //nolint:nilnil // as said above
	}
	buckets, err := simplelru.NewLRU[string, *rate.Limiter](most, nil)
	if err != nil {
		return nil, err
	}
	return &limiter{limit: limit, buckets: buckets}, nil
}

// take takes a token of a buyer's. If there is none it takes nothing, and returns when there will be one.
func (l *limiter) take(buyer string, now time.Time) time.Duration {
	if l == nil {
		return 0
	}
	// One lock for all of it: calls come here in another order than they read the time in, and a bucket that is told
	// an earlier time fills up twice for the same one; a reservation is only undone if no other came after it.
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.latest) {
		now = l.latest
	}
	l.latest = now
	taken := l.bucket(buyer).ReserveN(now, 1)
	wait := taken.DelayFrom(now)
	if wait > 0 {
		taken.CancelAt(now)
	}
	return wait
}

func (l *limiter) bucket(buyer string) *rate.Limiter {
	bucket, known := l.buckets.Get(buyer)
	if !known {
		bucket = rate.NewLimiter(rate.Limit(l.limit.PerSecond), l.limit.Burst)
		l.buckets.Add(buyer, bucket)
	}
	return bucket
}
