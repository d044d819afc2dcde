package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
)

// Progress is how a load is getting on.
type Progress struct {
	Sent, Answered          int64         // requests for holds
	Granted, Known, Refused int64         // holds given, given again to a repeat, and refused
	Sold                    int64         // confirms that succeeded
	Trouble                 int64         // answers that are none
	Waiting                 int64         // calls without an answer
	P99                     time.Duration // of the decisions since it was asked for last
}

// live counts while the load goes on.
type live struct {
	mu    sync.Mutex
	count Progress
	times *hdrhistogram.Histogram // of decisions, in microseconds, since the last look
}

const (
	longestMicros = 120_000_000
	liveDigits    = 2
)

func newLive() *live { return &live{times: hdrhistogram.New(1, longestMicros, liveDigits)} }

// sent counts a request that goes out.
func (l *live) sent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count.Sent++
}

// answered counts an answer. first: the buyer had no hold before.
func (l *live) answered(c *history.Call, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.Outcome == history.Trouble:
		l.count.Trouble++
	case c.Kind == history.ConfirmHold && c.Outcome == history.Done:
		l.count.Sold++
	case c.Outcome == history.Refused:
		l.count.Refused++
	case first:
		l.count.Granted++
	default:
		l.count.Known++
	}
	if c.Kind == history.CreateHold {
		l.count.Answered++
		_ = l.times.RecordValue(min(c.Latency().Microseconds(), longestMicros)) // it is in range
	}
}

// look returns the counts, and begins a new span for the percentile.
func (l *live) look() Progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.count
	p.P99 = time.Duration(l.times.ValueAtQuantile(99)) * time.Microsecond
	l.times.Reset()
	return p
}
