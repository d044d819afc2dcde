package inventory

import "sync"

// turns lets some adopts work at a time. Those that callers wait for come first, and while there are any, only one of the
// others works: what is left of the stores is theirs. That one goes on in any case, so nothing waits for ever.
type turns struct {
	most int // of those that callers wait for, and, if there are none, of the others

	mu      sync.Mutex
	waiting [2][]*turn // others, asked for
	working [2]int
}

// turn is one adopt's.
type turn struct {
	begin chan struct{} // closed when it may work
	asked bool          // a caller waits for it
	begun bool
}

// class is the place of a turn's kind in waiting and working.
func (t *turn) class() int {
	if t.asked {
		return 1
	}
	return 0
}

// take waits for a new turn.
func (s *turns) take(t *turn) {
	s.mu.Lock()
	s.waiting[t.class()] = append(s.waiting[t.class()], t)
	s.next()
	s.mu.Unlock()
	<-t.begin
}

// ask notes that a caller waits for t, which may wait, work or be over.
func (s *turns) ask(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.asked {
		return
	}
	if t.begun {
		s.working[0]--
		s.working[1]++
	}
	for i, other := range s.waiting[0] {
		if other == t {
			s.waiting[0] = append(s.waiting[0][:i], s.waiting[0][i+1:]...)
			s.waiting[1] = append(s.waiting[1], t)
			break
		}
	}
	t.asked = true
	s.next()
}

// isAsked says whether a caller waits for t.
func (s *turns) isAsked(t *turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.asked
}

// give ends a turn.
func (s *turns) give(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working[t.class()]--
	t.begun = false
	s.next()
}

// next lets begin who may.
func (s *turns) next() {
	s.start(1, s.most)
	others := s.most
	if s.working[1] > 0 {
		others = 1
	}
	s.start(0, others)
}

func (s *turns) start(class, most int) {
	for len(s.waiting[class]) > 0 && s.working[class] < most {
		t := s.waiting[class][0]
		s.waiting[class] = s.waiting[class][1:]
		s.working[class]++
		t.begun = true
		close(t.begin)
	}
}
