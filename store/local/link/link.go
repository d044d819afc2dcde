// Package link is the network between two programs on this machine, on which what goes wrong with networks can be done.
package link

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Link is a proxy in front of a program that takes connections. It runs in this process. What is done to it is done to
// connections that are there as well as to new ones.
type Link struct{ proxy *toxiproxy.Proxy }

// The directions of what is done: of what is asked, and of what is answered.
const (
	upstream   = "upstream"
	downstream = "downstream"
)

// New makes a link to the program at an address.
func New(to string) (*Link, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	l := &Link{proxy: toxiproxy.NewProxy(server, to, "127.0.0.1:0", to)}
	if err := l.proxy.Start(); err != nil {
		return nil, fmt.Errorf("proxy to %s: %w", to, err)
	}
	return l, nil
}

// Addr is where the link begins. It stays the same.
func (l *Link) Addr() string { return l.proxy.Listen }

// Lead makes the link lead to another program. What is connected is cut.
func (l *Link) Lead(to string) error {
	if err := l.Cut(); err != nil {
		return err
	}
	return l.proxy.Update(&toxiproxy.Proxy{Listen: l.proxy.Listen, Upstream: to, Enabled: true})
}

// Cut ends every connection and refuses new ones, until Heal.
func (l *Link) Cut() error {
	return l.proxy.Update(&toxiproxy.Proxy{Listen: l.proxy.Listen, Upstream: l.proxy.Upstream})
}

// BlackHole makes everything vanish, until Heal: nothing is refused or closed.
func (l *Link) BlackHole() error {
	if err := l.swallow(upstream); err != nil {
		return err
	}
	return l.swallow(downstream)
}

func (l *Link) swallow(direction string) error {
	return l.add("timeout", direction, map[string]int64{"timeout": 0})
}

// LoseAnswers lets what is asked pass, and ends each connection when an answer comes, until Heal.
func (l *Link) LoseAnswers() error {
	return l.add("limit_data", downstream, map[string]int64{"bytes": 0})
}

// Reset ends each connection with an RST once something is answered, until Heal.
func (l *Link) Reset() error {
	return l.add("reset_peer", downstream, map[string]int64{"timeout": 0})
}

// Delay makes every answer come later, until Heal.
func (l *Link) Delay(by time.Duration) error {
	return l.add("latency", downstream, map[string]int64{"latency": by.Milliseconds()})
}

func (l *Link) add(kind, direction string, attributes map[string]int64) error {
	text, err := json.Marshal(map[string]any{"type": kind, "stream": direction, "attributes": attributes})
	if err == nil {
		_, err = l.proxy.Toxics.AddToxicJson(strings.NewReader(string(text)))
	}
	if err != nil {
		return fmt.Errorf("%s on the link to %s: %w", kind, l.proxy.Upstream, err)
	}
	return nil
}

// Heal undoes whatever was done. Connections that were black holes are closed.
func (l *Link) Heal() error {
	l.proxy.Toxics.ResetToxics(context.Background())
	return l.proxy.Update(&toxiproxy.Proxy{Listen: l.proxy.Listen, Upstream: l.proxy.Upstream, Enabled: true})
}

// Close ends the link.
func (l *Link) Close() { l.proxy.Stop() }
