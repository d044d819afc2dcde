package server

import (
	"testing"

	"go.opentelemetry.io/otel/trace/noop"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

// benchmarkCreate measures everything around a decision that takes no time, client included.
func benchmarkCreate(b *testing.B, f *fake) {
	telemetry, err := NewTelemetry(b.Context(), "bench", quiet())
	if err != nil {
		b.Fatal(err)
	}
	s := startServer(b, f, func(o *Options) { o.Meter, o.Tracer = telemetry.Meters(), noop.NewTracerProvider() })
	request := &pb.CreateHoldRequest{
		AllotmentId: "concert", BuyerId: "0195c2f1-7d8e-7a31-9f6e-3f1f6a0c2d11", RequestId: "0195c2f1-7d8e-7a31-9f6e-3f1f6a0c2d12",
		Quantity: 2,
	}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = s.holds.CreateHold(ctx, request)
	}
}

func BenchmarkHold(b *testing.B) {
	benchmarkCreate(b, &fake{hold: store.Hold{
		ID: concertHold, BuyerID: "0195c2f1-7d8e-7a31-9f6e-3f1f6a0c2d11", State: store.Held, CreateTime: noon, ExpireTime: night,
	}})
}

func BenchmarkSoldOut(b *testing.B) {
	benchmarkCreate(b, &fake{before: failing(&store.Refusal{
		Reason: store.SoldOut, Allotment: "concert", Requested: 2, Capacity: 5000, Sold: 5000, Version: 1000005000,
	})})
}

// BenchmarkValidate is the part of it that looks at fields.
func BenchmarkValidate(b *testing.B) {
	v, err := newValidator()
	if err != nil {
		b.Fatal(err)
	}
	request := &pb.CreateHoldRequest{
		AllotmentId: "concert", BuyerId: "0195c2f1-7d8e-7a31-9f6e-3f1f6a0c2d11", RequestId: "0195c2f1-7d8e-7a31-9f6e-3f1f6a0c2d12",
		Quantity: 2,
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := v.check(request); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRefusal is the part of it that makes a refusal's status, when the last one was of another.
func BenchmarkRefusal(b *testing.B) {
	refusal := &store.Refusal{Reason: store.SoldOut, Allotment: "concert", Requested: 2, Capacity: 5000, Sold: 5000, Version: 1000005000}
	b.ReportAllocs()
	for b.Loop() {
		if failureOf(refusal).status == nil {
			b.Fatal("no status")
		}
	}
}
