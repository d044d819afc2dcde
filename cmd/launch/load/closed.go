package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/wire"
)

// Closed is a load of so many callers, each of which asks again as soon as it is answered: it finds the rate that a
// server can keep up.
type Closed struct {
	Allotments  []string // asked for in turn
	Addresses   []string
	Access      wire.Access
	Connections int
	InFlight    int
	Warm        time.Duration // before it counts
	Duration    time.Duration // that it counts
	Plan        *Plan         // whose buyers ask, one after the other
	Want        codes.Code    // any other answer is an odd one

	start    time.Time
	client   *wire.Client
	callers  []closedCaller
	buyers   atomic.Int32
	counting atomic.Bool
	over     atomic.Bool
	left     sync.WaitGroup

	mu          sync.Mutex
	times       *hdrhistogram.Histogram
	from        map[string]int64
	wanted, odd int64
	text        string
}

// closedCaller is used by one goroutine at a time: the one that reads its answer.
type closedCaller struct {
	encoder encoder
	sent    time.Duration
}

// Pace is what a closed loop found.
type Pace struct {
	Answers  int64
	Wanted   int64 // of them, those of the code that was wanted
	PerSec   float64
	P50, P99 time.Duration
	From     map[string]int64 // how many of the answers came from each address
	Odd      int64            // answers other than the one that was wanted, also before and after the time that counts
	OddText  string           // of one of them
}

// Run asks until the time is over. before and after are called when it begins and ends to count. When it is run again, the
// next buyers ask.
func (c *Closed) Run(ctx context.Context, before, after func()) (Pace, error) {
	c.start, c.times = time.Now(), hdrhistogram.New(1, longestMicros, 3)
	c.wanted, c.odd, c.text = 0, 0, ""
	c.over.Store(false)
	c.from = make(map[string]int64, len(c.Addresses))
	for _, address := range c.Addresses {
		c.from[address] = 0 // also of one that answers nothing
	}
	c.callers = make([]closedCaller, c.InFlight)
	client, err := wire.Dial(ctx, wire.Options{
		Addresses: c.Addresses, Access: c.Access, Connections: c.Connections, Methods: methods(decisionLimit, confirmLimit),
		Handle: c.handle, Clock: func() time.Duration { return time.Since(c.start) },
	})
	if err != nil {
		return Pace{}, err
	}
	c.client = client
	defer client.Close()
	c.left.Add(c.InFlight)
	for i := range c.callers {
		c.ask(nil, uint64(i))
		client.Flush()
	}
	err = wait(ctx, c.Warm)
	before()
	began := time.Now()
	c.counting.Store(true)
	if err == nil {
		err = wait(ctx, c.Duration)
	}
	c.counting.Store(false)
	took := time.Since(began)
	after()
	c.over.Store(true)
	defer time.AfterFunc(patience, client.Close).Stop() // a server that hangs
	c.left.Wait()
	if err != nil {
		return Pace{}, err
	}
	n := c.times.TotalCount()
	return Pace{
		Answers: n, Wanted: c.wanted, PerSec: float64(n) / took.Seconds(), P50: c.at(50), P99: c.at(99), From: c.from,
		Odd: c.odd, OddText: c.text,
	}, nil
}

// Reach says which of the addresses no connection can be made to.
func Reach(ctx context.Context, addresses []string, access wire.Access) error {
	client, err := wire.Dial(ctx, wire.Options{
		Addresses: addresses, Access: access, Handle: func(*wire.Answer) {}, Clock: func() time.Duration { return 0 }, // no calls are made
	})
	if err == nil {
		client.Close()
	}
	return err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Closed) at(percentile float64) time.Duration {
	return time.Duration(c.times.ValueAtQuantile(percentile)) * time.Microsecond
}

// ask sends a caller's next request, over the connection of its last answer if it has had one.
func (c *Closed) ask(last *wire.Answer, tag uint64) {
	caller := &c.callers[tag]
	buyer := c.buyers.Add(1)
	message := caller.encoder.createHold(c.Allotments[int(buyer)%len(c.Allotments)], c.Plan.Buyer(buyer))
	caller.sent = time.Since(c.start)
	var err error
	if last != nil {
		err = last.Send(int(history.CreateHold), tag, message)
	} else {
		err = c.client.Send(int(history.CreateHold), tag, message)
	}
	if err != nil {
		c.strange(fmt.Sprintf("not sent: %v", err))
		c.left.Done()
	}
}

func (c *Closed) handle(a *wire.Answer) {
	if c.counting.Load() {
		c.mu.Lock()
		_ = c.times.RecordValue(min((a.At - c.callers[a.Tag].sent).Microseconds(), longestMicros)) // it is in range
		c.from[a.Address()]++
		if a.Code == c.Want {
			c.wanted++
		}
		c.mu.Unlock()
	}
	if a.Code != c.Want {
		c.strange(fmt.Sprintf("%v: %s", a.Code, a.Text))
	}
	if c.over.Load() {
		c.left.Done()
		return
	}
	c.ask(a, a.Tag)
}

func (c *Closed) strange(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.odd++
	c.text = text
}
