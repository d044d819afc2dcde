package inventory

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// sums are over all allotments, as the supervisor saw each in its last look.
type sums struct {
	off, offUnits     int64         // allotments whose numbers do not add up, and the sum of what they are off by
	offFor            time.Duration // for the one that has been off for longest
	held, confirming  int64         // units
	confirms, overdue int64         // confirms and shrinks under way, and those of them whose lease is out
	rebuilding        int64         // allotments of which nothing is decided before their state has been rebuilt
	lapseOverdue, lag time.Duration // of the lapsed hold that has had its units for longest; of the look that is overdue for longest
}

// observe makes the gauges, which are read when somebody asks.
func observe(meter metric.Meter, s *supervisor) error {
	return errors.Join(
		observeCounts(meter, s), observeTimes(meter, s), observeHot(meter, s),
	)
}

func observeCounts(meter metric.Meter, s *supervisor) error {
	var errs []error
	var all []metric.Observable
	gauge := func(name, unit, description string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs, all = append(errs, err), append(all, g)
		return g
	}
	off := gauge("holdfast.conservation.allotments_off", "{allotment}",
		"Allotments whose numbers do not add up, as of the last look at each; which ones is in the log.")
	units := gauge("holdfast.conservation.units_off", "{unit}", "Sum of what allotments are off by.")
	held := gauge("holdfast.units.held", "{unit}", "Units in live holds, as of the last look at each allotment.")
	confirming := gauge("holdfast.units.confirming", "{unit}", "Units in confirms and shrinks under way.")
	pending := gauge("holdfast.confirm.pending", "{hold}", "Holds, and shrinks, in CONFIRMING.")
	overdue := gauge("holdfast.confirm.overdue", "{hold}",
		"Those whose confirm was not ended in its time, so that supervisors have to.")
	rebuilding := gauge("holdfast.adopt.pending", "{allotment}",
		"Allotments of which nothing is decided before their state in Redis has been rebuilt.")
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		n := s.sums(time.Now())
		o.ObserveInt64(off, n.off)
		o.ObserveInt64(units, n.offUnits)
		o.ObserveInt64(held, n.held)
		o.ObserveInt64(confirming, n.confirming)
		o.ObserveInt64(pending, n.confirms)
		o.ObserveInt64(overdue, n.overdue)
		o.ObserveInt64(rebuilding, n.rebuilding)
		return nil
	}, all...)
	return err
}

func observeTimes(meter metric.Meter, s *supervisor) error {
	var errs []error
	var all []metric.Observable
	gauge := func(name, description string) metric.Float64ObservableGauge {
		g, err := meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(description))
		errs, all = append(errs, err), append(all, g)
		return g
	}
	off := gauge("holdfast.conservation.off_duration", "How long the allotment has been off that has been for longest.")
	lapse := gauge("holdfast.lapse.overdue",
		"How long past its deadline the hold was, when last looked at, that has kept its units for longest.")
	late := gauge("holdfast.supervisor.lag", "How long the look at an allotment is overdue that has been for longest.")
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		n := s.sums(time.Now())
		o.ObserveFloat64(off, n.offFor.Seconds())
		o.ObserveFloat64(lapse, n.lapseOverdue.Seconds())
		o.ObserveFloat64(late, n.lag.Seconds())
		return nil
	}, all...)
	return err
}

// observeHot shows the stock of the hottest allotments. Their ids are the only ones among all attributes, and never more
// than hotShown of them.
func observeHot(meter metric.Meter, s *supervisor) error {
	units, unitsErr := meter.Int64ObservableGauge("holdfast.hot.units", metric.WithUnit("{unit}"),
		metric.WithDescription("Units of the allotments that were asked for most of late, by what they are, as of the last look."))
	requests, requestsErr := meter.Float64ObservableGauge("holdfast.hot.requests", metric.WithUnit("{request}/s"),
		metric.WithDescription("Requests for holds of these allotments that this server sent to Redis, of late."))
	if err := errors.Join(unitsErr, requestsErr); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, h := range s.hottest() {
			id := attribute.String("holdfast.allotment", h.id)
			o.ObserveFloat64(requests, h.perSecond, metric.WithAttributes(id))
			if !h.seen {
				continue
			}
			for state, n := range map[string]int64{"available": h.available, "held": h.held, "sold": h.sold} {
				o.ObserveInt64(units, n, metric.WithAttributes(id, attribute.String("holdfast.state", state)))
			}
		}
		return nil
	}, units, requests)
	return err
}
