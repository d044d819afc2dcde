package server

import (
	"hash/maphash"
	"sync"
	"time"
)

// BuyerLimit is how often one buyer may ask for holds, on one replica. A storm of one buyer's retries then
// ends before the queue and costs nobody else time.
type BuyerLimit struct {
	PerSecond float64 // 0: no limit
	Burst     int     // requests that may come at once
}

// mostBuyers bounds the memory: about 5 MB. Who is forgotten, having been silent for longer than half as
// many others, has its whole burst again, as it would have within seconds anyway.
const mostBuyers = 1 << 17

// forever is the longest that a bucket takes to fill: twice that many nanoseconds are still a number.
const forever time.Duration = 1 << 61

// tooOften is what a buyer without a token is told.
type tooOften struct {
	wait  time.Duration
	limit float64 // a second
}

// Error is for logs.
func (e *tooOften) Error() string {
	return "this buyer asks too often; may again in " + e.wait.String()
}

// limiter is a token bucket for each buyer that was here lately, kept as one number: when the bucket will be full again
// (the generic cell rate algorithm, ITU-T I.371). There are no pointers in it: nearly every request of a launch
// comes from a new buyer, and a limiter object for each took a seventh of a call, most of it in the garbage collector.
type limiter struct {
	limit    BuyerLimit
	seed     maphash.Seed
	interval time.Duration // in which one token comes
	whole    time.Duration // in which a bucket fills
	most     int
	start    time.Time

	mu sync.Mutex
	// When the bucket of a buyer, known by a hash of its id, is full: since start. Who was here since the last turn is
	// among the recent. The older ones are dropped at the next turn, when their buckets have filled.
	recent, older map[uint64]time.Duration
	latest, turn  time.Duration
}

// newLimiter returns nil, which never limits, without a limit. most is how many buyers are remembered.
func newLimiter(limit BuyerLimit, most int) *limiter {
	if limit.PerSecond <= 0 {
		return nil
	}
	burst := max(limit.Burst, 1)
	interval := time.Duration(min(float64(time.Second)/limit.PerSecond, float64(forever)/float64(burst)))
	return &limiter{
		limit: limit, seed: maphash.MakeSeed(), interval: interval, whole: interval * time.Duration(burst),
		most: most, start: time.Now(), recent: map[uint64]time.Duration{},
	}
}

// take takes a token of a buyer's. If there is none it takes nothing, and returns when there will be one.
func (l *limiter) take(buyer string, at time.Time) time.Duration {
	if l == nil {
		return 0
	}
	key := maphash.String(l.seed, buyer)
	l.mu.Lock()
	defer l.mu.Unlock()
	// Calls come here in another order than they read the time in.
	now := max(at.Sub(l.start), l.latest)
	l.latest = now
	full, known := l.recent[key]
	if !known {
		full = l.older[key]
		l.makeRoom(now)
	}
	full = max(full, now) + l.interval
	wait := full - l.whole - now
	if wait > 0 {
		full -= l.interval
	}
	l.recent[key] = full
	return max(wait, 0)
}

// makeRoom turns the page when all that was written on the older one has passed, or when there is no room left.
func (l *limiter) makeRoom(now time.Duration) {
	if now-l.turn >= l.whole || len(l.recent) >= l.most/2 {
		l.older, l.recent, l.turn = l.recent, make(map[uint64]time.Duration, len(l.recent)), now
	}
}
