package history

import (
	"slices"
	"time"
)

// Fault is a time in which something was broken on purpose.
type Fault struct {
	Name        string        `json:"name"`
	From, Until time.Duration `json:"-"`
	// Loses: holds that were acknowledged before it was over may be lost. Each is told so, and is not sold to two.
	Loses bool `json:"loses"`
	// Rewinds: what nobody was told of may be lost, though what was acknowledged may not.
	Rewinds bool `json:"rewinds,omitempty"`
}

// putRight is how long after a fault what it did is still put right: a second or two since the time was noted last, and as
// much for adopting what had not been looked at.
const putRight = 4 * time.Second

// endure takes into account what faults do to holds: those that survive may be given the time that it took, and those that
// were there may be lost if it loses holds.
func (h *History) endure(all []*life) {
	for _, l := range all {
		for _, f := range h.Faults {
			if l.from == never || l.lapseLast == never || f.From > l.lapseLast || f.Until+putRight < l.from {
				continue
			}
			if f.Loses && l.from < f.Until && l.soldTold > f.From {
				l.lost = min(l.lost, f.From)
			}
			l.lapseLast += f.Until - f.From + putRight
			l.lapseTold = never // who had just lapsed may live again
		}
	}
}

// forgotten tells whether a hold may have been there and be lost, so that the server's not knowing it proves nothing.
func (h *History) forgotten(l *life) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool { return (f.Loses || f.Rewinds) && l.from < f.Until })
}

// isLost tells whether a fault may have lost the hold, and counts it.
func (t *trial) isLost(l *life) bool {
	if l.lost == never {
		return false
	}
	if !l.gone {
		l.gone = true
		t.Lost++
	}
	return true
}
