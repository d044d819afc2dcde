package holds

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// memoryBudget is what a live hold may take of Redis, in bytes, its marker key included.
const memoryBudget = 450

// uuid makes ids of 36 characters that are UUIDs.
func uuid(r *rand.Rand) string {
	a, b := r.Uint64(), r.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff)
}

// plain makes ids of 36 characters that are none.
func plain(r *rand.Rand) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	text := make([]byte, uuidChars)
	for i := range text {
		text[i] = letters[r.IntN(len(letters))]
	}
	return string(text)
}

// bytesPerHold fills a Redis of its own with n live holds of one allotment. It looks when nobody is connected
// but itself: the buffers of connections are not the holds'. The result measures: what Redis frees in the
// background may take it a moment.
func bytesPerHold(t testing.TB, n int, id func(*rand.Rand) string) func() float64 {
	t.Helper()
	f := &fixture{t: t, clock: new(atomic.Int64)}
	server := onRedis(storetest.NewRedis(t, local.RedisOptions{}).URL())
	random := rand.New(rand.NewPCG(1, 2))
	allotment := uuid(random)
	f.place = store.Place{Allotment: allotment, Group: allotment, Buckets: store.BucketsFor(int64(n))}
	f.open(server)
	f.adopt(newAllotment(f.place, int64(n)), 1)
	before, raw := f.memoryAlone(), f.raw
	f.open(server)
	must(t, f.raw.Close())
	f.raw = raw
	f.warm()
	f.fill(n, func(i int) (buyer, request string) { return id(random), id(random) })
	if c := f.counters(f.place)[0]; c.Held != int64(n) {
		t.Fatalf("%d holds, want %d", c.Held, n)
	}
	f.settle(n)
	f.memoryAlone()
	return func() float64 { return (stat(t, f.raw, "memory", "used_memory") - before) / float64(n) }
}

// settle has Redis finish the growing of its tables, of which each look-up does a step: until then the
// old ones are there, too.
func (f *fixture) settle(n int) {
	f.t.Helper()
	marker := markerKey(f.place, store.NewHoldID(f.place.Allotment, "none", "none").Tag)
	for range 2 * n / 1000 {
		_, err := f.redis().Pipelined(f.ctx(), func(p redis.Pipeliner) error {
			for range 1000 {
				p.Exists(f.ctx(), marker)
				p.ZScore(f.ctx(), base(f.place, "d"), "none")
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			f.t.Fatal(err)
		}
	}
}

// memoryAlone closes the Store and returns the bytes that Redis uses.
func (f *fixture) memoryAlone() float64 {
	f.t.Helper()
	must(f.t, f.Close())
	storetest.Eventually(f.t, patience, func() error {
		if n := stat(f.t, f.raw, "clients", "connected_clients"); n != 1 {
			return fmt.Errorf("%v clients are connected", n)
		}
		return nil
	})
	return stat(f.t, f.raw, "memory", "used_memory")
}

// fill takes n holds of one unit, in batches as large as they come.
func (f *fixture) fill(n int, id func(i int) (buyer, request string)) {
	f.t.Helper()
	requests := make([]store.CreateRequest, 0, batchMost)
	for i := range n {
		buyer, request := id(i)
		requests = append(requests, f.request(buyer, request, 1))
		if len(requests) == batchMost || i == n-1 {
			f.decided(statusOK, requests)
			requests = requests[:0]
		}
	}
}

// decided sends requests in one batch, and checks what becomes of each.
func (f *fixture) decided(want status, requests []store.CreateRequest) {
	f.t.Helper()
	for _, o := range f.send1(requests...) {
		if got := o.reply[0].status(); got != want {
			f.t.Fatalf("status %d, want %d", got, want)
		}
	}
}

// With UUIDs, an entry and the record beside it just fit into a size that Redis's memory comes in. Other ids of that
// length take the next but one (BenchmarkMemoryPerHold).
func TestMemoryPerHold(t *testing.T) {
	t.Parallel()
	measure := bytesPerHold(t, 100_000, uuid)
	storetest.Eventually(t, patience, func() error {
		got := measure()
		if got > memoryBudget {
			return fmt.Errorf("a live hold takes %.0f bytes of Redis, want at most %d", got, memoryBudget)
		}
		return nil
	})
}

// BenchmarkMemoryPerHold is what a live hold takes of Redis, its marker, indexes and buyer's entry included, with few and
// with many of them. Buyers and requests have UUIDs, but for the last line: other ids of that length cannot be packed.
//
// Target: at most 450 bytes at 1,000,000 holds.
func BenchmarkMemoryPerHold(b *testing.B) {
	measure := func(name string, n int, id func(*rand.Rand) string) {
		b.Run(name, func(b *testing.B) {
			var bytes float64
			for b.Loop() {
				bytes = bytesPerHold(b, n, id)()
			}
			b.ReportMetric(bytes, "bytes/hold")
			b.ReportMetric(0, "ns/op")
		})
	}
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		measure(fmt.Sprintf("holds=%d", n), n, uuid)
	}
	measure("other-ids/holds=100000", 100_000, plain)
}
