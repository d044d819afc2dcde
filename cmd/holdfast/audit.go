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

// look returns what is bad, and warns of each weakness that was not there at the last look. An error: a server could not be
// asked; what was found there before is taken to stand.
func (s *settingsAudit) look(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	bad, weak, err := s.settings(ctx)
	if err != nil {
		bad, weak = append(bad, s.bad...), append(weak, s.weak...)
	}
	bad, weak = distinct(bad), distinct(weak)
	for _, text := range weak {
		if !slices.Contains(s.weak, text) {
			s.log.Warn("redis settings", "weak", text)
		}
	}
	s.weak = weak
	if err == nil || len(bad) > 0 { // else nothing is known
		s.unfit.Record(ctx, int64(len(bad)))
	}
	return bad, err
}

// distinct are the texts in order, each once.
func distinct(texts []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(texts)))
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
	bad, _ := s.look(ctx) // what could not be asked is told by the watch of the stores
	if slices.Equal(bad, s.bad) {
		return
	}
	s.bad = bad
	if len(bad) == 0 {
		s.log.Info("redis settings are as they should be again")
		return
	}
	s.log.Error("redis settings are unfit; the service goes on, and what it promises is at risk", "bad", bad)
}
