package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// settingsAudit looks at the settings of Redis, and tells of a change once.
type settingsAudit struct {
	instruments
	settings  func(ctx context.Context) (bad, weak []string, err error)
	unfit     metric.Int64Gauge
	bad, weak []string // as last seen
}

func newSettingsAudit(settings func(context.Context) (bad, weak []string, err error), i instruments) (*settingsAudit, error) {
	unfit, err := i.meters.Meter("github.com/holdfast-inventory/holdfast/cmd/holdfast").Int64Gauge("holdfast.redis.unfit_settings", metric.WithUnit("{setting}"),
		metric.WithDescription("Settings of Redis under which it is unfit for holds, as last seen; the log says which."))
	if err != nil {
		return nil, fmt.Errorf("holdfast.redis.unfit_settings: %w", err)
	}
	return &settingsAudit{instruments: i, settings: settings, unfit: unfit}, nil
}

// look returns what is bad, and warns of each weakness that was not there at the last look.
func (s *settingsAudit) look(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	bad, weak, err := s.settings(ctx)
	if err != nil {
		return bad, err // of what could not be asked nothing new is known
	}
	for _, text := range weak {
		if !slices.Contains(s.weak, text) {
			s.log.Warn("redis settings", "weak", text)
		}
	}
	s.weak = weak
	s.unfit.Record(ctx, int64(len(bad)))
	return bad, nil
}

// run looks now and then. A bad setting is an error in the log; taking every replica out of service for it would not mend it.
func (s *settingsAudit) run(ctx context.Context) {
	ticker := time.NewTicker(auditEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.again(ctx)
	}
}

func (s *settingsAudit) again(ctx context.Context) {
	bad, err := s.look(ctx)
	if err != nil || slices.Equal(bad, s.bad) {
		return
	}
	s.bad = bad
	if len(bad) == 0 {
		s.log.Info("redis settings are as they should be again")
		return
	}
	s.log.Error("redis settings are unfit; the service goes on, and what it promises is at risk", "bad", bad)
}
