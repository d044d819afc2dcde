// Package batch gathers what arrives while a call is in flight, so that the next call takes all
// of it: no wait when idle, large batches under load, first come first served.
package batch

import "sync"

// Lanes is one queue for each key, with at most one batch of a key running at a time. A lane with
// nothing to do takes no memory and has no goroutine.
type Lanes[K comparable, T any] struct {
	run      func(K, []T)
	weigh    func(T) int
	most     int
	capacity int

	mu    sync.Mutex
	lanes map[K]*lane[T] // those that run
}

type lane[T any] struct {
	waiting []T
	weight  int // of all that wait
}

// NewLanes makes lanes that call run with batches of items of one key. What a batch weighs, by weigh, is at most
// most, or it is a single item; an item is refused if what waits with it would weigh more than capacity.
func NewLanes[K comparable, T any](most, capacity int, weigh func(T) int, run func(K, []T)) *Lanes[K, T] {
	return &Lanes[K, T]{run: run, weigh: weigh, most: most, capacity: capacity, lanes: map[K]*lane[T]{}}
}

// Add puts item in the next batch of key. It returns false, and does nothing, when that lane is full.
func (l *Lanes[K, T]) Add(key K, item T) bool {
	weight := l.weigh(item)
	l.mu.Lock()
	defer l.mu.Unlock()
	q, running := l.lanes[key]
	if !running {
		q = &lane[T]{}
	}
	if q.weight+weight > l.capacity {
		return false
	}
	q.waiting, q.weight = append(q.waiting, item), q.weight+weight
	if !running {
		l.lanes[key] = q
		go l.loop(key, q)
	}
	return true
}

// Waiting is what the items of key that no batch has taken yet weigh.
func (l *Lanes[K, T]) Waiting(key K) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.lanes[key]; q != nil {
		return q.weight
	}
	return 0
}

func (l *Lanes[K, T]) loop(key K, q *lane[T]) {
	for items := l.take(key, q); items != nil; items = l.take(key, q) {
		l.run(key, items)
	}
}

func (l *Lanes[K, T]) take(key K, q *lane[T]) []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(q.waiting) == 0 {
		delete(l.lanes, key)
		return nil
	}
	n, weight := 0, 0
	for n < len(q.waiting) {
		w := l.weigh(q.waiting[n])
		if n > 0 && weight+w > l.most {
			break
		}
		n, weight = n+1, weight+w
	}
	items := q.waiting[:n:n]
	q.waiting, q.weight = q.waiting[n:], q.weight-weight
	return items
}
