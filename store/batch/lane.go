package batch

// quantum is the weight that a flow may take in its turn: enough to be worth its turn, and so little that a batch has room
// for the turns of several.
const quantum = 64

// lane is what waits of one key. first has its turn, and goes behind last after it.
type lane[F comparable, T any] struct {
	limits      Limits
	weigh       func(T) int
	flows       map[F]*flow[F, T] // those of which something waits
	first, last *flow[F, T]
	items       int
	weight      int // of the items, and of their flows
	batches     int // taken so far
}

type flow[F comparable, T any] struct {
	name    F
	next    *flow[F, T]
	waiting []T
	weight  int // of those, and its own
	credit  int // what is left of its turn, or, below 0, what it took beyond it
	batch   int // the last one that it has a part in
}

// add returns false when there is no room for item.
func (q *lane[F, T]) add(name F, item T) bool {
	f, more := q.flows[name], q.weigh(item)
	if f == nil {
		f = &flow[F, T]{name: name, credit: quantum}
		more += q.limits.Flow
	}
	if f.weight+more > q.limits.Lane-q.weight-more {
		return false
	}
	if len(f.waiting) == 0 {
		q.flows[name] = f
		q.push(f)
	}
	f.waiting = append(f.waiting, item)
	f.weight += more
	q.weight += more
	q.items++
	return true
}

// take fills a batch in turn from the flows. One that is not done when the batch is full goes on in the next.
func (q *lane[F, T]) take() []T {
	q.batches++
	items := make([]T, 0, min(q.items, q.limits.Batch))
	for weight := 0; q.first != nil; {
		f := q.first
		if f.credit <= 0 {
			f.credit += quantum
			q.push(q.pop())
			continue
		}
		more := q.weigh(f.waiting[0])
		if f.batch != q.batches {
			more += q.limits.Flow
		}
		if len(items) > 0 && weight+more > q.limits.Batch {
			break
		}
		weight += more
		items = append(items, q.takeFirst())
	}
	return items
}

// takeFirst takes an item of the flow that has its turn, and forgets the flow if it was the last.
func (q *lane[F, T]) takeFirst() T {
	f := q.first
	item := f.waiting[0]
	weight := q.weigh(item)
	f.waiting = f.waiting[1:]
	f.weight -= weight
	f.credit -= weight
	f.batch = q.batches
	q.weight -= weight
	q.items--
	if len(f.waiting) == 0 {
		q.pop()
		delete(q.flows, f.name)
		q.weight -= q.limits.Flow
	}
	return item
}

func (q *lane[F, T]) push(f *flow[F, T]) {
	if q.first == nil {
		q.first = f
	} else {
		q.last.next = f
	}
	q.last = f
}

func (q *lane[F, T]) pop() *flow[F, T] {
	f := q.first
	q.first, f.next = f.next, nil
	return f
}
