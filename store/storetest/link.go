package storetest

import (
	"fmt"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Link is the network between a client and a server, which a test may break. It is of TCP, and breaks the connections
// that are there as well as new ones.
type Link struct {
	t     testing.TB
	proxy *toxiproxy.Proxy
}

// NewLink makes a way to the server at addr for this test alone.
func NewLink(t testing.TB, addr string) *Link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	l := &Link{t: t, proxy: toxiproxy.NewProxy(server, "link", "127.0.0.1:0", addr)}
	if err := l.proxy.Start(); err != nil {
		t.Fatalf("storetest: link to %s: %v", addr, err)
	}
	t.Cleanup(l.proxy.Stop)
	return l
}

// Addr is the link's near end.
func (l *Link) Addr() string { return l.proxy.Listen }

// Swallow makes a black hole of the link: what is sent in either direction is lost, and nobody is told.
func (l *Link) Swallow() {
	l.t.Helper()
	l.add("timeout", "upstream", `{"timeout": 0}`)
	l.add("timeout", "downstream", `{"timeout": 0}`)
}

// LoseAnswers closes a connection as soon as the server sends something on it, which is lost.
func (l *Link) LoseAnswers() {
	l.t.Helper()
	l.add("limit_data", "downstream", `{"bytes": 0}`)
}

func (l *Link) add(kind, stream, attributes string) {
	l.t.Helper()
	text := fmt.Sprintf(`{"name": "%s-%s", "type": %q, "stream": %q, "attributes": %s}`, kind, stream, kind, stream, attributes)
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
		l.t.Fatalf("storetest: break link: %v", err)
	}
}

// Cut ends all connections, and refuses new ones, until Mend.
func (l *Link) Cut() { l.proxy.Stop() }

// Mend lets connections through again.
func (l *Link) Mend() {
	l.t.Helper()
	if err := l.proxy.Start(); err != nil {
		l.t.Fatalf("storetest: mend link: %v", err)
	}
}

// Heal lets new connections be as before. Those that were broken may be closed.
func (l *Link) Heal() { l.proxy.Toxics.ResetToxics(l.t.Context()) }
