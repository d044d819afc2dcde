package world

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

// Link is the network between two programs: a proxy, on which what goes wrong with networks can be done.
type Link struct{ proxy *toxiproxy.Proxy }

// Direction of what a fault does to a link.
type Direction string

// The directions: of what is asked, and of what is answered.
const (
	Upstream   Direction = "upstream"
	Downstream Direction = "downstream"
)

// NewLink makes a link to a program.
func NewLink(to string) (*Link, error) {
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
	if err := l.swallow(Upstream); err != nil {
		return err
	}
	return l.swallow(Downstream)
}

func (l *Link) swallow(d Direction) error {
	return l.add("timeout", d, map[string]int64{"timeout": 0})
}

// LoseAnswers lets what is asked pass, and ends each connection when an answer comes, until Heal.
func (l *Link) LoseAnswers() error {
	return l.add("limit_data", Downstream, map[string]int64{"bytes": 0})
}

// Reset ends each connection with an RST once something is answered, until Heal.
func (l *Link) Reset() error {
	return l.add("reset_peer", Downstream, map[string]int64{"timeout": 0})
}

// Delay makes every answer come later, until Heal.
func (l *Link) Delay(by time.Duration) error {
	return l.add("latency", Downstream, map[string]int64{"latency": by.Milliseconds()})
}

func (l *Link) add(kind string, d Direction, attributes map[string]int64) error {
	text, err := json.Marshal(map[string]any{"type": kind, "stream": d, "attributes": attributes})
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
