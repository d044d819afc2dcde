package storetest

import (
	"testing"

	"github.com/holdfast-inventory/holdfast/store/local/link"
)

// Link is a link for one test alone, which fails when the link cannot be broken or mended.
type Link struct {
	t    testing.TB
	link *link.Link
}

// NewLink makes a way to the server at addr.
func NewLink(t testing.TB, addr string) *Link {
	t.Helper()
	made, err := link.New(addr)
	l := &Link{t: t, link: made}
	l.must(err)
	t.Cleanup(made.Close)
	return l
}

// Addr is the link's near end.
func (l *Link) Addr() string { return l.link.Addr() }

// Swallow makes a black hole of the link: what is sent in either direction is lost, and nobody is told.
func (l *Link) Swallow() {
	l.t.Helper()
	l.must(l.link.BlackHole())
}

// LoseAnswers closes a connection as soon as the server sends something on it, which is lost.
func (l *Link) LoseAnswers() {
	l.t.Helper()
	l.must(l.link.LoseAnswers())
}

// Cut ends all connections, and refuses new ones.
func (l *Link) Cut() {
	l.t.Helper()
	l.must(l.link.Cut())
}

// Heal undoes it all. Connections that were broken may be closed.
func (l *Link) Heal() {
	l.t.Helper()
	l.must(l.link.Heal())
}

func (l *Link) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("storetest: link: %v", err)
	}
}
