package server

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/server/auth"
)

const (
	// callsMost is how many calls may be inside for each processor, beside those that have the door or the crowd in front.
	callsMost = 3000
	// streamsMost is how many streams may be open for each processor: an idle one costs some tens of kilobytes.
	streamsMost = 5000
)

// notAllowed is what a caller is told that may not do what it asks for.
type notAllowed struct{ caller, what string }

// Error is for the caller.
func (n *notAllowed) Error() string { return "caller " + n.caller + n.what }

// authorize is the one place that says who may call a method. The caller is nil if nobody is asked who it is, or it is not known.
func (i *interceptors) authorize(ctx context.Context, m *method) (*auth.Caller, error) {
	if i.auth == nil || m.roles&auth.Anyone != 0 {
		return nil, nil //nolint:nilnil // nobody is asked
	}
	caller, err := i.auth.Caller(ctx)
	if err != nil {
		return nil, err
	}
	if caller.Roles&m.roles == 0 {
		return caller, &notAllowed{caller.Name, " has no role that may call this method"}
	}
	return caller, nil
}

// enter takes a call past who may make it, and past how many there may be.
func (i *interceptors) enter(
	ctx context.Context, m *method, name string, arrived time.Time, req any, handler grpc.UnaryHandler,
) (any, error) {
	caller, err := i.authorize(ctx, m)
	if err != nil {
		if m.audited {
			i.denials.note(ctx, name, caller, req, err)
		}
		return nil, err
	}
	if caller != nil {
		if err := mayTouch(caller, req); err != nil {
			return nil, err
		}
		if !caller.Enter() {
			return nil, i.calls.full()
		}
		defer caller.Leave()
		if m.audited {
			ctx = context.WithValue(ctx, callerKey{}, caller)
		}
	}
	if m.calls != nil && !m.limited && !m.confirms {
		if err := i.calls.enter(); err != nil {
			return nil, err
		}
		defer i.calls.leave()
	}
	return i.limit(ctx, m, arrived, req, handler)
}

// enterStream does so with a stream.
func (i *interceptors) enterStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	m := i.method(info.FullMethod)
	caller, err := i.authorize(ss.Context(), m)
	if err != nil {
		return err
	}
	if caller != nil {
		if !caller.Enter() {
			return i.streams.full()
		}
		defer caller.Leave()
		if m.ours {
			ss = &callersStream{ServerStream: ss, caller: caller}
		}
	}
	if m.calls != nil {
		if err := i.streams.enter(); err != nil {
			return err
		}
		defer i.streams.leave()
	}
	return handler(srv, ss)
}

type callerKey struct{}

// callersStream is a stream whose requests are held against what its caller may touch.
type callersStream struct {
	grpc.ServerStream
	caller *auth.Caller
}

// RecvMsg receives a request by way of a decoding, as streams do.
func (s *callersStream) RecvMsg(message any) error {
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	if d, ok := message.(*decoding); ok && d.err == nil {
		return mayTouch(s.caller, d.into)
	}
	return nil
}

// mayTouch holds the allotments that a request names against those that its caller may touch. A request that names none
// in a way known here is refused to a caller that may not touch all.
func mayTouch(c *auth.Caller, req any) error {
	if !c.Limited() {
		return nil
	}
	allowed := false
	switch r := req.(type) {
	case interface{ GetAllotmentId() string }:
		allowed = c.May(r.GetAllotmentId())
	case interface{ GetAllotmentIds() []string }:
		allowed = allOf(r.GetAllotmentIds(), c.May)
	case interface{ GetHoldId() string }:
		allowed = c.May(allotmentOf(r.GetHoldId()))
	case interface{ GetHoldIds() []string }:
		allowed = allOf(r.GetHoldIds(), func(id string) bool { return c.May(allotmentOf(id)) })
	case *pb.BatchCreateHoldsRequest:
		allowed = allOf(r.GetLines(), func(l *pb.BatchCreateHoldsRequest_Line) bool { return c.May(l.GetAllotmentId()) })
	}
	if !allowed {
		return &notAllowed{c.Name, " may only touch allotments of its own"}
	}
	return nil
}

func allOf[T any](list []T, may func(T) bool) bool {
	for _, item := range list {
		if !may(item) {
			return false
		}
	}
	return true
}

// allotmentOf is the allotment that a hold id tells.
func allotmentOf(holdID string) string {
	allotment, _, _ := strings.Cut(holdID, ".")
	return allotment
}
