// Package model is the reference model behind Holdfast's design: 20,000 requests for 5,000 items, decided by workers that
// read the stock, check it and write it back, under three regimes of protection. It is exact: the same generator
// and the same seed give the same figures everywhere, and the test beside it holds them fast.
//
// What it shows, with [Workers] workers:
//
//   - [Unprotected] sells 27,963 of 5,000 items: every request finds stock in a counter that forgets most sales.
//   - [Optimistic] sells 5,000, but gives up after [Tries] conflicts: it refuses 2,409 requests that could have been
//     served. The conflicts grow with the writers: 1,519 with two, 3,577 with four, 10,038 with sixteen.
//   - [Pessimistic] sells 5,000 and refuses nobody wrongly, but spends 304,276 of 344,446 steps waiting for the lock.
//
// All three suffer from the time between the read and the write. So Holdfast has none: a script inside Redis reads, checks
// and writes in one step, for a whole batch of requests, and nobody is retried or waits for a lock.
//
// Only tests import this package.
package model

// The reference workload.
const (
	Capacity = 5_000  // items for sale
	Requests = 20_000 // each for one or two of them
	Workers  = 16     // writers at the same time
	Tries    = 3      // conflicts after which an optimistic worker gives up
)

// Regime says what a worker does about others that write between its read and its own write.
type Regime int

// The regimes.
const (
	Unprotected Regime = iota + 1 // nothing
	Optimistic                    // compares a version before it writes; reads again if it moved, at the third time refuses
	Pessimistic                   // holds a lock from its read to its decision
)

func (r Regime) String() string {
	switch r {
	case Unprotected:
		return "unprotected"
	case Optimistic:
		return "optimistic"
	case Pessimistic:
		return "pessimistic"
	default:
		return "unknown"
	}
}

// Result is what a run of the model came to.
type Result struct {
	Sold          int64 // items given to buyers
	Left          int64 // the counter at the end; Sold + Left is the capacity unless writes were lost
	Refusals      int   // requests refused
	ValidRefusals int   // those of them that the stock of that moment would have served
	Conflicts     int   // times that the version had moved
	Waits         int   // steps spent waiting for the lock
	Steps         int   // steps in all
}

// Oversold is by how much more was sold than there was.
func (r Result) Oversold() int64 { return max(0, r.Sold-Capacity) }

// Run plays the reference workload under a regime, with that many workers, at least one.
//
// Time is a row of steps. Each step draws the worker that moves; a worker needs two moves for a request, one to
// read and one to decide, so that others may move in between. The run ends when no request is left and
// all workers are idle.
func Run(regime Regime, workers int) Result {
	random := source(seed)
	r := run{regime: regime, requests: draw(&random), stock: Capacity}
	all := make([]worker, workers)
	for r.open > 0 || len(r.requests) > 0 {
		r.result.Steps++
		r.move(&all[int(random.next()*float64(workers))])
	}
	r.result.Left = r.stock
	return r.result
}

// run is what the workers share.
type run struct {
	regime   Regime
	requests []int64 // quantities that no worker has taken yet
	open     int     // requests that a worker is at
	stock    int64
	version  int     // rises with each write
	holder   *worker // of the lock
	result   Result
}

// worker is at one request at a time.
type worker struct {
	state     state
	quantity  int64 // of its request
	conflicts int   // that this request met
	stock     int64 // as noted
	version   int   // as noted
}

type state int

const (
	idle     state = iota
	reading        // will read at its next move: waits for the lock, or met a conflict
	deciding       // has read, will decide at its next move
)

func (r *run) move(w *worker) {
	switch w.state {
	case idle:
		if len(r.requests) > 0 {
			*w = worker{quantity: r.requests[0]}
			r.requests = r.requests[1:]
			r.open++
			r.read(w)
		}
	case reading:
		r.read(w)
	case deciding:
		r.decide(w)
	}
}

func (r *run) read(w *worker) {
	if r.regime == Pessimistic {
		if r.holder != nil {
			r.result.Waits++
			w.state = reading
			return
		}
		r.holder = w
	}
	w.stock, w.version, w.state = r.stock, r.version, deciding
}

// decide goes by what the worker noted, however old it is by now: that is the mistake that the regimes are about.
func (r *run) decide(w *worker) {
	switch {
	case w.stock < w.quantity:
		r.refuse(w)
	case r.regime == Optimistic && r.version != w.version:
		r.result.Conflicts++
		w.conflicts++
		if w.conflicts < Tries {
			w.state = reading
			return
		}
		r.refuse(w)
	default:
		r.stock = w.stock - w.quantity
		r.version++
		r.result.Sold += w.quantity
	}
	w.state = idle
	r.open--
	if r.holder == w {
		r.holder = nil
	}
}

func (r *run) refuse(w *worker) {
	r.result.Refusals++
	if r.stock >= w.quantity {
		r.result.ValidRefusals++
	}
}
