package holds

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

const (
	allotmentsCallers   = 256
	allotmentsDecisions = 40 // of a caller in a measurement, of which there are three
)

// BenchmarkAllotments is how many holds a second 256 callers get through a Store when they ask for several allotments in turn,
// each of a group of its own: a batch has then a call for each. x-one is the rate to that of the same callers with one
// allotment, measured in turn with it.
func BenchmarkAllotments(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("allotments=%d", n), func(b *testing.B) {
			f := benchFixture(b)
			f.warm()
			places := make([]store.Place, n+1)
			for i := range places {
				id := fmt.Sprint("allotment-", i)
				places[i] = store.Place{Allotment: id, Group: id, Buckets: 4}
				f.adopt(newAllotment(places[i], store.MaxCapacity), 1)
			}
			var one, several float64
			f.createRate(places) // what has never been used is slower
			for b.Loop() {
				for range 3 {
					one += f.createRate(places[n:])
					several += f.createRate(places[:n])
				}
			}
			b.ReportMetric(several/float64(3*b.N), "decisions/s")
			b.ReportMetric(several/one, "x-one")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// createRate is the holds a second that callers get who ask for the places in turn.
func (f *fixture) createRate(places []store.Place) float64 {
	var turn atomic.Int64
	start := time.Now()
	storetest.Together(allotmentsCallers, func(int) {
		random := rand.New(rand.NewPCG(rand.Uint64(), 0))
		for range allotmentsDecisions {
			p := places[int(turn.Add(1))%len(places)]
			if _, err := f.Create(f.ctx(), cart(uuid(random), uuid(random), line(p, 1))); err != nil {
				f.t.Error(err)
				return
			}
		}
	})
	return allotmentsCallers * allotmentsDecisions / time.Since(start).Seconds()
}
