package holds

import (
	"sync"
	"time"
)

// hearing is when each server that is listened to was last heard.
type hearing struct {
	mu   sync.Mutex
	last map[*node]time.Time
}

// heard notes that a server was heard, or that listening to it begins.
func (h *hearing) heard(n *node, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == nil {
		h.last = map[*node]time.Time{}
	}
	h.last[n] = now
}

// forget notes that a server is not listened to any more.
func (h *hearing) forget(n *node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.last, n)
}

// silence is how long the server has been silent that has been for longest; 0 if none is listened to.
func (h *hearing) silence(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	longest := time.Duration(0)
	for _, heard := range h.last {
		longest = max(longest, now.Sub(heard))
	}
	return longest
}
