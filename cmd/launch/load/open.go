package load

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/wire"
)

const (
	never = time.Duration(math.MaxInt64)

	// The one who sends rests at least for the grain, so that what is due together is written together, and at most
	// for the tick, since an answer may have made something due. Latency counts from when a call should have been sent,
	// so the grain is in it.
	grain = 500 * time.Microsecond
	tick  = 5 * time.Millisecond

	mostTogether  = 64                    // requests that are written at once, when they are late
	retryPause    = 50 * time.Millisecond // where the server names none
	mostDoublings = 4                     // of the pause, one with each try
	confirmTries  = 20                    // an unknown result is known within 2 s
	decisionLimit = 5 * time.Second       // what callers give a decision; the server's own limit is far below
	confirmLimit  = 10 * time.Second
	patience      = confirmLimit + time.Second // for answers, when there is nothing left to send
)

// Open is a load that sends at its rate, whether or not answers come.
type Open struct {
	Plan        *Plan
	Allotment   string
	Addresses   []string
	Access      wire.Access
	Connections int
	Retries     int       // how often a request that met trouble is repeated
	Start       time.Time // of the clock

	client  *wire.Client
	encoder encoder
	calls   calls
	later   later
	live    *live
	waiting atomic.Int64
	holding []atomic.Bool // by buyer: has been told of a hold
	holds   []string      // by buyer: its hold's id, once a confirm is due
}

// Connect gets ready to run.
func (o *Open) Connect(ctx context.Context) error {
	o.live = newLive()
	o.holding = make([]atomic.Bool, o.Plan.Buyers())
	o.holds = make([]string, o.Plan.Buyers())
	client, err := wire.Dial(ctx, wire.Options{
		Addresses: o.Addresses, Access: o.Access, Connections: o.Connections, Methods: methods(decisionLimit, confirmLimit),
		Handle: o.handle, Clock: o.Now,
	})
	o.client = client
	return err
}

// Now is the time by the clock of this load.
func (o *Open) Now() time.Duration { return time.Since(o.Start) }

// Progress may be asked for at any time after Connect.
func (o *Open) Progress() Progress {
	p := o.live.look()
	p.Waiting = o.waiting.Load()
	return p
}

// Reconnects tells how often a connection was replaced.
func (o *Open) Reconnects() int64 { return o.client.Reconnects() }

// Run sends everything, from begin on, and waits for the answers. It returns every call in the order of sending. When
// ctx ends, nothing more is sent.
func (o *Open) Run(ctx context.Context, begin time.Duration) []*history.Call {
	next := 0
	quiet := never // since when there is nothing left to send
	for {
		now := o.Now()
		due := never
		if ctx.Err() == nil {
			next, due = o.sendDue(next, begin, now)
		}
		now = o.Now()
		if due != never || (o.later.len() > 0 && ctx.Err() == nil) {
			quiet = never
		} else if quiet == never {
			quiet = now
		}
		if quiet != never && (o.waiting.Load() == 0 || now-quiet > patience) {
			break
		}
		time.Sleep(max(min(due-now, tick), grain))
	}
	o.client.Close()
	return o.calls.all()
}

// sendDue sends what is due, and returns how far it is and when the next request is due.
func (o *Open) sendDue(next int, begin, now time.Duration) (int, time.Duration) {
	together := 0
	send := func() {
		if together++; together == mostTogether {
			o.client.Flush()
			together = 0
		}
	}
	for next < o.Plan.Requests && begin+o.Plan.Intended(next) <= now {
		o.request(next, begin)
		next++
		send()
	}
	for {
		t, ok, at := o.later.due(now)
		if !ok {
			if together > 0 {
				o.client.Flush()
			}
			if next < o.Plan.Requests {
				at = min(at, begin+o.Plan.Intended(next))
			}
			return next, at
		}
		o.perform(t)
		send()
	}
}

// request sends request i of the plan.
func (o *Open) request(i int, begin time.Duration) {
	tag, c := o.calls.add()
	c.Kind, c.Buyer, c.Repeat, c.Intended = history.CreateHold, o.Plan.buyers[i], o.Plan.repeats[i], begin+o.Plan.Intended(i)
	o.send(tag, c)
}

// perform makes a call that was planned for now.
func (o *Open) perform(t task) {
	if t.resend {
		o.waiting.Add(-1)
		o.write(t.tag, o.calls.at(t.tag))
		return
	}
	tag, c := o.calls.add()
	c.Kind, c.Buyer, c.Attempt, c.Intended = t.kind, t.buyer, t.attempt, t.at
	o.send(tag, c)
}

func (o *Open) send(tag uint64, c *history.Call) {
	c.Sent = o.Now()
	if c.Kind == history.CreateHold {
		o.live.sent()
	}
	o.write(tag, c)
}

// write leaves a call to the client. Where there is no connection, that is trouble.
func (o *Open) write(tag uint64, c *history.Call) {
	b := o.Plan.Buyer(c.Buyer)
	var message []byte
	if c.Kind == history.CreateHold {
		message = o.encoder.createHold(o.Allotment, b)
	} else {
		message = o.encoder.confirmHold(o.holds[c.Buyer], b.Order)
	}
	o.waiting.Add(1)
	if err := o.client.Send(int(c.Kind), tag, message); err != nil {
		o.handle(&wire.Answer{Tag: tag, At: o.Now(), Code: codes.Unavailable, Text: err.Error()})
	}
}

// handle notes an answer, and plans what follows from it.
func (o *Open) handle(a *wire.Answer) {
	c := o.calls.at(a.Tag)
	if a.NotProcessed {
		o.later.add(task{at: a.At, resend: true, tag: a.Tag}) // still waited for
		return
	}
	read(c, a)
	c.Server = a.Address()
	first := c.Kind == history.CreateHold && c.Outcome == history.Done && !o.holding[c.Buyer].Swap(true)
	if first && c.Hold.State == history.Held {
		o.planConfirm(c)
	}
	if c.Outcome == history.Trouble {
		o.planRetry(c, a.Pushback)
	}
	o.live.answered(c, first)
	o.waiting.Add(-1)
}

func (o *Open) planConfirm(c *history.Call) {
	if think, pays := o.Plan.Pays(c.Buyer); pays {
		o.holds[c.Buyer] = c.Hold.ID
		o.later.add(task{at: c.Answered + think, kind: history.ConfirmHold, buyer: c.Buyer})
	}
}

// planRetry repeats what met trouble, with the same ids, as callers are told to.
func (o *Open) planRetry(c *history.Call, pushback time.Duration) {
	tries := o.Retries
	if c.Kind == history.ConfirmHold {
		tries = confirmTries
	}
	switch c.Code {
	case codes.Unavailable, codes.ResourceExhausted:
	case codes.DeadlineExceeded: // somebody who has waited for so long goes, but for one who has paid
		if c.Kind != history.ConfirmHold {
			return
		}
	default:
		return
	}
	if int(c.Attempt) >= tries {
		return
	}
	if pushback == 0 {
		pushback = retryPause
	}
	o.later.add(task{at: c.Answered + pushback<<min(c.Attempt, mostDoublings), kind: c.Kind, buyer: c.Buyer, attempt: c.Attempt + 1})
}
