package inventory

import (
	"sync"
	"time"
)

const (
	backoffFirst = time.Second
	backoffMost  = time.Minute
	backoffCalm  = 5 * time.Minute // without an adopt on suspicion, the next is not delayed, and
	backoffKept  = 2 * backoffCalm // within that its allotment is forgotten
)

// backoffs delay the adopts of an allotment that are made on suspicion, if they do not help. They remember only the allotments
// that were suspected of late: those since turned, and those of as long before.
type backoffs struct {
	mu            sync.Mutex
	recent, older map[string]backoff
	turned        time.Time
}

type backoff struct {
	last  time.Time
	delay time.Duration
}

// due says whether an adopt on suspicion may be made now, and notes it.
func (s *backoffs) due(allotment string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(now)
	b, known := s.recent[allotment]
	if !known {
		b, known = s.older[allotment]
	}
	switch since := now.Sub(b.last); {
	case !known || since > backoffCalm:
		b.delay = backoffFirst
	case since < b.delay:
		return false
	default:
		b.delay = min(2*b.delay, backoffMost)
	}
	b.last = now
	if s.recent == nil {
		s.recent = map[string]backoff{}
	}
	s.recent[allotment] = b
	return true
}

// forget drops the allotments that have been calm.
func (s *backoffs) forget(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(now)
}

func (s *backoffs) turn(now time.Time) {
	switch since := now.Sub(s.turned); {
	case since > backoffKept:
		s.recent, s.older, s.turned = nil, nil, now
	case since > backoffCalm:
		s.recent, s.older, s.turned = nil, s.recent, now
	}
}
