package inventory

import (
	"log/slog"
	"sync"
	"time"
)

const seldomEvery = time.Second

// seldom warns of what may happen to hundreds at once, as when a store is away: once a second, with how many were left out.
type seldom struct {
	mu   sync.Mutex
	next time.Time
	left int
}

func (s *seldom) warn(log *slog.Logger, now time.Time, text string, facts ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.next) {
		s.left++
		return
	}
	if s.left > 0 {
		facts = append(facts, slog.Int("not_logged_since_the_last", s.left))
	}
	log.Warn(text, facts...)
	s.next, s.left = now.Add(seldomEvery), 0
}
