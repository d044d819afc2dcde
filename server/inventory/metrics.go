package inventory

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-inventory/holdfast/store"
)

// metrics are the instruments of the use cases. Attribute sets are closed and made once. docs/metrics.md lists them.
type metrics struct {
	confirmTime metric.Float64Histogram
	refusals    metric.Int64Counter
	adopts      metric.Int64Counter
	holdsEnded  metric.Int64Counter
	rewinds     metric.Int64Counter
	clockJumps  metric.Int64Counter
	results     map[string]metric.MeasurementOption
	verdicts    map[store.VerdictKind]metric.MeasurementOption
}

func newMetrics(provider metric.MeterProvider, s *supervisor) (*metrics, error) {
	meter := provider.Meter("github.com/holdfast-inventory/holdfast/server/inventory")
	m := &metrics{results: map[string]metric.MeasurementOption{}, verdicts: map[store.VerdictKind]metric.MeasurementOption{}}
	for _, result := range []string{"sold", "refused", "unknown"} {
		m.results[result] = metric.WithAttributeSet(attribute.NewSet(attribute.String("holdfast.result", result)))
	}
	for kind, name := range map[store.VerdictKind]string{
		store.VerdictRefusedOrder: "refused_order", store.VerdictRefusedRoom: "refused_room",
		store.VerdictRefusedCart: "refused_cart", store.VerdictStale: "stale",
	} {
		m.verdicts[kind] = metric.WithAttributeSet(attribute.NewSet(attribute.String("holdfast.verdict", name)))
	}
	var errs [7]error
	m.confirmTime, errs[0] = meter.Float64Histogram("holdfast.confirm.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of a confirm, from its arrival to its answer, by result."),
		metric.WithExplicitBucketBoundaries(.002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5))
	m.refusals, errs[1] = meter.Int64Counter("holdfast.ledger.refusals", metric.WithUnit("{hold}"),
		metric.WithDescription("Holds that the ledger did not make a sale of, by verdict. refused_room is a fault: Redis showed stock that is not there."))
	m.adopts, errs[2] = meter.Int64Counter("holdfast.adopts", metric.WithUnit("{allotment}"),
		metric.WithDescription("Allotments whose Redis state was rebuilt from the ledger under a raised epoch. A new allotment's first state is not counted."))
	m.holdsEnded, errs[3] = meter.Int64Counter("holdfast.adopt.ended_holds", metric.WithUnit("{hold}"),
		metric.WithDescription("Live holds that adopts ended, since more had survived than fit into what is not sold. None should."))
	m.rewinds, errs[4] = meter.Int64Counter("holdfast.adopt.rewinds", metric.WithUnit("{allotment}"),
		metric.WithDescription("Adopts that found Postgres to have gone back in time, and paused the allotment."))
	m.clockJumps, errs[5] = meter.Int64Counter("holdfast.redis.clock.jumps", metric.WithUnit("{jump}"),
		metric.WithDescription("Jumps of the clock of Redis by more than a second, which moved all deadlines by as much, as this server saw them."))
	errs[6] = observe(meter, s)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	m.begin()
	return m, nil
}

// begin makes counters known from the start: an alarm on their rise needs to know them before it.
func (m *metrics) begin() {
	ctx := context.Background()
	for _, counter := range []metric.Int64Counter{m.adopts, m.holdsEnded, m.rewinds, m.clockJumps} {
		counter.Add(ctx, 0)
	}
	for _, set := range m.verdicts {
		m.refusals.Add(ctx, 0, set)
	}
}

func (m *metrics) confirmed(ctx context.Context, took time.Duration, err error) {
	result := "sold"
	var no *store.Refusal
	var field *store.InvalidField
	if errors.As(err, &no) || errors.As(err, &field) {
		result = "refused"
	} else if err != nil {
		result = "unknown"
	}
	m.confirmTime.Record(ctx, took.Seconds(), m.results[result])
}

func (m *metrics) verdict(ctx context.Context, kind store.VerdictKind) {
	if set, refused := m.verdicts[kind]; refused {
		m.refusals.Add(ctx, 1, set)
	}
}

func (m *metrics) adopted(ctx context.Context, r *rebuild) {
	if r.row.Epoch > 1 {
		m.adopts.Add(ctx, 1)
	}
	m.holdsEnded.Add(ctx, int64(r.plan.dropped))
}
