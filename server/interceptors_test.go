package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// failing makes every use case fail.
func failing(err error) func(context.Context, string) error {
	return func(context.Context, string) error { return err }
}

// untilDone makes every use case wait for the end of its context, and fail with what wrap makes of it.
func untilDone(wrap func(error) error) func(context.Context, string) error {
	return func(ctx context.Context, _ string) error {
		<-ctx.Done()
		return wrap(ctx.Err())
	}
}

func asIs(err error) error { return err }

func TestPanic(t *testing.T) {
	var log storetest.Log
	f := &fake{before: func(context.Context, string) error { panic("secret of a bug") }}
	b := startServer(t, f, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for _, method := range []string{"CreateHold", "WatchAvailability", "GetAllotment"} {
		err := b.call(t, method, validRequests()[method])
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want INTERNAL with a fixed text", method, err)
		}
	}
	f.before = nil
	if err := b.call(t, "CreateHold", validRequests()["CreateHold"]); err != nil {
		t.Errorf("a call after the panics: %v", err)
	}
	if got := b.sum(t, "holdfast.panics", ""); got != 3 {
		t.Errorf("counted %d panics, want 3", got)
	}
	if text := log.String(); !strings.Contains(text, "secret of a bug") || !strings.Contains(text, "interceptors_test.go") {
		t.Errorf("the log has not value and stack: %s", text)
	}
}

func TestUnknownErrorIsLogged(t *testing.T) {
	var log storetest.Log
	b := startServer(t, &fake{before: failing(errors.New("the cause"))}, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	err := b.call(t, "CreateHold", validRequests()["CreateHold"])
	if st := status.Convert(err); st.Code() != codes.Internal || st.Message() != internalText {
		t.Errorf("got %v", st)
	}
	if text := log.String(); !strings.Contains(text, "the cause") || !strings.Contains(text, "CreateHold") {
		t.Errorf("log: %s", text)
	}
}

// TestBudgets checks the deadline that each method's use case gets, by what the caller gives.
func TestBudgets(t *testing.T) {
	left := make(chan time.Duration, 1)
	f := &fake{before: func(ctx context.Context, _ string) error {
		deadline, ok := ctx.Deadline()
		if !ok {
			left <- 0
			return nil
		}
		left <- time.Until(deadline)
		return nil
	}}
	b := startServer(t, f, func(o *Options) {
		o.Budgets = Budgets{Decision: time.Minute, Call: 2 * time.Minute, Reconcile: 3 * time.Minute}
	})
	budgets := map[string]time.Duration{
		"GetAvailability": time.Minute, "BatchGetAvailability": time.Minute, "CreateHold": time.Minute,
		"BatchCreateHolds": time.Minute, "GetHold": time.Minute, "ExtendHold": time.Minute, "CancelHold": time.Minute,
		"WatchAvailability": 0, "ReconcileAllotment": 3 * time.Minute,
	}
	for method, request := range validRequests() {
		want, ok := budgets[method]
		if !ok {
			want = 2 * time.Minute
		}
		if err := b.call(t, method, request); err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		if got := <-left; got > want || got < want-10*time.Second {
			t.Errorf("%s has %v, want %v", method, got, want)
		}
	}
	for _, test := range []struct{ given, want time.Duration }{
		{time.Hour, time.Minute}, {30 * time.Second, 30 * time.Second},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), test.given)
		defer cancel()
		if _, err := b.holds.GetAvailability(ctx, &pb.GetAvailabilityRequest{AllotmentId: "concert"}); err != nil {
			t.Fatal(err)
		}
		if got := <-left; got > test.want || got < test.want-10*time.Second {
			t.Errorf("caller gives %v, use case has %v, want %v", test.given, got, test.want)
		}
	}
}

// TestTimeIsUp tells our budget, which is trouble, from the caller's deadline.
func TestTimeIsUp(t *testing.T) {
	unavailable := func(err error) error { return fmt.Errorf("%w: %w", store.ErrUnavailable, err) }
	rebuilding := func(err error) error { return fmt.Errorf("%w: %w", store.ErrRebuilding, err) }
	unknown := func(err error) error { return fmt.Errorf("%w: %w", store.ErrResultUnknown, err) }
	tests := []struct {
		name    string
		wrap    func(error) error
		given   time.Duration // the caller's; 0: none
		reason  string
		outcome string
	}{
		{"budget", asIs, 0, "STORE_UNAVAILABLE", "STORE_UNAVAILABLE"},
		{"budget, wrapped", unavailable, 0, "STORE_UNAVAILABLE", "STORE_UNAVAILABLE"},
		{"budget in an adopt", rebuilding, 0, "REBUILDING", "REBUILDING"},
		{"budget in a confirm", unknown, 0, "RESULT_UNKNOWN", "RESULT_UNKNOWN"},
		{"caller", asIs, 300 * time.Millisecond, "", "DEADLINE_EXCEEDED"},
		{"caller, wrapped", unavailable, 300 * time.Millisecond, "", "DEADLINE_EXCEEDED"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := startServer(t, &fake{before: untilDone(test.wrap)}, func(o *Options) {
				o.Budgets.Decision = 100 * time.Millisecond
				if test.given > 0 {
					o.Budgets.Decision = time.Minute
				}
			})
			ctx := t.Context()
			if test.given > 0 {
				limited, cancel := context.WithTimeout(ctx, test.given)
				defer cancel()
				ctx = limited
			}
			_, err := b.holds.GetHold(ctx, &pb.GetHoldRequest{HoldId: aHold})
			st := status.Convert(err)
			if test.reason == "" {
				if st.Code() != codes.DeadlineExceeded {
					t.Errorf("got %v", st)
				}
			} else if got := detail[*errdetails.ErrorInfo](st).GetReason(); st.Code() != codes.Unavailable || got != test.reason {
				t.Errorf("got %v with reason %s", st, got)
			}
			// A caller whose deadline passes also resets its stream, and either may be seen first.
			b.eventually(t, func() bool {
				return b.sum(t, "holdfast.decisions", test.outcome) == 1 ||
					test.given > 0 && b.sum(t, "holdfast.decisions", "CANCELLED") == 1
			}, "counted as "+test.outcome)
		})
	}
}

func TestCallerGoes(t *testing.T) {
	arrived := make(chan struct{})
	f := &fake{before: func(ctx context.Context, _ string) error {
		close(arrived)
		<-ctx.Done()
		return fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
	}}
	b := startServer(t, f, func(o *Options) { o.Budgets.Decision = time.Minute })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := b.holds.GetHold(ctx, &pb.GetHoldRequest{HoldId: aHold})
	if status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
	b.eventually(t, func() bool { return b.sum(t, "holdfast.decisions", "CANCELLED") == 1 }, "counted as CANCELLED")
}

// TestPushback checks that what may be repeated carries the trailer that gRPC's own retries obey, and nothing else does.
func TestPushback(t *testing.T) {
	for reason, cause := range everyError() {
		f := failureOf(cause)
		b := startServer(t, &fake{before: failing(cause)}, nil)
		var trailer metadata.MD
		_, err := b.holds.CreateHold(t.Context(),
			&pb.CreateHoldRequest{AllotmentId: "concert", BuyerId: "ann", RequestId: "r", Quantity: 1}, grpc.Trailer(&trailer))
		st := status.Convert(err)
		if st.Code() != f.status.Code() || detail[*errdetails.ErrorInfo](st).GetReason() != reason {
			t.Errorf("%s: got %v", reason, st)
		}
		retry := st.Code() == codes.Unavailable || st.Code() == codes.ResourceExhausted
		pushback := trailer.Get(pushbackTrailer)
		if retry != (len(pushback) == 1) {
			t.Errorf("%s: trailer %v", reason, pushback)
			continue
		}
		if retry {
			millis, err := strconv.Atoi(pushback[0])
			delay := detail[*errdetails.RetryInfo](st).GetRetryDelay().AsDuration()
			if err != nil || time.Duration(millis)*time.Millisecond != delay || millis < 10 || millis > 5000 {
				t.Errorf("%s: trailer %q, RetryInfo %v", reason, pushback[0], delay)
			}
		}
		if got := b.sum(t, "holdfast.decisions", reason); got != 1 {
			t.Errorf("%s: counted %d times", reason, got)
		}
	}
}

// TestLabels checks that no id ever gets into a label, and that the series are few.
func TestLabels(t *testing.T) {
	b := startServer(t, &fake{}, nil)
	for n := range 200 {
		_, err := b.holds.CreateHold(t.Context(), &pb.CreateHoldRequest{
			AllotmentId: fmt.Sprintf("marker-%d", n), BuyerId: "marker", RequestId: "marker", Quantity: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	series := 0
	for _, m := range b.collect(t) {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			series += len(data.DataPoints)
			for _, p := range data.DataPoints {
				if strings.Contains(p.Attributes.Encoded(labels), "marker") {
					t.Errorf("%s has a label %s", m.Name, p.Attributes.Encoded(labels))
				}
			}
		case metricdata.Histogram[float64]:
			series += len(data.DataPoints)
			for _, p := range data.DataPoints {
				if strings.Contains(p.Attributes.Encoded(labels), "marker") {
					t.Errorf("%s has a label %s", m.Name, p.Attributes.Encoded(labels))
				}
			}
		}
	}
	if series == 0 || series > 10 {
		t.Errorf("%d series for one method with one outcome", series)
	}
}

func TestEveryMethodIsKnown(t *testing.T) {
	s := startServer(t, &fake{}, nil).server
	recorders, err := newRecorders(s.options.Meter.Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	table := methodTable(Budgets{}.withDefaults(), recorders)
	count := 0
	for service, info := range s.main.server.GetServiceInfo() {
		ours := strings.HasPrefix(service, "holdfast.")
		for _, m := range info.Methods {
			count++
			known, ok := table["/"+service+"/"+m.Name]
			if !ok || known.ours != ours || ours && (known.budget == nil) != m.IsServerStream {
				t.Errorf("%s/%s: %+v", service, m.Name, known)
			}
		}
	}
	if count != len(table) {
		t.Errorf("%d methods, the table has %d", count, len(table))
	}
}
