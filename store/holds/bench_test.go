package holds

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

const scriptCPURequests = 20_000

// BenchmarkScriptCPU measures how much of Redis's CPU a hold and a refusal take, in batches of several
// sizes, and compares that with a pipelined DECRBY in the same run. Read the ratios: the microseconds are
// this machine's, of this moment.
func BenchmarkScriptCPU(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 32, 128} {
		for _, kind := range []string{"hold", "repeat", "refusal"} {
			b.Run(fmt.Sprintf("%s/batch=%d", kind, size), func(b *testing.B) {
				var script, counter float64
				for b.Loop() {
					f := benchFixture(b)
					decrements := scriptCPURequests * min(size, 10) // so cheap that few would measure nothing
					counter += f.cpu(decrements, func() { f.countDown(decrements, size) })
					script += f.cpu(scriptCPURequests, f.batches(random, kind, scriptCPURequests, size))
				}
				script, counter = script/float64(b.N), counter/float64(b.N)
				b.ReportMetric(script, "redis-us/decision")
				b.ReportMetric(counter, "redis-us/DECRBY")
				b.ReportMetric(script/counter, "x-DECRBY")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func benchFixture(b *testing.B) *fixture {
	f := &fixture{t: b, clock: new(atomic.Int64)}
	f.open(onRedis(storetest.NewRedis(b, local.RedisOptions{}).URL()))
	return f
}

// cpu is the microseconds of Redis's CPU that each of n requests takes.
func (f *fixture) cpu(n int, work func()) float64 {
	f.t.Helper()
	used := func() float64 {
		return stat(f.t, f.raw, "cpu", "used_cpu_user") + stat(f.t, f.raw, "cpu", "used_cpu_sys")
	}
	before := used()
	work()
	return (used() - before) * 1e6 / float64(n)
}

// countDown is the cheapest thing that could decide: a decrement, in pipelines of this size.
func (f *fixture) countDown(decrements, size int) {
	f.t.Helper()
	for n := 0; n < decrements; n += size {
		_, err := f.raw.Pipelined(f.ctx(), func(p redis.Pipeliner) error {
			for range size {
				p.DecrBy(f.ctx(), "hf:bench", 1)
			}
			return nil
		})
		must(f.t, err)
	}
}

// batches prepares n requests in batches of this size that are all granted, all repeats, or all refused, and
// returns what sends them.
func (f *fixture) batches(random *rand.Rand, kind string, n, size int) func() {
	f.t.Helper()
	capacity := int64(n)
	if kind == "refusal" {
		capacity = 0
	}
	allotment := uuid(random)
	f.place = store.Place{Allotment: allotment, Group: allotment, Buckets: store.BucketsFor(capacity)}
	f.adopt(newAllotment(f.place, capacity), 1)
	batches := make([][]store.CreateRequest, 0, n/size+1)
	for done := 0; done < n; done += size {
		var batch []store.CreateRequest
		for range min(size, n-done) {
			batch = append(batch, f.request(uuid(random), uuid(random), 1))
		}
		batches = append(batches, batch)
	}
	send := func(want status) {
		f.t.Helper()
		for _, batch := range batches {
			f.decided(want, batch)
		}
	}
	switch kind {
	case "repeat":
		send(statusOK)
		return func() { send(statusKnown) }
	case "refusal":
		return func() { send(statusSoldOut) }
	default:
		return func() { send(statusOK) }
	}
}

// BenchmarkCreate is the whole way of a request, with many callers at once.
func BenchmarkCreate(b *testing.B) {
	f := benchFixture(b)
	f.place = f.allot(storetest.UniqueID(b), "", store.MaxCapacity)
	var n atomic.Int64
	b.SetParallelism(128)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := fmt.Sprint(n.Add(1))
			if _, err := f.Create(b.Context(), f.request(id, id, 1)); err != nil {
				b.Error(err)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/float64(max(1, f.evalsha())), "requests/script")
}
