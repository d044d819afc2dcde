// Package wire makes unary gRPC calls for very little CPU: it writes HTTP/2 frames into one buffer for each
// connection, with header blocks that are made once, and sends many calls with one write. It is made for
// generating load, so it does without what a caller in production needs: streams, retries, balancing, tracing.
// Messages are at most 16 KiB.
package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNotConnected means that no server can be reached now: nothing was sent.
var ErrNotConnected = errors.New("not connected")

const (
	dialTimeout = 5 * time.Second
	redialFirst = 20 * time.Millisecond // before the second try to connect again; doubles
	redialLast  = time.Second
)

// Method is one that can be called.
type Method struct {
	Path    string        // such as /package.Service/Method
	Timeout time.Duration // told to the server with each call; 0: none
}

// Options is what a Client needs.
type Options struct {
	Addresses   []string // used in turn
	Connections int      // in all; at least one for each address
	Methods     []Method // calls name them by their place here
	Access      Access

	// Handle is told how each call ended. It runs in the goroutine that reads the connection, so what takes time
	// delays the answers behind it. It may call Answer.Send, and Client.Send followed by Client.Flush.
	Handle func(*Answer)
	// Clock is the time that answers are stamped with.
	Clock func() time.Duration

	lastStream uint32 // for tests: the highest stream id of a connection
}

// Access is how servers let the client in. The zero value calls in the clear, as nobody.
type Access struct {
	TLS *tls.Config // nil: in the clear
	// Authorization is the header of this name that the calls of a new connection have; nil, or an empty one: none.
	Authorization func() (string, error)
}

// Client is connections to servers. Its methods may be called from any goroutine.
type Client struct {
	options Options
	slots   []*slot
	turn    atomic.Uint32
	running sync.WaitGroup // readers and redials
	closed  chan struct{}

	mu    sync.Mutex
	conns map[*conn]struct{} // those that are read, in a slot or not; nil once the client is closed

	reconnects atomic.Int64
}

// slot is the place of one connection, which is replaced when it ends.
type slot struct {
	address string
	conn    atomic.Pointer[conn] // nil while there is none
}

// Dial connects every connection.
func Dial(ctx context.Context, o Options) (*Client, error) {
	if len(o.Addresses) == 0 {
		return nil, errors.New("no address")
	}
	if o.lastStream == 0 {
		o.lastStream = maxStreamID
	}
	c := &Client{options: o, closed: make(chan struct{}), conns: map[*conn]struct{}{}}
	for i := range max(o.Connections, len(o.Addresses)) {
		s := &slot{address: o.Addresses[i%len(o.Addresses)]}
		c.slots = append(c.slots, s)
		conn, err := c.dial(ctx, s)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.put(s, conn)
	}
	return c, nil
}

// Send makes a call. It is not on its way before Flush. The calls between two flushes go over the same connection,
// those after the flush over the next. tag comes back with the answer; message is copied.
func (c *Client) Send(method int, tag uint64, message []byte) error {
	first := int(c.turn.Load())
	for i := range c.slots {
		conn := c.slots[(first+i)%len(c.slots)].conn.Load()
		if conn != nil && conn.send(method, tag, message) {
			return nil
		}
	}
	return ErrNotConnected
}

// Flush sends what Send left.
func (c *Client) Flush() {
	c.turn.Add(1)
	for _, s := range c.slots {
		if conn := s.conn.Load(); conn != nil {
			conn.flush()
		}
	}
}

// Reconnects tells how often a connection was replaced: it was lost, or the server wanted it to end.
func (c *Client) Reconnects() int64 { return c.reconnects.Load() }

// Close closes every connection. Calls without an answer are answered with UNAVAILABLE.
func (c *Client) Close() {
	c.mu.Lock()
	conns := c.conns
	if c.conns = nil; conns != nil {
		close(c.closed)
	}
	c.mu.Unlock()
	for conn := range conns {
		_ = conn.net.Close() // its reader ends it
	}
	c.running.Wait()
}

// add notes a connection that is to be read, unless the client is closed.
func (c *Client) add(conn *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns == nil {
		return false
	}
	c.conns[conn] = struct{}{}
	return true
}

func (c *Client) remove(conn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}

// put makes conn the connection of s.
func (c *Client) put(s *slot, conn *conn) {
	s.conn.Store(conn)
	if conn.isDraining() { // it ended before it was there to be replaced
		c.replace(s, conn)
	}
}

// replace connects s again, once for each connection that ends.
func (c *Client) replace(s *slot, old *conn) {
	if !s.conn.CompareAndSwap(old, nil) {
		return
	}
	select {
	case <-c.closed:
		return
	default:
	}
	c.reconnects.Add(1)
	c.running.Go(func() {
		for pause := redialFirst; ; pause = min(2*pause, redialLast) {
			select {
			case <-c.closed:
				return
			default:
			}
			if conn, err := c.dial(context.Background(), s); err == nil {
				c.put(s, conn)
				return
			}
			select {
			case <-c.closed:
				return
			case <-time.After(pause):
			}
		}
	})
}

// dial returns a connection that knows the server's settings.
func (c *Client) dial(ctx context.Context, s *slot) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := connect(ctx, c, s)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.address, err)
	}
	return conn, nil
}
