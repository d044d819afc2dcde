package inventory

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-inventory/holdfast/store"
)

// metrics are the instruments of the use cases. Attribute sets are closed and made once.
type metrics struct {
	confirmTime metric.Float64Histogram
	refusals    metric.Int64Counter
	adopts      metric.Int64Counter
	holdsEnded  metric.Int64Counter
	clockJumps  metric.Int64Counter
	results     map[string]metric.MeasurementOption
	kinds       map[store.VerdictKind]metric.MeasurementOption
}

func newMetrics(provider metric.MeterProvider, s *supervisor) (*metrics, error) {
	meter := provider.Meter("github.com/holdfast-inventory/holdfast/server/inventory")
	m := &metrics{results: map[string]metric.MeasurementOption{}, kinds: map[store.VerdictKind]metric.MeasurementOption{}}
	for _, result := range []string{"sold", "refused", "unknown"} {
		m.results[result] = metric.WithAttributeSet(attribute.NewSet(attribute.String("result", result)))
	}
	for kind, name := range map[store.VerdictKind]string{
		store.VerdictRefusedOrder: "order", store.VerdictRefusedRoom: "room", store.VerdictRefusedCart: "cart", store.VerdictStale: "stale",
	} {
		m.kinds[kind] = metric.WithAttributeSet(attribute.NewSet(attribute.String("kind", name)))
	}
	var errs [6]error
	m.confirmTime, errs[0] = meter.Float64Histogram("holdfast.confirm.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of a confirm, from its arrival to its answer, by result."),
		metric.WithExplicitBucketBoundaries(.002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5))
	m.refusals, errs[1] = meter.Int64Counter("holdfast.ledger.refusals", metric.WithUnit("{hold}"),
		metric.WithDescription("Holds that the ledger did not make a sale of, by kind. Kind room is a fault: Redis showed stock that is not there."))
	m.adopts, errs[2] = meter.Int64Counter("holdfast.adopts", metric.WithUnit("{allotment}"),
		metric.WithDescription("Allotments whose Redis state was rebuilt from the ledger under a raised epoch. A new allotment's first state is not counted."))
	m.holdsEnded, errs[3] = meter.Int64Counter("holdfast.adopts.holds_ended", metric.WithUnit("{hold}"),
		metric.WithDescription("Live holds that adopts ended, since more had survived than fit into what is not sold. None should."))
	m.clockJumps, errs[4] = meter.Int64Counter("holdfast.redis.clock.jumps", metric.WithUnit("{jump}"),
		metric.WithDescription("Jumps of the clock of Redis by more than a second, which moved all deadlines by as much, as this server saw them."))
	errs[5] = m.gauges(meter, s)
	for _, counter := range []metric.Int64Counter{m.adopts, m.holdsEnded, m.clockJumps} {
		if counter != nil {
			counter.Add(context.Background(), 0) // an alarm on its rise needs to know it before
		}
	}
	return m, errors.Join(errs[:]...)
}

func (m *metrics) gauges(meter metric.Meter, s *supervisor) error {
	gauge := func(name, unit, description string) (metric.Int64ObservableGauge, error) {
		return meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	}
	var errs [4]error
	var allotments, units, held, confirming metric.Int64ObservableGauge
	allotments, errs[0] = gauge("holdfast.conservation.allotments_off", "{allotment}",
		"Allotments whose numbers do not add up; which ones is in the log.")
	units, errs[1] = gauge("holdfast.conservation.units_off", "{unit}", "Sum of what allotments are off by.")
	held, errs[2] = gauge("holdfast.units.held", "{unit}", "Units in live holds, as of the last look at each allotment.")
	confirming, errs[3] = gauge("holdfast.units.confirming", "{unit}", "Units in confirms and shrinks under way.")
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		n, off, h, c := s.totals()
		o.ObserveInt64(allotments, n)
		o.ObserveInt64(units, off)
		o.ObserveInt64(held, h)
		o.ObserveInt64(confirming, c)
		return nil
	}, allotments, units, held, confirming)
	return err
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
	if set, refused := m.kinds[kind]; refused {
		m.refusals.Add(ctx, 1, set)
	}
}

func (m *metrics) adopted(ctx context.Context, r *rebuild) {
	if r.row.Epoch > 1 {
		m.adopts.Add(ctx, 1)
	}
	m.holdsEnded.Add(ctx, int64(r.plan.dropped))
}
