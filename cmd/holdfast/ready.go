package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-inventory/holdfast/store/ledger"
)

const (
	checkEvery   = time.Second // until the service is ready
	checkTimeout = time.Second
	pingEvery    = 2 * time.Second
	auditEvery   = 10 * time.Second // once the service is ready
)

// checkSchema refuses to start on tables that do not fit. That they can't be looked at is no reason: the service
// then starts, decides on holds, and is ready as soon as they have been.
func (a *App) checkSchema(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var unfit *ledger.SchemaError
	if err := a.backend.schema(ctx); errors.As(err, &unfit) {
		return err
	}
	return nil
}

// becomeReady makes the service ready once the schema has been checked and as long as Redis's settings are not known
// to be bad. It logs what is missing, once. Ready is for good: what is found later, as of a server that has become
// master, is said by the audit.
func (a *App) becomeReady(ctx context.Context, settings *settingsAudit) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	said := ""
	schemaChecked := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		schemaErr := error(nil)
		if !schemaChecked {
			schemaErr = a.checked(ctx, a.backend.schema)
			schemaChecked = schemaErr == nil
		}
		bad, settingsErr := settings.look(ctx)
		a.server.SetReady(schemaChecked && len(bad) == 0)
		if schemaChecked && len(bad) == 0 && settingsErr == nil {
			a.log.Info("ready")
			settings.run(ctx)
			return
		}
		if missing := missingText(schemaErr, bad, settingsErr); missing != said && ctx.Err() == nil {
			said = missing
			a.log.Warn("not ready, or not known to be", "why", missing)
		}
		timer.Reset(checkEvery)
	}
}

func (a *App) checked(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return check(ctx)
}

func missingText(schema error, bad []string, settings error) string {
	var missing []string
	if schema != nil {
		missing = append(missing, schema.Error())
	}
	if settings != nil {
		missing = append(missing, "settings of Redis: "+settings.Error())
	}
	return fmt.Sprint(slices.Concat(missing, bad))
}

// storeWatch asks the stores for a sign of life, shows it as a metric, and logs when it changes.
type storeWatch struct {
	instruments
	pings map[string]func(context.Context) error
	up    metric.Int64Gauge
}

func newStoreWatch(pings map[string]func(context.Context) error, i instruments) (*storeWatch, error) {
	up, err := i.meters.Meter("github.com/holdfast-inventory/holdfast/cmd/holdfast").Int64Gauge("holdfast.store.up", metric.WithUnit("{store}"),
		metric.WithDescription("1 if the store answered when last asked, else 0, by store."))
	if err != nil {
		return nil, fmt.Errorf("holdfast.store.up: %w", err)
	}
	return &storeWatch{instruments: i, pings: pings, up: up}, nil
}

func (w *storeWatch) run(ctx context.Context) {
	var all sync.WaitGroup
	for store, ping := range w.pings {
		all.Go(func() { w.watch(ctx, store, ping) })
	}
	all.Wait()
}

func (w *storeWatch) watch(ctx context.Context, store string, ping func(context.Context) error) {
	label := metric.WithAttributeSet(attribute.NewSet(attribute.String("holdfast.store", store)))
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	wasUp := true // an outage at the start is a change
	for {
		err := pinged(ctx, ping)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err != nil && wasUp:
			w.log.Error("store is down", "store", store, "error", err)
		case err == nil && !wasUp:
			w.log.Info("store is up again", "store", store)
		}
		wasUp = err == nil
		w.up.Record(ctx, map[bool]int64{true: 1}[wasUp], label)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func pinged(ctx context.Context, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return ping(ctx)
}
