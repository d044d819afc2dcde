package holds

import (
	"sync/atomic"
	"time"
)

// silentMost is for how long the batches sent to a server may all go without an answer before it is known to be silent: longer than a busy
// machine stalls now and then.
const silentMost = 250 * time.Millisecond

// silence is whether a server answers. Its zero value: it does.
type silence struct{ state atomic.Pointer[unanswered] }

// unanswered is what is known of a server that has not answered the last batch.
type unanswered struct {
	since time.Time // when the first batch had no answer
	known bool
}

// note notes that a batch had no answer.
func (s *silence) note(now time.Time) {
	before := s.state.Load()
	switch {
	case before == nil:
		s.state.CompareAndSwap(nil, &unanswered{since: now})
	case !before.known && now.Sub(before.since) >= silentMost:
		s.state.CompareAndSwap(before, &unanswered{since: before.since, known: true})
	}
}

// end notes that the server has answered.
func (s *silence) end() {
	if s.state.Load() != nil { // seldom: a write for each batch would cost more
		s.state.Store(nil)
	}
}

// begun says that the last batch had no answer.
func (s *silence) begun() bool { return s.state.Load() != nil }

// known says that the server has long been silent.
func (s *silence) known() bool {
	state := s.state.Load()
	return state != nil && state.known
}
