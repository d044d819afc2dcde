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
	m.violations, errs[0] = meter.Int64Counter("holdfast.ledger.constraint_violations",
		metric.WithDescription("Writes that a constraint of the ledger had to stop. Anything but 0 is a bug: alert."))
	m.verdicts, errs[1] = meter.Int64Counter("holdfast.ledger.verdicts",
		metric.WithDescription("Verdicts of the ledger step by kind, repeats included."))
	m.batchSize, errs[2] = meter.Int64Histogram("holdfast.ledger.batch_size",
		metric.WithDescription("Confirms that shared a transaction."),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128))
	m.settleTime, errs[3] = meter.Float64Histogram("holdfast.ledger.settle_time", metric.WithUnit("s"),
		metric.WithDescription("Time of a ledger step, from taking its batch to its end."),
		metric.WithExplicitBucketBoundaries(.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2))
	m.repeats, errs[4] = meter.Int64Counter("holdfast.ledger.repeats",
		metric.WithDescription("Transactions run again, by cause."))
	return &m, errors.Join(errs[:]...)
}

var (
	repeatConflict = metric.WithAttributeSet(attribute.NewSet(attribute.String("cause", "conflict")))
	repeatLost     = metric.WithAttributeSet(attribute.NewSet(attribute.String("cause", "connection_lost")))
)

func (m *instruments) count(ctx context.Context, verdicts []store.Verdict) {
	for _, v := range verdicts {
		m.verdicts.Add(ctx, 1, metric.WithAttributes(attribute.String("verdict", verdictLabel(v.Kind))))
	}
}

func verdictLabel(k store.VerdictKind) string {
	switch k {
	case store.VerdictSold:
		return "sold"
	case store.VerdictRefusedOrder:
		return "refused_order"
	case store.VerdictRefusedRoom:
		return "refused_room"
	case store.VerdictRefusedCart:
		return "refused_cart"
	case store.VerdictStale:
		return "stale"
	}
	return "unknown"
}

// constraintLabel keeps the label set closed: the names are those of the migrations.
func constraintLabel(name string) metric.AddOption {
	return metric.WithAttributes(attribute.String("constraint", name))
}
