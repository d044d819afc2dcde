package holds

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

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

// bytesPerHold fills a Redis of its own with n live holds of one allotment.
func bytesPerHold(t testing.TB, n int, id func(*rand.Rand) string) float64 {
	t.Helper()
	server := storetest.NewRedis(t, local.RedisOptions{})
	f := &fixture{t: t, clock: new(atomic.Int64)}
	f.open(onRedis(server.URL()))
	random := rand.New(rand.NewPCG(1, 2))
	f.place = f.allot(uuid(random), "", int64(n))
	before := stat(t, f.raw, "memory", "used_memory")
	f.fill(n, func(i int) (buyer, request string) { return id(random), id(random) })
	f.want("held " + strconv.Itoa(n))
	return (stat(t, f.raw, "memory", "used_memory") - before) / float64(n)
}

// fill takes n holds of one unit, many at a time.
func (f *fixture) fill(n int, id func(i int) (buyer, request string)) {
	f.t.Helper()
	const callers = 256
	var all sync.WaitGroup
	next := make(chan [2]string, callers)
	for range callers {
		all.Go(func() {
			for ids := range next {
				if _, err := f.Create(f.ctx(), f.request(ids[0], ids[1], 1)); err != nil {
					f.t.Errorf("Create: %v", err)
				}
			}
		})
	}
	for i := range n {
		buyer, request := id(i)
		next <- [2]string{buyer, request}
	}
	close(next)
	all.Wait()
}

func TestMemoryPerHold(t *testing.T) {
	t.Parallel()
	const n = 20_000
	for name, id := range map[string]func(*rand.Rand) string{"UUIDs": uuid, "other ids": plain} {
		got := bytesPerHold(t, n, id)
		t.Logf("%s: %.0f bytes per hold", name, got)
		if got > memoryBudget {
			t.Errorf("%s: a live hold takes %.0f bytes of Redis, want at most %d", name, got, memoryBudget)
		}
	}
}

func BenchmarkMemoryPerHold(b *testing.B) {
	for name, id := range map[string]func(*rand.Rand) string{"uuid": uuid, "other": plain} {
		b.Run("ids="+name, func(b *testing.B) {
			var bytes float64
			for b.Loop() {
				bytes = bytesPerHold(b, 100_000, id)
			}
			b.ReportMetric(bytes, "redis-bytes/hold")
		})
	}
}
