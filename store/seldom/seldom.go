// Package seldom logs what may happen to hundreds at once, as when a store is away: once a second, with how many were left out.
package seldom

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const every = time.Second

// Line is a log line that is seldom written. The zero value is ready to use.
type Line struct {
	mu   sync.Mutex
	next time.Time
	left int
}

// Log writes the line, unless it did so less than a second before now.
func (l *Line) Log(log *slog.Logger, level slog.Level, now time.Time, text string, facts ...slog.Attr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.left++
		return
	}
	if l.left > 0 {
		facts = append(facts, slog.Int("not_logged_since_the_last", l.left))
	}
	log.LogAttrs(context.Background(), level, text, facts...)
	l.next, l.left = now.Add(every), 0
}
