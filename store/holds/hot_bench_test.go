package holds

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
)

// hotCallers have room in a lane together, even if each asks for an allotment of another group.
const hotCallers = 900

// BenchmarkHotGroups is how many refusals per second many callers get whose allotments are all of one group, or of
// many. Read the ratio to one group, of the same run: the rest is this machine's, of this moment.
func BenchmarkHotGroups(b *testing.B) {
	f := benchFixture(b)
	f.warm()
	var one float64
	for _, groups := range []int{1, 64, 4096} {
		places := make([]store.Place, groups)
		for i := range places {
			id := fmt.Sprintf("hot-%d-%d", groups, i)
			places[i] = store.Place{Allotment: id, Group: id, Buckets: 1}
			f.adopt(newAllotment(places[i], 0), 1)
		}
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			before := f.evalsha()
			b.ReportMetric(f.cpu(b.N, func() { f.refuse(b, places) }), "redis-us/request")
			rate := float64(b.N) / b.Elapsed().Seconds()
			if groups == 1 {
				one = rate
			}
			b.ReportMetric(rate, "requests/s")
			b.ReportMetric(rate/one, "x-one-group")
			b.ReportMetric(float64(b.N)/float64(f.evalsha()-before), "requests/script")
		})
	}
}

// refuse shares b.N requests out among the callers, who take turns at the places.
func (f *fixture) refuse(b *testing.B, places []store.Place) {
	var next atomic.Int64
	var callers sync.WaitGroup
	b.ResetTimer()
	for range hotCallers {
		callers.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				id := fmt.Sprint(n)
				_, err := f.Create(b.Context(), cart(id, id, line(places[int(n)%len(places)], 1)))
				if store.Refused(err, store.SoldOut) == nil {
					b.Errorf("got %v, want SOLD_OUT", err)
				}
			}
		})
	}
	callers.Wait()
	b.StopTimer()
}
