// Package batch gathers what arrives while a call is in flight, so that the next call takes all
// of it: no wait when idle, large batches under load, first come first served.
package batch

import "sync"

// Lanes is one queue for each key, with at most one batch of a key running at a time. A lane with
// nothing to do takes no memory and has no goroutine.
type Lanes[K comparable, T any] struct {
	run      func(K, []T)
	most     int
	capacity int

	mu      sync.Mutex
	waiting map[K][]T // a key is present while its lane runs
}

// NewLanes makes lanes that call run with batches of at most most items of one key, and refuse an
// item when capacity items of its key wait.
func NewLanes[K comparable, T any](most, capacity int, run func(K, []T)) *Lanes[K, T] {
	return &Lanes[K, T]{run: run, most: most, capacity: capacity, waiting: map[K][]T{}}
}

// Add puts item in the next batch of key. It returns false, and does nothing, when that lane is full.
func (l *Lanes[K, T]) Add(key K, item T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	items, running := l.waiting[key]
	if len(items) >= l.capacity {
		return false
	}
	l.waiting[key] = append(items, item)
	if !running {
		go l.loop(key)
	}
	return true
}

// Waiting is the number of items of key that no batch has taken yet.
func (l *Lanes[K, T]) Waiting(key K) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting[key])
}

func (l *Lanes[K, T]) loop(key K) {
	for items := l.take(key); items != nil; items = l.take(key) {
		l.run(key, items)
	}
}

func (l *Lanes[K, T]) take(key K) []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	items := l.waiting[key]
	if len(items) == 0 {
		delete(l.waiting, key)
		return nil
	}
	n := min(l.most, len(items))
	l.waiting[key] = items[n:]
	return items[:n:n]
}
