package holds

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

const (
	fewLive  = 1_000
	manyLive = 1_000_000

	sizeBatch   = 128
	sizeBatches = 80 // measured, of holds and of refusals
	sweepDue    = 10_000
)

// BenchmarkDecisionBySize is the CPU of Redis for a decision in batches of 128, in an allotment with 1,000 live holds and
// in one with 1,000,000. x-1e3 is the second to the first: what depends on the number of holds.
//
// Target: x-1e3 of at most 1.2.
func BenchmarkDecisionBySize(b *testing.B) {
	var few, many decisionCPU
	for b.Loop() {
		f := benchFixture(b)
		// Few stay few: each allotment takes a twentieth of the batches.
		for range 20 {
			few.add(f.decisionCPU(fewLive, sizeBatches/20), 20)
		}
		many.add(benchFixture(b).decisionCPU(manyLive, sizeBatches), 1)
	}
	report := func(kind string, few, many float64) {
		b.ReportMetric(few/float64(b.N), kind+"-us-1e3")
		b.ReportMetric(many/float64(b.N), kind+"-us-1e6")
		b.ReportMetric(many/few, kind+"-x-1e3")
	}
	report("hold", few.hold, many.hold)
	report("refusal", few.refusal, many.refusal)
	b.ReportMetric((many.hold+many.refusal)/(few.hold+few.refusal), "x-1e3")
	b.ReportMetric(0, "ns/op")
}

// decisionCPU is in microseconds of Redis.
type decisionCPU struct{ hold, refusal float64 }

func (c *decisionCPU) add(one decisionCPU, of float64) {
	c.hold += one.hold / of
	c.refusal += one.refusal / of
}

// decisionCPU measures batches of holds, and then of refusals, in a new allotment with so many live holds.
func (f *fixture) decisionCPU(live, batches int) decisionCPU {
	f.t.Helper()
	n := batches * sizeBatch
	allotment := storetest.UniqueID(f.t)
	f.place = store.Place{Allotment: allotment, Group: allotment, Buckets: store.BucketsFor(int64(live + n))}
	f.adopt(newAllotment(f.place, int64(live+n)), 1)
	random := rand.New(rand.NewPCG(1, 2))
	ids := func(int) (string, string) { return uuid(random), uuid(random) }
	f.fill(live, ids)
	measure := func(want status) float64 {
		requests := make([]store.CreateRequest, n)
		for i := range requests {
			requests[i] = f.request(uuid(random), uuid(random), 1)
		}
		return f.cpu(n, func() {
			for batch := range slices.Chunk(requests, sizeBatch) {
				f.decided(want, batch)
			}
		})
	}
	return decisionCPU{hold: measure(statusOK), refusal: measure(statusAllHeld)}
}

// BenchmarkSweep is what it costs to find and release 10,000 lapsed holds among 1,000,000 live ones, in batches as the
// sweeper takes them: the CPU of Redis for a release, and the time of all.
func BenchmarkSweep(b *testing.B) {
	var cpu float64
	var took time.Duration
	for b.Loop() {
		f := benchFixture(b)
		f.place = store.Place{Allotment: "sweep", Group: "sweep", Buckets: store.BucketsFor(manyLive)}
		f.adopt(newAllotment(f.place, manyLive), 1)
		ids := func(i int) (string, string) { return fmt.Sprint("buyer-", i), "request" }
		f.fill(sweepDue, ids)
		f.advance(holdTime / 2)
		f.fill(manyLive-sweepDue, func(i int) (string, string) { return ids(sweepDue + i) })
		f.advance(holdTime / 2)
		cpu += f.cpu(sweepDue, func() {
			start := time.Now()
			f.sweep()
			took += time.Since(start)
		})
		if held := f.counters(f.place)[0].Held; held != manyLive-sweepDue {
			b.Fatalf("%d are held after it, want %d", held, manyLive-sweepDue)
		}
	}
	b.ReportMetric(cpu/float64(b.N), "redis-us/release")
	b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N), "total-ms")
	b.ReportMetric(0, "ns/op")
}

// sweep releases what is due.
func (f *fixture) sweep() {
	f.t.Helper()
	for released := 0; released < sweepDue; {
		work, err := f.Due(f.ctx(), []store.Place{f.place}, 256)
		must(f.t, err)
		n, err := f.Release(f.ctx(), f.place, work[0].Lapsed, store.LapseBySweep)
		must(f.t, err)
		if released += n; n == 0 {
			f.t.Fatalf("%d holds are due, want %d", released, sweepDue)
		}
	}
}
