// Package batch gathers what arrives while a call is in flight, so that the next call takes much of
// it: no wait when idle, large batches under load. Whoever asks for much does not keep the others waiting.
package batch

import "sync"

// Limits are weights, by the function that NewLanes is given.
type Limits struct {
	Batch int // of a batch, unless it is a single item
	Flow  int // of each flow, besides its items: counted in each batch that has any, and while any wait
	// Lane is of all that waits in a lane. Of a flow no more may wait than there is room left: one that wants all of it
	// gets half, several leave some, and so there is room for a flow of which little waits.
	Lane int
}

// Lanes is one queue for each key, with at most one batch of a key running at a time. In a lane the flows of which items
// wait take turns; in a flow it is first come, first served. A lane with nothing to do takes no memory and has
// no goroutine, and a flow of which nothing waits takes no memory.
type Lanes[K, F comparable, T any] struct {
	limits Limits
	weigh  func(T) int
	run    func(K, []T)

	mu    sync.Mutex
	lanes map[K]*lane[F, T] // those that run
}

// NewLanes makes lanes that call run with batches of items of one key.
func NewLanes[K, F comparable, T any](limits Limits, weigh func(T) int, run func(K, []T)) *Lanes[K, F, T] {
	return &Lanes[K, F, T]{limits: limits, weigh: weigh, run: run, lanes: map[K]*lane[F, T]{}}
}

// Add puts item in the lane of key, behind what waits there of the same flow. It returns false, and does nothing, when
// there is no room for it.
func (l *Lanes[K, F, T]) Add(key K, of F, item T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	q, running := l.lanes[key]
	if !running {
		q = &lane[F, T]{limits: l.limits, weigh: l.weigh, flows: map[F]*flow[F, T]{}}
	}
	if !q.add(of, item) {
		return false
	}
	if !running {
		l.lanes[key] = q
		go l.loop(key, q)
	}
	return true
}

// Waiting is how many items of key no batch has taken yet.
func (l *Lanes[K, F, T]) Waiting(key K) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.lanes[key]; q != nil {
		return q.items
	}
	return 0
}

func (l *Lanes[K, F, T]) loop(key K, q *lane[F, T]) {
	for items := l.take(key, q); items != nil; items = l.take(key, q) {
		l.run(key, items)
	}
}

func (l *Lanes[K, F, T]) take(key K, q *lane[F, T]) []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.items == 0 {
		delete(l.lanes, key)
		return nil
	}
	return q.take()
}
