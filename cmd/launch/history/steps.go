package history

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const never = time.Duration(math.MaxInt64)

// after is the moment that follows.
func after(t time.Duration) time.Duration {
	if t == never {
		return never
	}
	return t + time.Nanosecond
}

// steps is a number that changes at moments.
type steps struct {
	changes []change
	times   []time.Duration
	// tree[n+i] is the number after the i-th of n times, tree[j] the extreme of tree[2j] and tree[2j+1].
	tree []int64
	most bool // the extreme is the largest, not the least
}

type change struct {
	at time.Duration
	by int64
}

// add makes the number larger from one moment until just before another. Both may be never.
func (s *steps) add(from, until time.Duration, by int64) {
	if from == never || from >= until {
		return
	}
	s.changes = append(s.changes, change{from, by})
	if until != never {
		s.changes = append(s.changes, change{until, -by})
	}
}

// build makes the steps answer with the most or the least of a span.
func (s *steps) build(most bool) *steps {
	s.most = most
	slices.SortStableFunc(s.changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	s.times = []time.Duration{math.MinInt64} // it is 0 before the first change
	values := []int64{0}
	for _, c := range s.changes {
		value := values[len(values)-1] + c.by
		if c.at == s.times[len(s.times)-1] {
			values[len(values)-1] = value
		} else {
			s.times, values = append(s.times, c.at), append(values, value)
		}
	}
	n := len(values)
	s.tree = append(make([]int64, n), values...)
	for i := n - 1; i > 0; i-- {
		s.tree[i] = s.pick(s.tree[2*i], s.tree[2*i+1])
	}
	return s
}

func (s *steps) pick(a, b int64) int64 {
	if s.most == (a > b) {
		return a
	}
	return b
}

// over returns the extreme of the number from one moment to another, both included.
func (s *steps) over(from, until time.Duration) int64 {
	n := len(s.times)
	first, last := s.place(from), s.place(until)
	result := s.tree[n+first]
	for l, r := n+first, n+last+1; l < r; l, r = l/2, r/2 {
		if l%2 == 1 {
			result = s.pick(result, s.tree[l])
			l++
		}
		if r%2 == 1 {
			r--
			result = s.pick(result, s.tree[r])
		}
	}
	return result
}

// all returns the extreme of the number over all time, and when it was reached first.
func (s *steps) all() (value int64, at time.Duration) {
	n := len(s.times)
	for i, t := range s.times[1:] {
		if now := s.tree[n+1+i]; now != value && s.pick(now, value) == now {
			value, at = now, t
		}
	}
	return value, at
}

// place returns the place of the last time that is not after t.
func (s *steps) place(t time.Duration) int {
	place, found := slices.BinarySearch(s.times, t)
	if found {
		return place
	}
	return place - 1
}
