package holds

import (
	"sync"

	"github.com/holdfast-inventory/holdfast/store"
)

// Only a hold that is granted needs its marker's key and the buyer's and request's ids, and a repeat the ids; at a launch
// nearly all requests are refused. So a call of the script create is brief, without these, if nothing was available when its
// allotments were last seen. If something has become so since, the script decides what comes before the first request
// that it would grant, and the rest is sent again at once, in full, as are requests of buyers that have something
// already: in the same order, and before any other request of the lane.

const mostSpent = 1 << 16

// spent are the allotments of which nothing was available when they were last seen.
type spent struct {
	mu sync.Mutex
	of map[string]struct{}
}

// all says whether it is so of all these.
func (s *spent) all(places []store.Place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range places {
		if _, ok := s.of[p.Allotment]; !ok {
			return false
		}
	}
	return true
}

// note keeps what the reply of a call says; it may be wrong at any time, since others take and give back too.
func (s *spent) note(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range c.facts {
		if f.gate != statusOK || f.available > 0 {
			delete(s.of, c.places[i].Allotment)
			continue
		}
		if s.of == nil || len(s.of) >= mostSpent {
			s.of = map[string]struct{}{}
		}
		s.of[c.places[i].Allotment] = struct{}{}
	}
}

// inFull makes the calls for what is to be sent again in full.
func inFull(calls []*call) (again []*call) {
	for _, c := range calls {
		if !c.brief {
			continue
		}
		rest := newCall(c.script)
		rest.asking = c.asking
		for _, o := range c.ops {
			if o.err == nil && o.reply[0].status() == statusBrief {
				o.reply, o.facts = nil, nil
				rest.add(o)
			}
		}
		if len(rest.ops) > 0 {
			again = append(again, rest)
		}
	}
	return again
}
