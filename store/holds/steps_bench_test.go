package holds

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

const (
	stepHolds   = 12_800
	stepCallers = 128
)

// BenchmarkSteps measures how much of Redis's CPU the steps take that come after a hold was made, asked for by many callers at
// once, whose calls share scripts. The microseconds are this machine's, of this moment.
func BenchmarkSteps(b *testing.B) {
	used := map[string]float64{}
	for b.Loop() {
		f := benchFixture(b)
		f.place = store.Place{Allotment: "steps", Group: "steps", Buckets: store.BucketsFor(3 * stepHolds)}
		f.adopt(newAllotment(f.place, 3*stepHolds), 1)
		sold, cancelled, lapsed := f.made("sold"), f.made("cancelled"), f.made("lapsed")
		step := func(name string, holds []store.Hold, call func(store.Hold) error) {
			used[name] += f.cpu(stepHolds, func() { f.byCallers(holds, call) })
		}
		step("get", sold, func(h store.Hold) error { return errOf(f.Get(f.ctx(), f.placed(h))) })
		step("extend", sold, func(h store.Hold) error { return errOf(f.Extend(f.ctx(), f.placed(h))) })
		step("begin", sold, func(h store.Hold) error { return errOf(f.Begin(f.ctx(), f.beginRequest("order-"+h.ID.Tag, h))) })
		step("finish", sold, func(h store.Hold) error {
			verdict := store.Verdict{Kind: store.VerdictSold, Token: h.Token, Sale: store.Sale{ID: h.ID, OrderID: "order-" + h.ID.Tag, Quantity: 1, Token: h.Token}}
			return f.Finish(f.ctx(), []store.FinishLine{f.finishLine(h, verdict)})
		})
		step("cancel", cancelled, func(h store.Hold) error { return errOf(f.Cancel(f.ctx(), f.placed(h))) })
		f.advance(holdTime)
		used["release"] += f.cpu(stepHolds, func() {
			for some := range slices.Chunk(lapsed, stepCallers) {
				f.release(some...)
			}
		})
		f.checkNumbers(f.place)
		if c := f.counters(f.place)[0]; c.Sold != stepHolds || c.Held != 0 || c.Confirming != 0 {
			b.Fatalf("in the end %+v", c)
		}
	}
	for name, micros := range used {
		b.ReportMetric(micros/float64(b.N), "redis-us/"+name)
	}
	b.ReportMetric(0, "ns/op")
}

// made takes holds of one unit, each for a buyer of its own.
func (f *fixture) made(kind string) []store.Hold {
	holds := make([]store.Hold, stepHolds)
	storetest.Together(stepCallers, func(caller int) {
		for i := caller; i < stepHolds; i += stepCallers {
			holds[i] = f.hold(fmt.Sprint(kind, "-", i), "request", 1)
		}
	})
	return holds
}

// byCallers has many callers at once make a call for each hold, none of which may fail.
func (f *fixture) byCallers(holds []store.Hold, call func(store.Hold) error) {
	storetest.Together(stepCallers, func(caller int) {
		for i := caller; i < len(holds); i += stepCallers {
			if err := call(holds[i]); err != nil {
				f.t.Errorf("%s: %v", holds[i].ID, err)
			}
		}
	})
}
