package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/tap"
)

// callTimer records how long calls of one method take, by status code, under the names of OpenTelemetry's
// conventions for RPC. The stock stats handler does so too, but makes its sets of attributes anew for each
// call. So it is only there for traces.
type callTimer struct {
	duration metric.Float64Histogram
	byCode   [codes.Unauthenticated + 1][]metric.RecordOption
}

func newCallDuration(meter metric.Meter) (metric.Float64Histogram, error) {
	duration, err := meter.Float64Histogram("rpc.server.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from a call's arrival to its answer, by method and status code."),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10))
	if err != nil {
		return nil, fmt.Errorf("rpc.server.call.duration: %w", err)
	}
	return duration, nil
}

func newCallTimer(duration metric.Float64Histogram, fullMethod string) *callTimer {
	t := &callTimer{duration: duration}
	for code := range t.byCode {
		t.byCode[code] = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(
			attribute.String("rpc.system.name", "grpc"),
			methodAttribute(fullMethod),
			attribute.String("rpc.response.status_code", codeName(codes.Code(code))),
		))}
	}
	return t
}

// methodAttribute is a method's name as OpenTelemetry's conventions have it.
func methodAttribute(fullMethod string) attribute.KeyValue {
	return attribute.String("rpc.method", strings.TrimPrefix(fullMethod, "/"))
}

func (t *callTimer) record(ctx context.Context, took time.Duration, code codes.Code) {
	if int(code) < len(t.byCode) {
		t.duration.Record(ctx, took.Seconds(), t.byCode[code]...)
	}
}

// arrival is the context of a call that knows when it came. Its handler may begin later: with more calls than cores that
// is most of what a call waits.
type arrival struct {
	context.Context
	at time.Time
}

type arrivalKey struct{}

// arrive is called by gRPC when it has read the headers of a call.
func arrive(ctx context.Context, _ *tap.Info) (context.Context, error) {
	return &arrival{Context: ctx, at: time.Now()}, nil
}

// Value finds the arrival itself.
func (a *arrival) Value(key any) any {
	if key == (arrivalKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// arrivalOf is when a call came; now, without gRPC.
func arrivalOf(ctx context.Context) time.Time {
	if a, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		return a.at
	}
	return time.Now()
}
