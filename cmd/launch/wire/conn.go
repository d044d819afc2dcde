package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
)

const (
	frameHeader    = 9
	messagePrefix  = 5 // not compressed, length
	maxFrame       = 16384
	maxMessage     = maxFrame - messagePrefix
	maxStreamID    = 1<<31 - 1
	startWindow    = 65535   // HTTP/2's own, until either side says otherwise
	receiveWindow  = 1 << 30 // of the connection; answers are small, so that it is renewed very rarely
	streamReceive  = 16 << 20
	readBuffer     = 128 << 10
	smallTable     = 2048 // a server with a smaller table of headers gets headers that use none
	defaultStreams = 100  // until the server has said how many it takes
	// The headers of a call are in one frame.
	maxAuthorization = maxFrame / 2
)

// conn is one connection. The goroutine that reads it ends it and its calls.
type conn struct {
	client *Client
	slot   *slot
	net    net.Conn

	mu      sync.Mutex
	out     []byte // frames to be written
	spare   []byte // the buffer that out alternates with
	writing bool   // somebody is writing, and will look at out again
	failed  bool   // a write has failed: the reader is about to notice

	headers  *blocks
	calls    map[uint32]*call // by stream id
	free     []*call
	waiting  []waiting // first come, first served
	nextID   uint32
	streams  int64 // calls that the server takes at the same time
	window   int64 // bytes that the server takes on the connection
	initial  int64 // bytes that it takes on a new stream
	draining bool  // no new calls: another connection takes them

	reader reader
}

// call is one that was sent.
type call struct {
	tag     uint64
	started bool // headers have come, so that the next are trailers
	body    []byte
	headers headers
}

// waiting is a call that the server does not take yet.
type waiting struct {
	method  int
	tag     uint64
	message []byte
	since   time.Duration
}

// connect dials, and waits for the server's settings.
func connect(ctx context.Context, client *Client, s *slot) (*conn, error) {
	access := client.options.Access
	authorization, err := access.header()
	if err != nil {
		return nil, err
	}
	socket, err := access.dial(ctx, s.address)
	if err != nil {
		return nil, err
	}
	c := &conn{
		client: client, slot: s, net: socket,
		headers: newBlocks(s.address, access.scheme(), authorization, client.options.Methods),
		calls:   map[uint32]*call{},
		nextID:  1, streams: defaultStreams, window: startWindow, initial: startWindow,
	}
	c.reader.init(c)
	if !client.add(c) {
		return nil, errors.Join(net.ErrClosed, socket.Close())
	}
	c.greet()
	settled := make(chan error, 1)
	client.running.Go(func() { c.read(settled) })
	select {
	case err = <-settled:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		_ = socket.Close() // the reader may have closed it
		return nil, err
	}
	return c, nil
}

// greet begins the connection: no pushed streams, and windows that never get in the way.
func (c *conn) greet() {
	c.out = append(c.out, http2.ClientPreface...)
	c.out = appendFrame(c.out, 12, http2.FrameSettings, 0, 0)
	c.out = appendSetting(c.out, http2.SettingEnablePush, 0)
	c.out = appendSetting(c.out, http2.SettingInitialWindowSize, streamReceive)
	c.out = appendWindowUpdate(c.out, receiveWindow-startWindow)
	c.flush()
}

// send takes a call, unless the connection takes no more.
func (c *conn) send(method int, tag uint64, message []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining || c.failed || len(message) > maxMessage {
		return false
	}
	if len(c.waiting) > 0 || !c.hasRoom(len(message)) {
		c.waiting = append(c.waiting, waiting{method, tag, bytes.Clone(message), c.client.options.Clock()})
		return true
	}
	c.start(method, tag, message)
	return true
}

// hasRoom tells whether the server takes one more call now.
func (c *conn) hasRoom(message int) bool {
	size := int64(message + messagePrefix)
	return int64(len(c.calls)) < c.streams && size <= c.window && size <= c.initial
}

// start writes the frames of a call.
func (c *conn) start(method int, tag uint64, message []byte) {
	id := c.nextID
	c.nextID += 2
	if c.nextID > c.client.options.lastStream {
		c.drain() // the last stream that this connection can have
	}
	block := c.headers.of(method)
	c.out = appendFrame(c.out, len(block), http2.FrameHeaders, http2.FlagHeadersEndHeaders, id)
	c.out = append(c.out, block...)
	c.out = appendFrame(c.out, messagePrefix+len(message), http2.FrameData, http2.FlagDataEndStream, id)
	c.out = append(c.out, 0)
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(len(message))) //nolint:gosec // at most maxMessage
	c.out = append(c.out, message...)
	c.window -= int64(messagePrefix + len(message))
	c.calls[id] = c.newCall(tag)
}

func (c *conn) newCall(tag uint64) *call {
	if last := len(c.free) - 1; last >= 0 {
		k := c.free[last]
		c.free = c.free[:last]
		*k = call{tag: tag, body: k.body[:0]}
		return k
	}
	return &call{tag: tag}
}

// admit sends those that wait, as far as the server takes them. Those that have waited for longer than a call may take
// are given up. It is called by the reader, with mu held.
func (c *conn) admit() {
	next := 0
	for ; next < len(c.waiting); next++ {
		w := c.waiting[next]
		if limit := c.client.options.Methods[w.method].Timeout; limit > 0 && c.reader.at-w.since > limit {
			c.reader.expired = append(c.reader.expired, w.tag)
			continue
		}
		if c.draining || !c.hasRoom(len(w.message)) {
			break
		}
		c.start(w.method, w.tag, w.message)
	}
	if c.waiting = c.waiting[next:]; len(c.waiting) == 0 {
		c.waiting = nil
	}
}

// drain leaves new calls to another connection. It is called with mu held.
func (c *conn) drain() {
	if !c.draining {
		c.draining = true
		c.client.running.Go(func() {
			c.client.replace(c.slot, c)
			c.flush() // Client.Flush does not find it any more
		})
	}
}

func (c *conn) isDraining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// flush writes what there is to write. If somebody is writing already, that one goes on with it, so that nobody
// waits for a server that does not read.
func (c *conn) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing {
		return
	}
	c.writing = true
	for len(c.out) > 0 && !c.failed {
		frames := c.out
		c.out = c.spare[:0]
		c.mu.Unlock()
		_, err := c.net.Write(frames)
		c.mu.Lock()
		c.spare = frames
		if err != nil {
			c.failed = true
			_ = c.net.Close() // so that the reader ends
		}
	}
	c.writing = false
}

// end answers what has no answer, when nothing more can be read.
func (c *conn) end(cause error) {
	_ = c.net.Close()
	c.mu.Lock()
	c.draining, c.failed = true, true
	calls := c.calls
	c.calls = map[uint32]*call{}
	left := c.leave()
	c.mu.Unlock()
	c.client.remove(c)
	c.client.replace(c.slot, c)
	c.reader.at = c.client.options.Clock()
	for _, k := range calls {
		c.client.options.Handle(&Answer{
			Tag: k.tag, At: c.reader.at, Code: codes.Unavailable, Text: "connection lost: " + cause.Error(), conn: c,
		})
	}
	c.refuse(left)
}

// leave gives up the calls that wait, which another connection is to make. It is called with mu held.
func (c *conn) leave() (tags []uint64) {
	for _, w := range c.waiting {
		tags = append(tags, w.tag)
	}
	c.waiting = nil
	return tags
}

func appendFrame(b []byte, size int, kind http2.FrameType, flags http2.Flags, stream uint32) []byte {
	b = append(b, byte(size>>16), byte(size>>8), byte(size), byte(kind), byte(flags)) //nolint:gosec // at most maxFrame
	return binary.BigEndian.AppendUint32(b, stream)
}

func appendSetting(b []byte, id http2.SettingID, value uint32) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(id))
	return binary.BigEndian.AppendUint32(b, value)
}

// appendWindowUpdate renews the connection's window.
func appendWindowUpdate(b []byte, by uint32) []byte {
	b = appendFrame(b, 4, http2.FrameWindowUpdate, 0, 0)
	return binary.BigEndian.AppendUint32(b, by)
}
