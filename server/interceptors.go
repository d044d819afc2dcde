package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-inventory/holdfast/server/auth"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/budget"
)

// streamPatience is how long a stopping server waits for a stream's handler to return by itself.
const streamPatience = 200 * time.Millisecond

// interceptors is what stands between gRPC and the handlers: each call is counted, guarded against panics, held against
// what its caller may do, given a deadline, validated, and held against its buyer's limit, in this order.
type interceptors struct {
	log       *slog.Logger
	methods   map[string]*method // by full name
	validator *validator
	door      *door
	crowd     *crowd
	limiter   *limiter
	panics    metric.Int64Counter
	ending    context.Context // done when streams must end
	running   *running
	auth      *auth.Authenticator // nil: everybody may do everything
	calls     *gate
	streams   *gate
	denials   *denials
	answered  *answered
}

// running is what Stop waits for.
type running struct {
	calls   atomic.Int64   // not answered yet
	streams sync.WaitGroup // handlers of streams, which may outlast their calls
}

// method is what the interceptors know of one.
type method struct {
	budget   *budget.Budget // from arrival to answer; nil: none
	calls    *callTimer     // nil: not measured
	recorder *recorder      // nil: not a decision
	ours     bool           // has rules to be validated
	limited  bool           // asks for holds: has the door and its buyer's limit in front
	confirms bool           // has the crowd in front
	roles    auth.Roles     // any of which may call it
	audited  bool           // its use case wants to know who calls
}

// nobodys is a method that is in no table, which nobody with a role may call.
var nobodys = &method{}

func (i *interceptors) method(name string) *method {
	if m, ok := i.methods[name]; ok {
		return m
	}
	return nobodys
}

func (i *interceptors) stream() []grpc.StreamServerInterceptor {
	return []grpc.StreamServerInterceptor{i.observeStream, i.protectStream, i.enterStream, i.limitStream}
}

// unary is one interceptor for all that is done: a chain of them costs a closure for each, of each call.
func (i *interceptors) unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	i.running.calls.Add(1)
	defer i.running.calls.Add(-1)
	m, arrived := i.method(info.FullMethod), arrivalOf(ctx)
	resp, f := i.protect(ctx, m, info.FullMethod, arrived, req, handler)
	m.record(ctx, time.Since(arrived), f)
	if f != nil {
		return nil, f
	}
	return resp, nil
}

// record times a call, and counts and times a decision. f is nil if it went well.
func (m *method) record(ctx context.Context, took time.Duration, f *failure) {
	code, outcome := codes.OK, "OK"
	if f != nil {
		code, outcome = f.status.Code(), f.outcome
	}
	if m.calls != nil {
		m.calls.record(ctx, took, code)
	}
	if m.recorder != nil {
		m.recorder.record(ctx, took, outcome)
	}
}

// protect turns errors and panics into failures.
func (i *interceptors) protect(
	ctx context.Context, m *method, name string, arrived time.Time, req any, handler grpc.UnaryHandler,
) (resp any, f *failure) {
	defer func() {
		if r := recover(); r != nil {
			f = i.failed(ctx, name, i.panicked(ctx, name, r))
		}
	}()
	resp, err := i.enter(ctx, m, name, arrived, req, handler)
	if err != nil {
		return nil, i.failed(ctx, name, err)
	}
	return resp, nil
}

// limit gives a call its budget, unless the caller gave it less. When the budget runs out before the caller's
// deadline that is trouble of ours, which the caller is told to repeat, and not its deadline.
func (i *interceptors) limit(
	ctx context.Context, m *method, arrived time.Time, req any, handler grpc.UnaryHandler,
) (any, error) {
	limited := ctx
	if m.budget != nil {
		limited = m.budget.Context(ctx, arrived)
	}
	resp, err := i.admit(limited, m, arrived, req, handler)
	if err != nil && limited != ctx && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil &&
		failureOf(err).outcome == outcomeDeadline {
		err = fmt.Errorf("%w: not decided within %v", store.ErrUnavailable, m.budget.Time())
	}
	return resp, err
}

// admit holds a request against the rules of its fields, and its buyer against its limit, before anything is done for it. A
// confirm waits for its turn.
func (i *interceptors) admit(ctx context.Context, m *method, arrived time.Time, req any, handler grpc.UnaryHandler) (any, error) {
	if m.ours {
		if err := i.validator.check(req); err != nil {
			return nil, err
		}
	}
	if of, ok := req.(interface{ GetBuyerId() string }); ok && m.limited {
		if wait := i.limiter.take(of.GetBuyerId(), time.Now()); wait > 0 {
			return nil, &tooOften{wait: wait, limit: i.limiter.limit.PerSecond}
		}
	}
	if m.confirms {
		allotment := confirmedAllotment(req)
		if err := i.crowd.enter(ctx, allotment, arrived); err != nil {
			return nil, err
		}
		defer i.crowd.leave(allotment)
	}
	return handler(ctx, req)
}

func (i *interceptors) observeStream(
	srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	start := time.Now()
	err := handler(srv, ss)
	if m := i.method(info.FullMethod); m.calls != nil {
		m.calls.record(ss.Context(), time.Since(start), status.Code(err))
	}
	return err
}

func (i *interceptors) protectStream(
	srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) (err error) {
	i.running.calls.Add(1)
	defer i.running.calls.Add(-1)
	defer func() {
		if r := recover(); r != nil {
			err = i.panicked(ss.Context(), info.FullMethod, r)
		}
		if err != nil {
			err = i.failed(ss.Context(), info.FullMethod, err)
		}
	}()
	return handler(srv, ss)
}

func (i *interceptors) panicked(ctx context.Context, name string, value any) error {
	i.panics.Add(ctx, 1)
	i.log.ErrorContext(ctx, "panic in a handler", "method", name, "panic", value, "stack", string(debug.Stack()))
	return errPanic
}

// failed maps err. Trouble that comes from the caller's own deadline or departure is called that.
func (i *interceptors) failed(ctx context.Context, name string, err error) *failure {
	f := i.answered.failureOf(err)
	trouble := f.outcome == reasonStoreUnavailable || f.outcome == reasonRebuilding
	if gone := ctx.Err(); gone != nil && trouble && errors.Is(err, gone) {
		f = failureOf(gone)
	}
	f.send(ctx, i.log, name)
	return f
}

// limitStream ends a stream when the server stops.
func (i *interceptors) limitStream(
	srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	ctx, cancel := context.WithCancel(ss.Context())
	defer cancel()
	defer context.AfterFunc(i.ending, cancel)()
	stream := &stream{ServerStream: ss, ctx: ctx}
	ours := i.method(info.FullMethod).ours
	if ours {
		stream.validator = i.validator
	}
	err := i.handle(ctx, info.FullMethod, func() error { return handler(srv, stream) })
	if i.ending.Err() != nil && ss.Context().Err() == nil && (err != nil || ours) {
		return errStopping
	}
	return err
}

// handle runs a stream's handler. When the server stops and the handler does not return soon, as it waits for the
// peer to read or to write, it is left: that the stream's call has returned ends the stream, and with it the waiting.
func (i *interceptors) handle(ctx context.Context, name string, handler func() error) error {
	handled := make(chan error, 1)
	i.running.streams.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				handled <- i.panicked(ctx, name, r)
			}
		}()
		handled <- handler()
	})
	select {
	case err := <-handled:
		return err
	case <-i.ending.Done():
	}
	soon := time.NewTimer(streamPatience)
	defer soon.Stop()
	select {
	case err := <-handled:
		return err
	case <-soon.C:
		return errStopping
	}
}

// stream is a stream with a context of our own, whose requests are validated.
type stream struct {
	grpc.ServerStream
	ctx       context.Context
	validator *validator // nil: not validated
}

// Context is done when the call is, and when the server stops.
func (s *stream) Context() context.Context { return s.ctx }

// RecvMsg receives and validates.
func (s *stream) RecvMsg(message any) error {
	if s.validator == nil {
		return s.ServerStream.RecvMsg(message)
	}
	if err := receive(s.ServerStream.RecvMsg, message); err != nil {
		return err
	}
	return s.validator.check(message)
}
