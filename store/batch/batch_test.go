package batch

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store/storetest"
)

const patience = 20 * time.Second

// held is lanes whose batches wait until the test lets them go.
type held struct {
	*Lanes[string, string, int]
	t       *testing.T
	started chan []int    // a batch that begins
	release chan struct{} // one for each batch
}

func newHeld(t *testing.T, limits Limits) *held {
	h := &held{t: t, started: make(chan []int, 100), release: make(chan struct{})}
	h.Lanes = NewLanes[string, string](limits, one, func(_ string, items []int) {
		h.started <- slices.Clone(items)
		<-h.release
	})
	return h
}

// next waits for the next batch to begin, and compares it.
func (h *held) next(want ...int) {
	h.t.Helper()
	select {
	case got := <-h.started:
		if diff := cmp.Diff(want, got); diff != "" {
			h.t.Fatalf("batch (-want +got):\n%s", diff)
		}
	case <-time.After(patience):
		h.t.Fatalf("no batch, want %v", want)
	}
}

func (h *held) add(items ...int) {
	h.t.Helper()
	h.addTo("flow", items...)
}

func (h *held) addTo(flow string, items ...int) {
	h.t.Helper()
	for _, item := range items {
		if !h.Add("key", flow, item) {
			h.t.Fatalf("Add(%d) was refused", item)
		}
	}
}

func one(int) int        { return 1 }
func oneText(string) int { return 1 }

func (h *held) idle() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.lanes); n > 0 {
		return fmt.Errorf("%d keys are still kept", n)
	}
	return nil
}

// What is heavy goes in smaller batches, alone if need be, and fills the lane sooner.
func TestWeight(t *testing.T) {
	t.Parallel()
	h := newHeld(t, Limits{Batch: 10, Lane: 60})
	h.weigh = func(n int) int { return n }
	h.add(1)
	h.next(1)
	h.add(3, 4, 5, 12, 6)
	if got := h.Waiting("key"); got != 5 {
		t.Errorf("Waiting = %d, want 5", got)
	}
	if h.Add("key", "flow", 1) {
		t.Error("more than fits was taken")
	}
	for _, batch := range [][]int{{3, 4}, {5}, {12}, {6}} {
		h.release <- struct{}{}
		h.next(batch...)
	}
	h.release <- struct{}{}
	storetest.Eventually(t, patience, h.idle)
}

func TestGathersWhileRunning(t *testing.T) {
	t.Parallel()
	h := newHeld(t, Limits{Batch: 100, Lane: 200})
	h.add(1)
	h.next(1) // no wait when idle
	h.add(2, 3, 4)
	if got := h.Waiting("key"); got != 3 {
		t.Errorf("Waiting = %d, want 3", got)
	}
	h.release <- struct{}{}
	h.next(2, 3, 4)
	if got := h.Waiting("key"); got != 0 {
		t.Errorf("Waiting = %d with all taken, want 0", got)
	}
	h.release <- struct{}{}
	storetest.Eventually(t, patience, h.idle)
	h.add(5) // and again from idle
	h.next(5)
	h.release <- struct{}{}
}

func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	h := newHeld(t, Limits{Batch: 3, Lane: 200})
	h.add(1)
	h.next(1)
	h.add(2, 3, 4, 5, 6, 7, 8)
	h.release <- struct{}{}
	h.next(2, 3, 4)
	h.add(9)
	h.release <- struct{}{}
	h.next(5, 6, 7)
	h.release <- struct{}{}
	h.next(8, 9)
	h.release <- struct{}{}
	storetest.Eventually(t, patience, h.idle)
}

// What is in flight does not count: capacity is of those who wait.
func TestFullLaneRefuses(t *testing.T) {
	t.Parallel()
	h := newHeld(t, Limits{Batch: 10, Lane: 4})
	h.add(1)
	h.next(1)
	h.add(2, 3)
	for range 3 {
		if h.Add("key", "flow", 4) {
			t.Fatal("Add to a full lane was accepted")
		}
	}
	if !h.Add("other", "flow", 10) {
		t.Error("a full lane refuses another lane's item")
	}
	h.next(10)
	h.release <- struct{}{}
	h.release <- struct{}{}
	h.next(2, 3) // and nothing of what was refused
	h.add(5)
	h.release <- struct{}{}
	h.next(5)
	h.release <- struct{}{}
	storetest.Eventually(t, patience, h.idle)
}

func TestZeroCapacityRefusesAll(t *testing.T) {
	t.Parallel()
	l := NewLanes[int, int](Limits{Batch: 1}, one, func(int, []int) { t.Error("a batch ran") })
	if l.Add(1, 1, 1) {
		t.Error("Add was accepted")
	}
}

// A slow lane does not hold up another.
func TestLanesAreIndependent(t *testing.T) {
	t.Parallel()
	block, done := make(chan struct{}), make(chan struct{})
	l := NewLanes[string, string](Limits{Batch: 10, Lane: 10}, one, func(key string, _ []int) {
		if key == "slow" {
			<-block
			return
		}
		close(done)
	})
	l.Add("slow", "flow", 1)
	l.Add("quick", "flow", 1)
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("the quick lane waits for the slow one")
	}
	close(block)
}

// A batch is its own: what comes after does not get into it, and it may be kept.
func TestBatchIsNotOverwritten(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var kept [][]int
	l := NewLanes[string, string](Limits{Batch: 4, Lane: 2000}, one, func(_ string, items []int) {
		mu.Lock()
		kept = append(kept, append(items, -1)) // would write into the next items, were there room
		mu.Unlock()
	})
	for i := range 1000 {
		for !l.Add("key", "flow", i) {
			runtime.Gosched()
		}
	}
	storetest.Eventually(t, patience, func() error {
		mu.Lock()
		defer mu.Unlock()
		var got []int
		for _, batch := range kept {
			got = append(got, batch[:len(batch)-1]...)
		}
		if len(got) != 1000 {
			return fmt.Errorf("%d items, want 1000", len(got))
		}
		for i, item := range got {
			if item != i {
				t.Fatalf("item %d is %d", i, item)
			}
		}
		return nil
	})
}

// TestStress: each item once, in the order of its producer, never two batches of a key at once; and
// afterwards neither memory nor goroutines are left. Not parallel: it counts goroutines.
func TestStress(t *testing.T) {
	const keys, flows, producers, each = 50, 3, 8, 100
	var running [keys]atomic.Int32
	var refused atomic.Int64
	var got [keys][]string // each lane has one writer at a time; the mutex of Lanes orders them
	l := NewLanes[int, int](Limits{Batch: 16, Flow: 2, Lane: 64}, oneText, func(key int, items []string) {
		if running[key].Add(1) != 1 {
			t.Error("two batches of a key at once")
		}
		if len(items) == 0 || len(items) > 14 {
			t.Errorf("a batch of %d", len(items))
		}
		got[key] = append(got[key], items...)
		running[key].Add(-1)
	})
	var all sync.WaitGroup
	for p := range producers {
		all.Go(func() {
			for i := range each * keys {
				for !l.Add(i%keys, p%flows, fmt.Sprintf("%d %d", p, i/keys)) {
					refused.Add(1)
					runtime.Gosched()
				}
			}
		})
	}
	all.Wait()
	storetest.Eventually(t, patience, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := len(l.lanes); n > 0 {
			return fmt.Errorf("%d idle keys are kept", n)
		}
		return nil
	})
	t.Logf("%d refusals", refused.Load())
	for key, items := range got {
		if len(items) != producers*each {
			t.Fatalf("lane %d ran %d items, want %d", key, len(items), producers*each)
		}
		var next [producers]int
		for _, item := range items {
			var p, i int
			if _, err := fmt.Sscanf(item, "%d %d", &p, &i); err != nil || i != next[p] {
				t.Fatalf("lane %d: item %q, want number %d", key, item, next[p])
			}
			next[p]++
		}
	}
	storetest.Eventually(t, patience, func() error {
		stacks := make([]byte, 1<<20)
		if text := string(stacks[:runtime.Stack(stacks, true)]); strings.Contains(text, ").loop(") {
			return fmt.Errorf("a lane's goroutine is left:\n%s", text)
		}
		return nil
	})
}

func BenchmarkAdd(b *testing.B) {
	for _, flows := range []int{1, 4096} {
		b.Run(fmt.Sprintf("flows=%d", flows), func(b *testing.B) {
			l := NewLanes[int, int](Limits{Batch: 520, Flow: 8, Lane: 1 << 40}, one, func(int, []int) {})
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				l.Add(1, n%flows, 1)
			}
		})
	}
}
