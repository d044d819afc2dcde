package server

import (
	"context"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Confirms that come together are begun only when it is their turn: what pays does not keep the processors from those who
// ask for holds, and is not begun to be given up when its time is over. Allotments have turns of their own, since the
// confirms of one may wait for long, as for its row in Postgres.
const (
	// confirmsMost is how many confirms may be inside for each processor. Of an allotment there are never more than there
	// is room left for others, so a quiet one finds some.
	confirmsMost = 1500
	// confirmsAtWork is how many of an allotment work for each processor: enough to fill the ledger's groups.
	confirmsAtWork = 32
	// confirmsPatience is how long a confirm waits for its turn, from its arrival; it has 2 s.
	confirmsPatience = time.Second
	// confirmsLatest is the longest that the confirm of a paid hold is told to wait. What is turned away comes again within it, so
	// with a shorter one those who return are as many as those who pay anew.
	confirmsLatest = 15 * time.Second
)

// crowd is the confirms that are inside.
type crowd struct {
	returns      *returns
	most, atWork int64

	mu     sync.Mutex
	inside int64
	of     map[string]*queue // by allotment; who has nobody inside is not kept
}

// queue is the confirms of an allotment.
type queue struct {
	inside int64
	work   *semaphore.Weighted // first come, first served
}

func newCrowd() *crowd {
	processors := int64(runtime.GOMAXPROCS(0))
	return &crowd{
		returns: newReturns(confirmsLatest), most: confirmsMost * processors, atWork: confirmsAtWork * processors, of: map[string]*queue{},
	}
}

// enter waits for the turn of a confirm that arrived at a time, which must leave. An error: it is an overloaded, or its caller
// has gone.
func (c *crowd) enter(ctx context.Context, allotment string, arrived time.Time) error {
	q := c.join(allotment)
	if q == nil {
		return &overloaded{wait: c.returns.slot(time.Now())}
	}
	if q.work.TryAcquire(1) {
		return nil
	}
	waiting, cancel := context.WithDeadline(ctx, arrived.Add(confirmsPatience))
	defer cancel()
	if q.work.Acquire(waiting, 1) == nil {
		return nil
	}
	c.part(allotment)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &overloaded{wait: c.returns.slot(time.Now())}
}

func (c *crowd) leave(allotment string) {
	c.part(allotment).work.Release(1)
	c.returns.left.Add(1)
}

// join counts a confirm in; nil: there is no room for it.
func (c *crowd) join(allotment string) *queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.of[allotment]
	if q == nil {
		q = &queue{work: semaphore.NewWeighted(c.atWork)}
	}
	if q.inside >= c.most-c.inside {
		return nil
	}
	c.of[allotment] = q
	c.inside++
	q.inside++
	return q
}

func (c *crowd) part(allotment string) *queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.of[allotment]
	c.inside--
	if q.inside--; q.inside == 0 {
		delete(c.of, allotment)
	}
	return q
}

// confirmedAllotment is the allotment of the holds that a request is to confirm; empty: it is another request. A cart may have
// several, of one group, and is counted as one of the first.
func confirmedAllotment(req any) string {
	id := ""
	switch r := req.(type) {
	case interface{ GetHoldId() string }:
		id = r.GetHoldId()
	case interface{ GetHoldIds() []string }:
		if ids := r.GetHoldIds(); len(ids) > 0 {
			id = ids[0]
		}
	}
	return allotmentOf(id)
}
