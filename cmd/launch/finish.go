package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/report"
	"github.com/holdfast-inventory/holdfast/cmd/launch/result"
)

const (
	finalLimit = 2 * time.Minute
	// After the last deadline, in which a supervisor also ends confirms whose callers were told RESULT_UNKNOWN.
	settleTime  = 3 * time.Second
	settlePause = 200 * time.Millisecond
	// Without that wait, for confirms whose buyers know already. A supervisor ends them within its lease.
	finishTime = 5 * time.Second
)

// waitForLapses waits until every deadline has passed.
func (r *rehearsal) waitForLapses(ctx context.Context) {
	if !r.Lapses {
		return
	}
	var last time.Duration
	for _, c := range r.history.Calls {
		end := c.Answered
		switch {
		case c.Kind == history.CreateHold && c.Outcome == history.Done:
			end += c.Hold.Remaining
		case c.Kind == history.CreateHold && c.Outcome != history.Refused:
			end += r.scaled() // there may be a hold that nobody was told of
		}
		last = max(last, end)
	}
	for wait := last + settleTime - r.open.Now(); ; wait = settlePause {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		// After an outage, holds keep the time that they had left.
		if s := r.lastStock(); (s != nil && s.Sent > last && s.Held == 0) || r.open.Now() > last+r.scaled()+settleTime {
			return
		}
	}
}

// readBooks reads what the server has on its books in the end, and closes the allotment.
func (r *rehearsal) readBooks(ctx context.Context) error {
	settled := ctx.Err() == nil && r.Lapses
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalLimit)
	defer cancel()
	if !settled {
		r.begin(finishing)
		r.books.WaitForConfirms(ctx, finishTime)
	}
	r.begin(checking)
	final, err := r.books.Final(ctx, settled)
	r.history.Final = final
	return errors.Join(err, r.books.Retire(ctx))
}

// judge fills in the result.
func (r *rehearsal) judge() {
	h, res := &r.history, &r.result
	res.Verdict = history.Judge(h)
	res.Decisions, res.Confirms, res.Late = result.Decisions(h.Calls), result.Confirms(h.Calls), result.Late(h.Calls)
	res.Outcomes = result.OutcomesOf(h)
	res.Holds = result.HoldsOf(res.Outcomes, r.Window)
	res.Served = result.ServedOf(h.Calls, res.Decisions)
	res.Series = result.SeriesOf(h)
	if res.Noop != nil && res.Noop.Decisions.P99 > 0 {
		res.Noop.Ratio = res.Decisions.P99 / res.Noop.Decisions.P99
	}
	over := result.LastFirstAnswer(h.Calls)
	for _, s := range h.Stocks {
		if s.Sent >= over {
			after := result.StockOf(s)
			res.AfterLoad = &after
			break
		}
	}
	if h.Final != nil {
		end := result.StockOf(h.Final.Stock)
		res.End = &end
	}
}

// tell prints the result and writes the files that were asked for.
func (r *rehearsal) tell(out io.Writer) error {
	err := r.result.Print(out)
	if r.JSON != "" {
		err = errors.Join(err, r.result.Write(r.JSON))
	}
	if r.Report != "" {
		err = errors.Join(err, report.Write(r.Report, &r.result))
	}
	switch v := r.result.Verdict; {
	case v.Broken():
		err = errors.Join(err, errBroken)
	case !v.Kept():
		err = errors.Join(err, errNotKnown)
	}
	return err
}
