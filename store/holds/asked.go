package holds

import "sync"

// asked counts the requests for holds of each allotment. It is told of a batch at once, since most requests of a
// busy one are for the same allotment.
type asked struct {
	mu sync.Mutex
	of map[string]int64
}

func (a *asked) note(calls []*call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range calls {
		if c.script != createScript {
			continue
		}
		if a.of == nil {
			a.of = map[string]int64{}
		}
		if len(c.places) == 1 {
			a.of[c.places[0].Allotment] += int64(len(c.ops))
			continue
		}
		for _, o := range c.ops {
			for _, p := range o.places {
				a.of[p.Allotment]++
			}
		}
	}
}

// Asked implements store.Upkeep.
func (s *Store) Asked() map[string]int64 {
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	counts := s.asked.of
	s.asked.of = nil
	return counts
}
