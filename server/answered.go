package server

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/holdfast-inventory/holdfast/store"
)

// answered remembers how refusals were answered last. While an allotment's stock stands still its refusals are all alike, and
// nearly every answer of a launch is one: to make each anew is a twelfth of the server's work for it, and an eighth of its garbage.
// Nothing is decided from it: it is asked with a refusal that the store has just given, and whose every value is compared.
type answered struct {
	seed  maphash.Seed
	slots [answeredMost]atomic.Pointer[answer]
}

// answeredMost is how many answers are remembered, some 1 KB each: of the quantities that are asked for of the hottest allotments.
const answeredMost = 256

type answer struct {
	refusal store.Refusal
	failure *failure // shared by calls: not to be changed
}

func newAnswered() *answered { return &answered{seed: maphash.MakeSeed()} }

// failureOf is the failure of any error, which is remembered if it is the same for everybody at any time.
func (a *answered) failureOf(err error) *failure {
	refusal, ok := err.(*store.Refusal) //nolint:errorlint // as the store gives it: one that is wrapped is rare, and answered all the same
	if !ok || refusal.HoldID != "" {
		return failureOf(err)
	}
	slot := a.slot(refusal)
	if last := slot.Load(); last != nil && last.refusal == *refusal {
		return last.failure
	}
	f := failureOf(err)
	if f.retry == 0 && f.cause == nil { // neither a delay that is drawn nor a line to be logged
		slot.Store(&answer{refusal: *refusal, failure: f})
	}
	return f
}

func (a *answered) slot(r *store.Refusal) *atomic.Pointer[answer] {
	return &a.slots[(maphash.String(a.seed, r.Allotment)+uint64(r.Requested))%answeredMost] //nolint:gosec // of any sign, as a hash
}
