package inventory_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	stormHolds = 20_000
	stormSteps = 10                   // the deadlines are at so many moments of a second
	stormEvery = 2 * time.Millisecond // a new request
	stormLeast = 1_500                // new requests, at least
)

// BenchmarkLapseStorm lets 20,000 holds, all the stock, lapse within a second, while 500 new requests a second ask for a unit
// each of what is just coming back. From the first one on more units have lapsed than were asked for, so every refusal
// is wrong. back-s is how long after the last deadline all units that lapsed are free or held anew, by the counters.
//
// Targets: back-s of at most 5, wrongly-refused 0, p99-ms of the new requests at most 100.
func BenchmarkLapseStorm(b *testing.B) {
	var back time.Duration
	var refused, troubled int
	var times []time.Duration
	for b.Loop() {
		s := newStorm(b)
		s.wait(s.first)
		var requests sync.WaitGroup
		requests.Go(s.ask)
		back += s.back()
		requests.Wait()
		refused, troubled, times = refused+int(s.refused.Load()), troubled+int(s.troubled.Load()), append(times, s.times...)
	}
	slices.Sort(times)
	b.ReportMetric(back.Seconds()/float64(b.N), "back-s")
	b.ReportMetric(float64(refused)/float64(b.N), "wrongly-refused")
	b.ReportMetric(float64(troubled)/float64(b.N), "troubled")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// storm is a replica with an allotment that is all held.
type storm struct {
	*world
	id          string
	first, last time.Time // deadlines, by the scripts' clock

	started, granted, refused, troubled atomic.Int64 // new requests

	mu    sync.Mutex
	times []time.Duration
	over  atomic.Bool // all units are back
}

// newStorm makes the holds while the clock stands, but for the steps between them, and goes on two seconds before the
// first deadline: by then the supervisor has noted it.
func newStorm(b *testing.B) *storm {
	b.Helper()
	w := newWorld(b, 1)
	s := &storm{world: w, id: w.open(stormHolds, shortHolds(time.Minute))}
	w.stopClock()
	for step := range stormSteps {
		if step > 0 {
			w.advance(time.Second / stormSteps)
		}
		w.some(stormHolds/stormSteps, func(i int) error {
			_, err := w.tryHold(0, s.id, fmt.Sprintf("early-%d-%d", step, i), "r", 1)
			return err
		})
	}
	s.last = w.now().Add(time.Minute)
	s.first = s.last.Add(-time.Second / stormSteps * (stormSteps - 1))
	w.advanceTo(s.first.Add(-2 * time.Second))
	w.advance(-time.Since(*w.stopped.Load()))
	w.stopped.Store(nil)
	return s
}

// wait returns when it is later than t by the scripts' clock.
func (s *storm) wait(t time.Time) {
	for left := time.Nanosecond; left > 0; left = t.Sub(s.now()) {
		time.Sleep(left + time.Millisecond)
	}
}

// ask makes the new requests at their times, however long others take.
func (s *storm) ask() {
	var calls sync.WaitGroup
	start := time.Now()
	for i := 0; i < stormLeast || !s.over.Load(); i++ {
		time.Sleep(time.Until(start.Add(time.Duration(i) * stormEvery)))
		calls.Go(func() { s.request(i) })
	}
	calls.Wait()
}

func (s *storm) request(i int) {
	s.started.Add(1)
	start := time.Now()
	_, err := s.tryHold(0, s.id, fmt.Sprintf("late-%d", i), "r", 1)
	took := time.Since(start)
	s.mu.Lock()
	s.times = append(s.times, took)
	s.mu.Unlock()
	switch {
	case err == nil:
		s.granted.Add(1)
	case refusalOf(err) != "":
		s.t.Logf("request %d: %v", i, err)
		s.refused.Add(1)
	default:
		s.troubled.Add(1)
	}
}

// back waits until no more units are held than new requests have asked for, and returns how long after the last deadline
// that is.
func (s *storm) back() time.Duration {
	defer s.over.Store(true)
	s.wait(s.last)
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		now, held := s.now(), stormHolds-s.rawAvailable(s.id)
		if held <= s.started.Load() {
			return now.Sub(s.last)
		}
		if time.Since(start) > time.Minute {
			s.t.Fatalf("%d units are held, %d were asked for", held, s.started.Load())
		}
	}
}
