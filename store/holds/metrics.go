package holds

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-inventory/holdfast/store"
)

// metrics are the instruments of the store. Attribute sets are made once: these run for every batch. docs/metrics.md lists them.
type metrics struct {
	batchSize     metric.Int64Histogram
	full          metric.Int64Counter
	falseRefusals metric.Int64Counter
	lapseLag      metric.Float64Histogram
	lanes         map[lane]metric.MeasurementOption
	drivers       map[store.LapseDriver]metric.MeasurementOption
}

func newMetrics(provider metric.MeterProvider, s *Store) (*metrics, error) {
	meter := provider.Meter("github.com/holdfast-inventory/holdfast/store/holds")
	m := &metrics{lanes: map[lane]metric.MeasurementOption{}, drivers: map[store.LapseDriver]metric.MeasurementOption{}}
	for _, l := range []lane{laneCreate, laneCaller, laneFinish, laneUpkeep} {
		m.lanes[l] = metric.WithAttributeSet(attribute.NewSet(attribute.String("holdfast.lane", string(l))))
	}
	for _, d := range []store.LapseDriver{store.LapseByEvent, store.LapseBySweep, store.LapseByNeed} {
		m.drivers[d] = metric.WithAttributeSet(attribute.NewSet(attribute.String("holdfast.driver", string(d))))
	}
	var errs [6]error
	m.batchSize, errs[0] = meter.Int64Histogram("holdfast.queue.batch_size",
		metric.WithDescription("Requests sent to Redis in one batch."), metric.WithUnit("{request}"),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256, 512))
	m.full, errs[1] = meter.Int64Counter("holdfast.queue.rejections", metric.WithUnit("{request}"),
		metric.WithDescription("Requests for which there was no room in the queue in front of Redis."))
	m.falseRefusals, errs[2] = meter.Int64Counter("holdfast.false_refusals", metric.WithUnit("{refusal}"),
		metric.WithDescription("Refusals, SOLD_OUT or ALL_HELD, whose own numbers say that enough was free. Anything but 0 is a fault: alert."))
	m.lapseLag, errs[3] = meter.Float64Histogram("holdfast.lapse.lag",
		metric.WithDescription("Time from a hold's deadline to its release, by what drove it."), metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60))
	errs[4] = m.observe(meter, s)
	errs[5] = s.rejected.measure(meter)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	for _, set := range m.lanes {
		m.full.Add(context.Background(), 0, set) // an alarm on its rise needs to know it before
	}
	m.falseRefusals.Add(context.Background(), 0)
	return m, nil
}

// observe makes the instruments that are read when somebody asks.
func (m *metrics) observe(meter metric.Meter, s *Store) error {
	_, depthErr := meter.Int64ObservableGauge("holdfast.queue.depth",
		metric.WithDescription("Requests waiting for the next batch."), metric.WithUnit("{request}"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for l, set := range m.lanes {
				o.Observe(int64(s.waiting(l)), set)
			}
			return nil
		}))
	_, silenceErr := meter.Float64ObservableGauge("holdfast.redis.notifications.silence", metric.WithUnit("s"),
		metric.WithDescription("Time since an expiry was last heard of from the server of Redis that has been silent for longest. One is provoked each second."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(s.hearing.silence(time.Now()).Seconds())
			return nil
		}))
	_, evictedErr := meter.Int64ObservableCounter("holdfast.redis.evicted_keys", metric.WithUnit("{key}"),
		metric.WithDescription("Keys that the masters of Redis have evicted since they started, as last seen. Anything but 0 loses holds or counters."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(s.evicted())
			return nil
		}))
	ofFullest := func(of func(*memory) int64) metric.Int64ObservableGaugeOption {
		return metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			if fullest := s.fullest(); fullest != nil {
				o.Observe(of(fullest))
			}
			return nil
		})
	}
	_, usedErr := meter.Int64ObservableGauge("holdfast.redis.memory.used", metric.WithUnit("By"),
		metric.WithDescription("Memory of the master of Redis that is fullest, as far as it counts against its maxmemory, as last seen."),
		ofFullest(func(m *memory) int64 { return m.used }))
	_, maxErr := meter.Int64ObservableGauge("holdfast.redis.memory.max", metric.WithUnit("By"),
		metric.WithDescription("Its maxmemory, beyond which it refuses to write; 0: none is set."),
		ofFullest(func(m *memory) int64 { return m.most }))
	return errors.Join(depthErr, silenceErr, evictedErr, usedErr, maxErr)
}

func (m *metrics) batch(l lane, size int) {
	m.batchSize.Record(context.Background(), int64(size), m.lanes[l])
}

func (m *metrics) lapsed(ctx context.Context, by store.LapseDriver, lag time.Duration) {
	m.lapseLag.Record(ctx, lag.Seconds(), m.drivers[by])
}
