package ledger

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/holdfast-inventory/holdfast/store"
)

const scope = "github.com/holdfast-inventory/holdfast/store/ledger"

// instruments are what the ledger measures of itself. Labels come from closed sets: ids are in
// logs and spans only.
type instruments struct {
	violations metric.Int64Counter
	verdicts   metric.Int64Counter
	batchSize  metric.Int64Histogram
	settleTime metric.Float64Histogram
	repeats    metric.Int64Counter
}

func newInstruments(provider metric.MeterProvider) (*instruments, error) {
	if provider == nil {
		provider = noop.NewMeterProvider()
	}
	meter := provider.Meter(scope)
	var m instruments
	var errs [5]error
	m.violations, errs[0] = meter.Int64Counter("holdfast.ledger.constraint_violations", metric.WithUnit("{violation}"),
		metric.WithDescription("Writes that a constraint of the ledger had to stop. Anything but 0 is a bug: alert."))
	m.verdicts, errs[1] = meter.Int64Counter("holdfast.ledger.verdicts", metric.WithUnit("{hold}"),
		metric.WithDescription("Verdicts of the ledger step by kind, repeats included."))
	m.batchSize, errs[2] = meter.Int64Histogram("holdfast.ledger.batch_size", metric.WithUnit("{confirm}"),
		metric.WithDescription("Confirms that shared a transaction."),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128))
	m.settleTime, errs[3] = meter.Float64Histogram("holdfast.ledger.settle.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of a ledger step, from taking its batch to its end."),
		metric.WithExplicitBucketBoundaries(.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2))
	m.repeats, errs[4] = meter.Int64Counter("holdfast.ledger.repeats", metric.WithUnit("{transaction}"),
		metric.WithDescription("Transactions run again, by cause."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	m.begin()
	return &m, nil
}

// begin makes counters known from the start: an alarm on their rise needs to know them before it.
func (m *instruments) begin() {
	ctx := context.Background()
	m.violations.Add(ctx, 0, constraintLabel("allotments_never_oversold"))
	m.repeats.Add(ctx, 0, repeatConflict)
	m.repeats.Add(ctx, 0, repeatLost)
	for _, set := range verdictSets {
		m.verdicts.Add(ctx, 0, set)
	}
}

var (
	repeatConflict = metric.WithAttributeSet(attribute.NewSet(attribute.String("holdfast.cause", "conflict")))
	repeatLost     = metric.WithAttributeSet(attribute.NewSet(attribute.String("holdfast.cause", "connection_lost")))

	verdictSets = map[store.VerdictKind]metric.MeasurementOption{
		store.VerdictSold: verdictSet("sold"), store.VerdictRefusedOrder: verdictSet("refused_order"),
		store.VerdictRefusedRoom: verdictSet("refused_room"), store.VerdictRefusedCart: verdictSet("refused_cart"),
		store.VerdictStale: verdictSet("stale"),
	}
)

func verdictSet(name string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("holdfast.verdict", name)))
}

func (m *instruments) count(ctx context.Context, verdicts []store.Verdict) {
	for _, v := range verdicts {
		if set, known := verdictSets[v.Kind]; known {
			m.verdicts.Add(ctx, 1, set)
		}
	}
}

// constraintLabel keeps the label set closed: the names are those of the migrations.
func constraintLabel(name string) metric.AddOption {
	return metric.WithAttributes(attribute.String("holdfast.constraint", name))
}
