package inventory

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	hotShown = 20               // allotments whose stock is shown
	hotKept  = 10 * hotShown    // whose requests are remembered from pass to pass
	hotHalf  = 10 * time.Second // in which what was asked loses half of its weight
	hotCold  = 0.01             // requests a second, below which an allotment is forgotten
)

// hot knows the allotments that were asked for most of late by this server's callers. The supervisor's lock is around it.
type hot struct {
	of     map[string]*hotAllotment
	turned time.Time
}

// hotAllotment is one of them.
type hotAllotment struct {
	id                    string
	perSecond             float64 // a mean in which older seconds count less
	shown                 bool    // one of the hotShown
	seen                  bool    // the numbers are known
	available, held, sold int64
}

// turn takes what was asked since the last turn into the means, and says anew which are the hottest.
func (h *hot) turn(asked map[string]int64, now time.Time) {
	elapsed := now.Sub(h.turned)
	if h.of == nil {
		h.of, elapsed = map[string]*hotAllotment{}, time.Second
	}
	h.turned = now
	share := math.Exp2(-elapsed.Seconds() / hotHalf.Seconds())
	for id := range asked {
		if h.of[id] == nil {
			h.of[id] = &hotAllotment{id: id}
		}
	}
	all := make([]*hotAllotment, 0, len(h.of))
	for id, a := range h.of {
		a.perSecond = a.perSecond*share + (1-share)*float64(asked[id])/max(elapsed.Seconds(), 0.001)
		if a.perSecond < hotCold {
			delete(h.of, id)
			continue
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *hotAllotment) int {
		return cmp.Or(cmp.Compare(b.perSecond, a.perSecond), cmp.Compare(a.id, b.id))
	})
	for i, a := range all {
		if a.shown = i < hotShown; !a.shown {
			a.seen = false
		}
		if i >= hotKept {
			delete(h.of, a.id)
		}
	}
}

// isShown says whether an allotment is one of the hottest.
func (h *hot) isShown(id string) bool { return h.of[id] != nil && h.of[id].shown }

// note keeps the numbers of one of the hottest.
func (h *hot) note(c store.Counters) {
	if a := h.of[c.Allotment]; a != nil && a.shown {
		a.seen, a.available, a.held, a.sold = true, max(0, c.Available), c.Held+c.Confirming+c.Shrinking, c.Sold
	}
}

// hottest is a copy of those that are shown.
func (s *supervisor) hottest() []hotAllotment {
	s.mu.Lock()
	defer s.mu.Unlock()
	var shown []hotAllotment
	for _, a := range s.hot.of {
		if a.shown {
			shown = append(shown, *a)
		}
	}
	return shown
}
