package server

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store/budget"
)

// Budgets is how long calls may take, from arrival to answer. A caller's earlier deadline counts instead.
type Budgets struct {
	Decision  time.Duration // on stock: holds and availability. Default 90 ms, so that answers are there within 100
	Call      time.Duration // confirms, sales, and what operators do. Default 2 s
	Reconcile time.Duration // reads all of an allotment, several times. Default 30 s
}

func (b Budgets) withDefaults() Budgets {
	b.Decision = orDefault(b.Decision, 90*time.Millisecond)
	b.Call = orDefault(b.Call, 2*time.Second)
	b.Reconcile = orDefault(b.Reconcile, 30*time.Second)
	return b
}

func orDefault[T comparable](value, byDefault T) T {
	var zero T
	if value == zero {
		return byDefault
	}
	return value
}

// methodTable lists every method there is. Health and reflection are not measured.
func methodTable(b Budgets, r *recorders) map[string]*method {
	table := map[string]*method{}
	add := func(limit *budget.Budget, names ...string) {
		for _, name := range names {
			table[name] = &method{budget: limit, ours: true, calls: newCallTimer(r.calls, name)}
		}
	}
	calls := budget.New(b.Call)
	add(budget.New(b.Decision),
		pb.InventoryService_GetAvailability_FullMethodName,
		pb.InventoryService_BatchGetAvailability_FullMethodName,
		pb.InventoryService_CreateHold_FullMethodName,
		pb.InventoryService_BatchCreateHolds_FullMethodName,
		pb.InventoryService_GetHold_FullMethodName,
		pb.InventoryService_ExtendHold_FullMethodName,
		pb.InventoryService_CancelHold_FullMethodName,
	)
	add(calls,
		pb.InventoryService_ConfirmHold_FullMethodName,
		pb.InventoryService_BatchConfirmHolds_FullMethodName,
		pb.InventoryService_GetSale_FullMethodName,
		pb.InventoryService_CancelSale_FullMethodName,
	)
	for name, m := range table {
		m.recorder = r.forMethod(name)
		m.limited = name == pb.InventoryService_CreateHold_FullMethodName || name == pb.InventoryService_BatchCreateHolds_FullMethodName
		m.confirms = name == pb.InventoryService_ConfirmHold_FullMethodName || name == pb.InventoryService_BatchConfirmHolds_FullMethodName
	}
	add(nil, pb.InventoryService_WatchAvailability_FullMethodName)
	add(budget.New(b.Reconcile), pb.AdminService_ReconcileAllotment_FullMethodName)
	add(calls,
		pb.AdminService_CreateAllotment_FullMethodName,
		pb.AdminService_GetAllotment_FullMethodName,
		pb.AdminService_ListAllotments_FullMethodName,
		pb.AdminService_UpdateAllotment_FullMethodName,
		pb.AdminService_AdjustCapacity_FullMethodName,
		pb.AdminService_ListHolds_FullMethodName,
		pb.AdminService_ListSales_FullMethodName,
	)
	for name, roles := range methodRoles() {
		if table[name] == nil {
			table[name] = &method{budget: calls}
		}
		table[name].roles = roles
	}
	for _, name := range auditedMethods() {
		table[name].audited = true
	}
	return table
}

// recorders are the instruments of decisions.
type recorders struct {
	calls     metric.Float64Histogram
	decisions metric.Int64Counter
	duration  metric.Float64Histogram
}

func newRecorders(meter metric.Meter) (*recorders, error) {
	decisions, err := meter.Int64Counter("holdfast.decisions", metric.WithUnit("{decision}"),
		metric.WithDescription("Answers to checkouts, by method and by outcome: OK, a reason, or a status code."))
	if err != nil {
		return nil, fmt.Errorf("holdfast.decisions: %w", err)
	}
	duration, err := meter.Float64Histogram("holdfast.decision.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from a checkout's request to its answer, by method."),
		metric.WithExplicitBucketBoundaries(
			.0005, .001, .0025, .005, .01, .02, .03, .05, .075, .09, .1, .15, .25, .5, 1, 2.5))
	if err != nil {
		return nil, fmt.Errorf("holdfast.decision.duration: %w", err)
	}
	calls, err := newCallDuration(meter)
	if err != nil {
		return nil, err
	}
	return &recorders{calls: calls, decisions: decisions, duration: duration}, nil
}

// recorder records the decisions of one method. What it needs for a call was made before the first.
type recorder struct {
	*recorders
	timing   []metric.RecordOption
	outcomes map[string][]metric.AddOption
	other    []metric.AddOption
}

func (r *recorders) forMethod(fullName string) *recorder {
	name := methodAttribute(fullName)
	with := func(outcome string) []metric.AddOption {
		return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(name, attribute.String("holdfast.outcome", outcome)))}
	}
	made := &recorder{
		recorders: r,
		timing:    []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(name))},
		outcomes:  map[string][]metric.AddOption{},
		other:     with("OTHER"),
	}
	for _, outcome := range outcomes() {
		made.outcomes[outcome] = with(outcome)
	}
	return made
}

// outcomes are the values of the label: a closed set.
func outcomes() []string {
	all := []string{"OK", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL"}
	for number := range pb.ErrorReason_name {
		if reason := pb.ErrorReason(number); reason != pb.ErrorReason_ERROR_REASON_UNSPECIFIED {
			all = append(all, reasonText(reason))
		}
	}
	return all
}

func (r *recorder) record(ctx context.Context, took time.Duration, outcome string) {
	options, ok := r.outcomes[outcome]
	if !ok {
		options = r.other
	}
	r.decisions.Add(ctx, 1, options...)
	r.duration.Record(ctx, took.Seconds(), r.timing...)
}
