package holds

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	codecDecisions = 128
	codecCalls     = 1_000 // in an iteration, so that a single one says something
)

// BenchmarkEncodeCreate is what it takes to make the keys and arguments of a call for 128 holds. B/op and allocs/op are of
// the call.
func BenchmarkEncodeCreate(b *testing.B) {
	_, c := codecCall(b)
	measureCodec(b, func() { c.encode(0, retention) })
}

// BenchmarkDecodeReply is what it takes to hand out the reply to such a call.
func BenchmarkDecodeReply(b *testing.B) {
	f, c := codecCall(b)
	must(b, f.loadScripts(b.Context(), f.node0()))
	keys, args := c.encode(0, retention)
	reply, err := f.redis().EvalSha(b.Context(), f.scripts[createScript].SHA, keys, args...).Result()
	must(b, err)
	measureCodec(b, func() {
		for _, o := range c.ops {
			o.facts, o.reply = nil, nil
		}
		must(b, c.decode(reply))
	})
}

// codecCall is a call for holds of one unit, by buyers and under requests with UUIDs.
func codecCall(b *testing.B) (*fixture, *call) {
	f := setup(b, store.MaxCapacity)
	random := rand.New(rand.NewPCG(1, 2))
	c := newCall(createScript)
	for range codecDecisions {
		r := f.request(uuid(random), uuid(random), 1)
		c.add(createOp(r, []store.Place{f.place}, []store.HoldID{store.NewHoldID(f.place.Allotment, r.BuyerID, r.RequestID)}))
	}
	return f, c
}

func measureCodec(b *testing.B, work func()) {
	work()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		for range codecCalls {
			work()
		}
	}
	runtime.ReadMemStats(&after)
	calls := float64(b.N * codecCalls)
	b.ReportAllocs()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/calls/codecDecisions, "ns/decision")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/calls, "B/op")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/calls, "allocs/op")
	b.ReportMetric(0, "ns/op")
}
