package batch

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// numbers are n items from first.
func numbers(first, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = first + i
	}
	return all
}

// batch waits for the next batch to begin.
func (h *held) batch() []int {
	h.t.Helper()
	var items []int
	storetest.Eventually(h.t, patience, func() error {
		select {
		case items = <-h.started:
			return nil
		default:
			return fmt.Errorf("no batch")
		}
	})
	return items
}

// However much waits of other flows, each has one turn before an item of a quiet one, and no more.
func TestAQuietFlowDoesNotWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ hot, batches int }{{1, 1}, {4, 1}, {8, 2}, {20, 3}} {
		t.Run(fmt.Sprintf("%d hot flows", c.hot), func(t *testing.T) {
			t.Parallel()
			const quiet = -1
			h := newHeld(t, Limits{Batch: 520, Flow: 8, Lane: 1 << 20})
			h.add(0)
			h.next(0)
			for i := range c.hot {
				h.addTo(fmt.Sprint("hot ", i), numbers(0, 4000)...)
			}
			h.addTo("quiet", quiet)
			for n := 1; ; n++ {
				h.release <- struct{}{}
				if !slices.Contains(h.batch(), quiet) {
					continue
				}
				if n > c.batches {
					t.Errorf("the item is in batch %d, want %d", n, c.batches)
				}
				break
			}
			go func() { // the rest
				for range h.started {
					h.release <- struct{}{}
				}
			}()
			h.release <- struct{}{}
			storetest.Eventually(t, patience, h.idle)
			close(h.started)
		})
	}
}

// The flows take turns, and each goes on where it was; what one takes beyond its turn is missing from the next.
func TestTurns(t *testing.T) {
	t.Parallel()
	h := newHeld(t, Limits{Batch: 3 * quantum, Lane: 1 << 20})
	h.weigh = func(n int) int { return n }
	h.add(1)
	h.next(1)
	h.addTo("heavy", 40, 40, 40, 40, 40, 40)
	h.addTo("light", numbers(20, 8)...)
	h.release <- struct{}{}
	h.next(40, 40, 20, 21, 22, 23) // 80 and 86; the next 40 does not fit
	h.release <- struct{}{}
	h.next(40, 40, 24, 25, 40) // what was left of 64, as 16 and 22 are missing, then 40 of the next turn
	h.release <- struct{}{}
	h.next(26, 27, 40)
	h.release <- struct{}{}
	storetest.Eventually(t, patience, h.idle)
}

// A batch of many flows has fewer items than one of a single flow: each has a weight of its own.
func TestCallsWeigh(t *testing.T) {
	t.Parallel()
	h := newHeld(t, Limits{Batch: 20, Flow: 4, Lane: 1000})
	h.add(0)
	h.next(0)
	h.add(numbers(1, 20)...)
	h.release <- struct{}{}
	h.next(numbers(1, 16)...)
	for i := range 6 {
		h.addTo(fmt.Sprint(i), i)
	}
	h.release <- struct{}{}
	h.next(17, 18, 19, 20, 0, 1) // 8, 5 and 5
	h.release <- struct{}{}
	h.next(2, 3, 4, 5)
	h.release <- struct{}{}
	storetest.Eventually(t, patience, h.idle)
}

// fill adds to a flow until there is no room, and returns how many were taken.
func (h *held) fill(flow string) int {
	n := 0
	for h.Add("key", flow, 1) {
		n++
	}
	return n
}

// A flow that wants all the room leaves as much for others; and they leave some too.
func TestRoomIsShared(t *testing.T) {
	t.Parallel()
	h := newHeld(t, Limits{Batch: 1000, Flow: 10, Lane: 1200})
	h.add(0)
	h.next(0)
	for i, want := range []int{590, 290, 140} { // and 10 each: half of the room, half of the rest, ...
		if got := h.fill(fmt.Sprint("hot ", i)); got != want {
			t.Errorf("hot flow %d: %d items wait, want %d", i, got, want)
		}
	}
	for i := range 5 {
		h.addTo(fmt.Sprint("quiet ", i), 1)
	}
	if h.fill("hot 0") > 0 {
		t.Error("a flow that has its share got more")
	}
	if got, want := h.Waiting("key"), 590+290+140+5; got != want {
		t.Errorf("Waiting = %d, want %d", got, want)
	}
	for range 2 { // with all gone, all the room is back
		h.release <- struct{}{}
		h.batch()
	}
	if got := h.fill("hot 0"); got != 590 {
		t.Errorf("again: %d items wait, want 590", got)
	}
	h.release <- struct{}{}
	h.batch()
	h.release <- struct{}{}
	storetest.Eventually(t, patience, h.idle)
}

// A lane that is never idle keeps nothing of flows that are. Not parallel: it measures the heap.
func TestIdleFlowsAreForgotten(t *testing.T) {
	const flows = 100_000
	before := heap()
	ended := make(chan struct{})
	var l *Lanes[string, string, int]
	l = NewLanes[string, string](Limits{Batch: 520, Flow: 8, Lane: 100}, one, func(key string, items []int) {
		q := l.lanes[key] // nobody else uses the lane
		if len(q.flows) > 0 || q.first != nil || q.items != 0 || q.weight != 0 {
			t.Errorf("with nothing waiting, %d flows are kept, of %d items that weigh %d", len(q.flows), q.items, q.weight)
		}
		if next := items[0] + 1; next < flows {
			l.Add(key, fmt.Sprint("flow ", next), next)
			return
		}
		if grown := heap() - before; grown > 1<<20 {
			t.Errorf("the heap grew by %d bytes", grown)
		}
		close(ended)
	})
	l.Add("key", "flow 0", 0)
	<-ended
	runtime.KeepAlive(l)
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
