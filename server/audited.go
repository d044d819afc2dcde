package server

import (
	"context"
	"log/slog"
	"path"
	"slices"
	"sync"
	"time"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/server/auth"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/seldom"
)

// auditedMethods are those that operators change something by.
func auditedMethods() []string {
	return []string{
		pb.AdminService_CreateAllotment_FullMethodName,
		pb.AdminService_UpdateAllotment_FullMethodName,
		pb.AdminService_AdjustCapacity_FullMethodName,
		pb.AdminService_ReconcileAllotment_FullMethodName,
	}
}

// audited is the operators' use cases with a log line for whatever changes something, or was to: who, what, before and
// after. Dry runs and reads have none.
type audited struct {
	Operators
	log *slog.Logger
}

// CreateAllotment logs what was created.
func (l *audited) CreateAllotment(ctx context.Context, a store.Allotment) (store.Allotment, error) {
	made, err := l.Operators.CreateAllotment(ctx, a)
	l.line(ctx, "CreateAllotment", a.Allotment, err, rules("after", a.Rules, slog.Int64("capacity", a.Capacity), slog.String("group", a.Group)))
	return made, err
}

// UpdateAllotment logs the rules before and after.
func (l *audited) UpdateAllotment(
	ctx context.Context, id string, version int64, change func(*store.Rules) error,
) (store.Allotment, error) {
	var before, after store.Rules
	a, err := l.Operators.UpdateAllotment(ctx, id, version, func(r *store.Rules) error {
		before = *r
		err := change(r)
		after = *r
		return err
	})
	l.line(ctx, "UpdateAllotment", id, err, rules("before", before), rules("after", after))
	return a, err
}

// AdjustCapacity logs the change and what it led to. The capacity before is what was read just before, by a call of its own:
// a repeat finds what its first call left.
func (l *audited) AdjustCapacity(ctx context.Context, c store.AdjustCapacity) (store.Allotment, error) {
	if c.DryRun {
		return l.Operators.AdjustCapacity(ctx, c)
	}
	earlier, readErr := l.Allotment(ctx, c.Allotment)
	a, err := l.Operators.AdjustCapacity(ctx, c)
	facts := []slog.Attr{slog.Int64("delta", c.Delta), slog.String("request_id", c.RequestID)}
	if readErr == nil {
		facts = append(facts, slog.Group("before", slog.Int64("capacity", earlier.Capacity)))
	}
	if err == nil {
		facts = append(facts, slog.Group("after", slog.Int64("capacity", a.Capacity)))
	}
	l.line(ctx, "AdjustCapacity", c.Allotment, err, facts...)
	return a, err
}

// Reconcile logs how much was off. A finding may name a buyer, so none is logged.
func (l *audited) Reconcile(ctx context.Context, id string, apply bool) ([]store.Finding, bool, error) {
	findings, applied, err := l.Operators.Reconcile(ctx, id, apply)
	if apply {
		l.line(ctx, "ReconcileAllotment", id, err,
			slog.Group("before", slog.Int("findings", len(findings))), slog.Group("after", slog.Bool("applied", applied)))
	}
	return findings, applied, err
}

func (l *audited) line(ctx context.Context, what, allotment string, err error, facts ...slog.Attr) {
	who := "anyone, since callers are not identified"
	if caller, ok := ctx.Value(callerKey{}).(*auth.Caller); ok {
		who = caller.Name
	}
	outcome := "OK"
	if err != nil {
		outcome = failureOf(err).outcome
	}
	all := append([]slog.Attr{
		slog.String("who", who), slog.String("peer", auth.Peer(ctx)), slog.String("what", what),
		slog.String("allotment", allotment), slog.String("outcome", outcome),
	}, facts...)
	l.log.LogAttrs(ctx, slog.LevelInfo, "operator action", all...)
}

// denials logs calls that were to change something and were not let in: a line a second for each caller that is known, and one for
// all others together, with how many were left out, so that a flood of them hides nothing else and fills no disk.
type denials struct {
	log   *slog.Logger
	mu    sync.Mutex
	lines map[string]*seldom.Line // by the caller's name; callers are as many as the file has
}

// note logs one such call. The caller is nil if it is not known.
func (d *denials) note(ctx context.Context, method string, caller *auth.Caller, req any, err error) {
	who, name := "unknown", ""
	if caller != nil {
		who, name = caller.Name, "caller "+caller.Name
	}
	d.mu.Lock()
	line := d.lines[name]
	if line == nil {
		line = new(seldom.Line)
		d.lines[name] = line
	}
	d.mu.Unlock()
	allotment := ""
	switch r := req.(type) {
	case interface{ GetAllotmentId() string }:
		allotment = r.GetAllotmentId()
	case interface{ GetAllotment() *pb.Allotment }:
		allotment = r.GetAllotment().GetId()
	}
	if !store.ValidAllotmentID(allotment) { // it was not validated yet
		allotment = ""
	}
	line.Log(d.log, slog.LevelInfo, time.Now(), "operator action", slog.String("who", who), slog.String("peer", auth.Peer(ctx)),
		slog.String("what", path.Base(method)), slog.String("allotment", allotment), slog.String("outcome", failureOf(err).outcome))
}

// rules is a group of an allotment's rules; empty if they are not known.
func rules(name string, r store.Rules, more ...slog.Attr) slog.Attr {
	if r == (store.Rules{}) {
		return slog.Attr{}
	}
	attrs := append(slices.Clone(more),
		slog.String("state", stateOut(r.State).String()),
		slog.String("late_confirm", lateConfirmOut(r.LateConfirm).String()),
		slog.String("hold_duration", r.HoldDuration.String()), slog.String("max_hold_duration", r.MaxHoldDuration.String()),
		slog.Int64("max_quantity_per_hold", r.MaxPerHold), slog.Int64("max_quantity_per_buyer", r.MaxPerBuyer),
	)
	for _, at := range []struct {
		key  string
		time time.Time
	}{{"opens_at", r.OpensAt}, {"closes_at", r.ClosesAt}} {
		if !at.time.IsZero() {
			attrs = append(attrs, slog.Time(at.key, at.time.UTC()))
		}
	}
	return slog.Attr{Key: name, Value: slog.GroupValue(attrs...)}
}
