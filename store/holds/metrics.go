package holds

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-inventory/holdfast/store"
)

// metrics are the instruments of the queue. Attribute sets are made once: these run for every batch.
type metrics struct {
	batchSize metric.Int64Histogram
	lapseLag  metric.Float64Histogram
	lanes     map[lane]metric.MeasurementOption
	drivers   map[store.LapseDriver]metric.MeasurementOption
}

func newMetrics(provider metric.MeterProvider, waiting func(lane) int) (*metrics, error) {
	meter := provider.Meter("github.com/holdfast-inventory/holdfast/store/holds")
	m := &metrics{lanes: map[lane]metric.MeasurementOption{}, drivers: map[store.LapseDriver]metric.MeasurementOption{}}
	for _, l := range []lane{laneCreate, laneCaller, laneFinish, laneUpkeep} {
		m.lanes[l] = metric.WithAttributeSet(attribute.NewSet(attribute.String("lane", string(l))))
	}
	for _, d := range []store.LapseDriver{store.LapseByEvent, store.LapseBySweep, store.LapseByNeed} {
		m.drivers[d] = metric.WithAttributeSet(attribute.NewSet(attribute.String("driver", string(d))))
	}
	var err error
	if m.batchSize, err = meter.Int64Histogram("holdfast.queue.batch_size",
		metric.WithDescription("Requests sent to Redis in one batch."), metric.WithUnit("{request}"),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256, 512)); err != nil {
		return nil, err
	}
	if m.lapseLag, err = meter.Float64Histogram("holdfast.lapse.lag",
		metric.WithDescription("Time from a hold's deadline to its release, by what drove it."), metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)); err != nil {
		return nil, err
	}
	_, err = meter.Int64ObservableGauge("holdfast.queue.depth",
		metric.WithDescription("Requests waiting for the next batch."), metric.WithUnit("{request}"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for l, set := range m.lanes {
				o.Observe(int64(waiting(l)), set)
			}
			return nil
		}))
	return m, err
}

func (m *metrics) batch(l lane, size int) {
	m.batchSize.Record(context.Background(), int64(size), m.lanes[l])
}

func (m *metrics) lapsed(ctx context.Context, by store.LapseDriver, lag time.Duration) {
	m.lapseLag.Record(ctx, lag.Seconds(), m.drivers[by])
}
