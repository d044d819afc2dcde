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

	"github.com/holdfast-inventory/holdfast/store"
)

// streamPatience is how long a stopping server waits for a stream's handler to return by itself.
const streamPatience = 200 * time.Millisecond

// interceptors is what stands between gRPC and the handlers: each call is counted, guarded against panics,
// given a deadline, validated, and held against its buyer's limit, in this order.
type interceptors struct {
	log       *slog.Logger
	methods   map[string]method // by full name
	fallback  method            // health and reflection
	validator *validator
	limiter   *limiter
	panics    metric.Int64Counter
	ending    context.Context // done when streams must end
	running   *running
}

// running is what Stop waits for.
type running struct {
	calls   atomic.Int64   // not answered yet
	streams sync.WaitGroup // handlers of streams, which may outlast their calls
}

// method is what the interceptors know of one.
type method struct {
	budget   time.Duration // from arrival to answer; 0: none
	calls    *callTimer    // nil: not measured
	recorder *recorder     // nil: not a decision
	ours     bool          // has rules to be validated
	limited  bool          // by buyer
}

func (i *interceptors) method(name string) method {
	if m, ok := i.methods[name]; ok {
		return m
	}
	return i.fallback
}

func (i *interceptors) unary() []grpc.UnaryServerInterceptor {
	return []grpc.UnaryServerInterceptor{i.observe, i.protect, i.limit, i.validate, i.throttle}
}

func (i *interceptors) stream() []grpc.StreamServerInterceptor {
	return []grpc.StreamServerInterceptor{i.observeStream, i.protectStream, i.limitStream}
}

// observe times calls, and counts and times decisions.
func (i *interceptors) observe(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	i.running.calls.Add(1)
	defer i.running.calls.Add(-1)
	m := i.method(info.FullMethod)
	if m.calls == nil {
		return handler(ctx, req)
	}
	start := time.Now()
	resp, err := handler(ctx, req)
	took := time.Since(start)
	m.calls.record(ctx, took, err)
	if m.recorder != nil {
		m.recorder.record(ctx, took, err)
	}
	return resp, err
}

func (i *interceptors) observeStream(
	srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	start := time.Now()
	err := handler(srv, ss)
	if m := i.method(info.FullMethod); m.calls != nil {
		m.calls.record(ss.Context(), time.Since(start), err)
	}
	return err
}

// protect turns errors and panics into statuses.
func (i *interceptors) protect(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (resp any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = i.panicked(ctx, info.FullMethod, r)
		}
		if err != nil {
			resp, err = nil, i.failed(ctx, info.FullMethod, err)
		}
	}()
	return handler(ctx, req)
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
func (i *interceptors) failed(ctx context.Context, name string, err error) error {
	f := failureOf(err)
	trouble := f.outcome == reasonStoreUnavailable || f.outcome == reasonRebuilding
	if gone := ctx.Err(); gone != nil && trouble && errors.Is(err, gone) {
		f = failureOf(gone)
	}
	f.send(ctx, i.log, name)
	return f
}

// limit gives a call its budget, unless the caller gave it less. When the budget runs out before the caller's
// deadline that is trouble of ours, which the caller is told to repeat, and not its deadline.
func (i *interceptors) limit(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	budget := i.method(info.FullMethod).budget
	if deadline, ok := ctx.Deadline(); budget == 0 || (ok && time.Until(deadline) <= budget) {
		return handler(ctx, req)
	}
	limited, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	resp, err := handler(limited, req)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && failureOf(err).outcome == outcomeDeadline {
		err = fmt.Errorf("%w: not decided within %v", store.ErrUnavailable, budget)
	}
	return resp, err
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

// validate holds a request against the rules of its fields.
func (i *interceptors) validate(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	if i.method(info.FullMethod).ours {
		if err := i.validator.check(req); err != nil {
			return nil, err
		}
	}
	return handler(ctx, req)
}

// throttle answers a buyer that asks too often, before anything is done for it.
func (i *interceptors) throttle(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	if i.method(info.FullMethod).limited {
		if of, ok := req.(interface{ GetBuyerId() string }); ok {
			if wait := i.limiter.take(of.GetBuyerId(), time.Now()); wait > 0 {
				return nil, &tooOften{wait: wait, limit: i.limiter.limit.PerSecond}
			}
		}
	}
	return handler(ctx, req)
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
