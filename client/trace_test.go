package client_test

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-inventory/holdfast/client/clienttest"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// TestTraceGoesOn: the server learns which trace a call is a part of, without any setting of the caller's.
func TestTraceGoesOn(t *testing.T) {
	var parent string
	script := clienttest.NewScript()
	defer script.Close()
	script.On("CancelHold", func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		parent = strings.Join(md.Get("traceparent"), " ")
		return &pb.CancelHoldResponse{}, nil
	})
	c := script.Client()
	defer c.Close()
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	if err := c.Cancel(trace.ContextWithSpanContext(t.Context(), span), "concert.x"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(parent, span.TraceID().String()) {
		t.Errorf("traceparent %q is not of trace %s", parent, span.TraceID())
	}
}
