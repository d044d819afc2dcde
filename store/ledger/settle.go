package ledger

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	// Of lines: a confirm of one hold is one, one of a cart many.
	maxConfirms = 128  // that share a transaction
	maxWaiting  = 4096 // of one group; more than a second's work
)

// settling is a confirm on its way through its group's lane.
type settling struct {
	ctx     context.Context
	confirm store.Confirm
	taken   atomic.Bool // by a transaction, or given up by its caller: whoever sets it first
	done    chan settled
}

func (s *settling) lines() int { return len(s.confirm.Lines) }

type settled struct {
	verdicts []store.Verdict
	err      error
}

// Settle implements store.Settler.
func (l *Ledger) Settle(ctx context.Context, group string, c store.Confirm) ([]store.Verdict, error) {
	if len(c.Lines) == 0 {
		return nil, nil
	}
	if ctx.Err() != nil {
		return nil, unavailable(context.Cause(ctx))
	}
	server := l.health.now.Load()
	if server.err != nil {
		return nil, unavailable(server.err)
	}
	s := &settling{ctx: ctx, confirm: c, done: make(chan settled, 1)}
	if !l.lanes.Add(group, group, s) {
		return nil, fmt.Errorf("ledger: %w", store.ErrQueueFull)
	}
	select {
	case r := <-s.done:
		return r.verdicts, r.err
	case <-server.gone:
		return nil, s.giveUp(errDown)
	case <-ctx.Done():
		return nil, s.giveUp(context.Cause(ctx))
	}
}

// giveUp is what a caller is told who does not wait for the end.
func (s *settling) giveUp(why error) error {
	if s.taken.CompareAndSwap(false, true) {
		return fmt.Errorf("ledger: confirm was not sent: %w", unavailable(why))
	}
	return fmt.Errorf("ledger: result of confirm not known: %w", unavailable(why))
}

// settleLane runs one batch of a group; its lane runs the next when it returns.
func (l *Ledger) settleLane(_ string, items []*settling) {
	live := items[:0:0]
	for _, s := range items {
		if s.ctx.Err() == nil && s.taken.CompareAndSwap(false, true) {
			live = append(live, s)
		}
	}
	if len(live) > 0 {
		l.settleTogether(live)
	}
}

// settleTogether decides items in one transaction, or, if the server refuses what one of them would
// write, in halves until that one stands alone. The order of arrival is kept.
func (l *Ledger) settleTogether(items []*settling) {
	ctx, cancel := l.detach(items)
	defer cancel()
	start := time.Now()
	verdicts, err := l.settleOnce(ctx, items)
	l.meter.settleTime.Record(ctx, time.Since(start).Seconds())
	if badData(err) && len(items) > 1 {
		half := len(items) / 2
		l.settleTogether(items[:half])
		l.settleTogether(items[half:])
		return
	}
	if err != nil {
		err = l.translate(ctx, err, facts(items)...)
	}
	for i, s := range items {
		if err != nil {
			s.done <- settled{err: err}
			continue
		}
		l.meter.count(ctx, verdicts[i])
		s.done <- settled{verdicts: verdicts[i]}
	}
}

// settleOnce is the ledger step. Its span hangs on the first caller's and links to the others'.
func (l *Ledger) settleOnce(ctx context.Context, items []*settling) ([][]store.Verdict, error) {
	ctx, span := l.tracer.Start(ctx, "ledger.settle", trace.WithAttributes(attribute.Int("holdfast.confirms", len(items))))
	defer span.End()
	if span.IsRecording() {
		for _, s := range items[1:] {
			span.AddLink(trace.LinkFromContext(s.ctx))
		}
	}
	l.meter.batchSize.Record(ctx, int64(len(items)))
	confirms := make([]store.Confirm, len(items))
	for i, s := range items {
		confirms[i] = s.confirm
	}
	step := &settlement{confirms: confirms, mark: l.mark}
	if err := l.settleStep(ctx, step); err != nil {
		span.RecordError(err)
		return nil, err
	}
	l.mark("ledger-after-commit")
	return step.verdicts, nil
}

// settleStep tries to write at once what nearly every step comes to. Where that does not hold, or nobody knows whether it
// was committed, the whole step finds out.
func (l *Ledger) settleStep(ctx context.Context, step *settlement) error {
	if !l.opts.ReadFirst && step.assume() {
		f := l.attempt(ctx, l.requests, unit{write: step.writeAssumed})
		if f.err == nil || ctx.Err() != nil || !f.lost && !badData(f.err) && !mustRepeat(f.err) {
			return f.err
		}
		if f.lost {
			l.meter.repeats.Add(ctx, 1, repeatLost)
		}
	}
	return l.runUnit(ctx, l.requests, unit{read: step.read, decide: step.decide, write: step.write})
}

// detach gives a batch a deadline of its own: no caller's going away may end the others' confirms.
func (l *Ledger) detach(items []*settling) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(items[0].ctx), l.opts.CallTimeout)
}

// facts are what an operator needs about a confirm that the server refused.
func facts(items []*settling) []slog.Attr {
	var attrs []slog.Attr
	for _, s := range items {
		attrs = append(attrs, slog.String("order", s.confirm.OrderID))
		for _, line := range s.confirm.Lines {
			attrs = append(attrs, slog.Group("line",
				slog.String("hold", line.ID.String()), slog.Int64("quantity", line.Quantity),
				slog.Int64("epoch", line.Epoch), slog.Bool("gone", line.Gone), slog.Bool("shrink", line.Shrink),
				slog.Int64("token_epoch", line.Token.Epoch), slog.Int64("token_sequence", line.Token.Sequence)))
		}
	}
	return attrs
}
