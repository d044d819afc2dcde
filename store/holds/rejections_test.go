package holds

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestRejections: a server that answers and refuses is told apart from one that does not answer: callers, the log (seldom) and
// the metric have the word that it gave. A reply that is an error is not read as a script's reply.
func TestRejections(t *testing.T) {
	t.Parallel()
	for kind, refuse := range map[string]func(*fixture) error{
		"OOM":        func(f *fixture) error { return f.raw.ConfigSet(f.ctx(), "maxmemory", "1mb").Err() },
		"NOREPLICAS": func(f *fixture) error { return f.raw.ConfigSet(f.ctx(), "min-replicas-to-write", "1").Err() },
		"NOPERM":     func(f *fixture) error { return f.raw.Do(f.ctx(), "acl", "setuser", "app", "-evalsha").Err() },
		"WRONGPASS": func(f *fixture) error {
			return errors.Join(f.raw.Do(f.ctx(), "acl", "setuser", "app", "resetpass", ">other").Err(),
				f.raw.Do(f.ctx(), "client", "kill", "type", "normal", "skipme", "yes").Err())
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := storetest.NewRedis(t, local.RedisOptions{ExtraArgs: []string{"--user", "app", "on", ">right", "~*", "&*", "+@all"}})
			reader := sdkmetric.NewManualReader()
			f := setup(t, 5, onRedis(strings.Replace(server.URL(), "redis://", "redis://app:right@", 1)),
				fixtureOption(func(_ *fixture, o *Options) { o.Meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)) }))
			f.hold("a", "request", 1)
			begin := time.Now()
			must(t, refuse(f))
			storetest.Eventually(t, patience, func() error { // connections may be made anew first
				err := errOf(f.Create(f.ctx(), f.request("x", "request", 1)))
				if no, told := errors.AsType[*store.Rejection](err); !errors.Is(err, store.ErrUnavailable) || !told || no.Kind != kind {
					return fmt.Errorf("Create: %w", err)
				}
				return nil
			})
			before := rejected(t, reader)[kind]
			const calls = 50
			for range calls {
				_ = errOf(f.Create(f.ctx(), f.request("x", "request", 1)))
			}
			if got := rejected(t, reader)[kind] - before; got != calls {
				t.Errorf("%d of %d refusals were counted", got, calls)
			}
			most := int(time.Since(begin)/time.Second) + 1
			if n := f.logs.count("level=ERROR"); n > most || f.logs.count("reason="+kind) == 0 || f.logs.count("error=\""+kind+" ") == 0 {
				t.Errorf("%d refusals were logged %d times, want once a second:\n%s", calls, n, f.logs)
			}
			if strings.Contains(f.logs.String(), "right") {
				t.Errorf("the password was logged:\n%s", f.logs)
			}
		})
	}
}

// TestMemory: what Redis uses of what it may is known as of the last look at its settings.
func TestMemory(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{})
	f := setup(t, 5, onRedis(server.URL()))
	const most = 64 << 20
	must(t, f.raw.ConfigSet(f.ctx(), "maxmemory", "64mb").Err())
	if m := f.fullest(); m != nil {
		t.Errorf("%+v before the first look", m)
	}
	_, _, err := f.CheckSettings(f.ctx())
	must(t, err)
	if m := f.fullest(); m == nil || m.most != most || m.used < 1<<19 || m.used > most {
		t.Errorf("fullest: %+v, want one of %d", m, most)
	}
}

// rejected is how many refusals were counted, by kind.
func rejected(t *testing.T, reader sdkmetric.Reader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	must(t, reader.Collect(context.Background(), &all))
	got := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			data, ok := m.Data.(metricdata.Sum[int64])
			if !ok || m.Name != "holdfast.redis.rejections" {
				continue
			}
			for _, p := range data.DataPoints {
				kind, _ := p.Attributes.Value(attribute.Key("holdfast.rejection"))
				got[kind.AsString()] = p.Value
			}
		}
	}
	if len(got) != len(rejectionKinds()) {
		t.Errorf("the metric has %v, want each of %v from the start", got, rejectionKinds())
	}
	return got
}
