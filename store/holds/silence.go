package holds

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// silentMost is for how long the batches sent to a server may all go without an answer before it is known to be silent: longer than a busy
// machine stalls now and then.
const silentMost = 250 * time.Millisecond

// silenceGap is the longest time between batches without an answer that make one silence: longer than a batch takes, and so than it
// is between them while any are sent. What lies further apart says nothing of the time between.
const silenceGap = time.Second

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
	case before == nil || !before.known && now.Sub(before.since) > silenceGap:
		s.state.CompareAndSwap(before, &unanswered{since: now})
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

// silent is what those are told at once who ask a server that is known to be silent.
func (n *node) silent() error {
	return fmt.Errorf("%w: %s does not answer", store.ErrUnavailable, n.addr)
}
