package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

var (
	errFrame    = errors.New("a frame that is not HTTP/2")
	errDraining = errors.New("the server wanted the connection to end, and it has")
)

// reader is the part of a connection that only the goroutine that reads it uses.
type reader struct {
	decoder  *hpack.Decoder
	fields   headers // of the block being decoded
	block    []byte  // of a header block in several frames
	blockID  uint32
	blockEnd bool  // the block ends its stream
	consumed int64 // bytes since the connection's window was renewed
	settled  bool
	expired  []uint64      // tags of calls that waited for too long
	at       time.Duration // when what is being handled was read
	answer   Answer
}

func (r *reader) init(c *conn) {
	r.answer.conn = c
	r.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) { r.fields.add(f.Name, f.Value) })
}

// read reads until the connection ends. settled is told when the server's settings have come.
func (c *conn) read(settled chan<- error) {
	err := c.readFrames(settled)
	if !c.reader.settled {
		settled <- err
	}
	c.end(err)
}

func (c *conn) readFrames(settled chan<- error) error {
	buffer := make([]byte, readBuffer)
	filled := 0
	for {
		n, err := c.net.Read(buffer[filled:])
		c.reader.at = c.client.options.Clock()
		filled += n
		used, broken := c.handleAll(buffer[:filled], settled)
		filled = copy(buffer, buffer[used:filled])
		c.flush()
		switch {
		case broken == nil && err == nil:
		case c.reader.settled:
			return errors.Join(broken, err)
		default:
			return c.stranger(buffer[:filled], errors.Join(broken, err))
		}
	}
}

// handleAll handles every whole frame, and returns how many bytes they are.
func (c *conn) handleAll(data []byte, settled chan<- error) (used int, err error) {
	for len(data)-used >= frameHeader {
		h := data[used:]
		size := int(h[0])<<16 | int(h[1])<<8 | int(h[2])
		if size > maxFrame {
			return used, fmt.Errorf("%w: %d bytes", errFrame, size)
		}
		if len(h) < frameHeader+size {
			break
		}
		kind, flags := http2.FrameType(h[3]), http2.Flags(h[4])
		id := binary.BigEndian.Uint32(h[5:]) & maxStreamID
		if !c.reader.settled && kind != http2.FrameSettings {
			return used, fmt.Errorf("%w: it began with %v", errFrame, kind)
		}
		if err := c.handle(kind, flags, id, h[frameHeader:frameHeader+size]); err != nil {
			return used, err
		}
		if !c.reader.settled {
			c.reader.settled = true
			settled <- nil
		}
		used += frameHeader + size
	}
	return used, c.drained()
}

// drained returns an error when the connection has nothing left to do.
func (c *conn) drained() error {
	c.mu.Lock()
	var left []uint64
	if c.draining {
		left = c.leave()
	}
	done := c.draining && len(c.calls) == 0
	c.mu.Unlock()
	c.refuse(left)
	c.giveUp()
	if done {
		return errDraining
	}
	return nil
}

func (c *conn) handle(kind http2.FrameType, flags http2.Flags, id uint32, payload []byte) error {
	if c.reader.blockID != 0 && (kind != http2.FrameContinuation || id != c.reader.blockID) {
		return fmt.Errorf("%w: %v inside a header block", errFrame, kind)
	}
	switch kind {
	case http2.FrameHeaders:
		return c.onHeaders(flags, id, payload)
	case http2.FrameContinuation:
		return c.onContinuation(flags, payload)
	case http2.FrameData:
		return c.onData(flags, id, payload)
	case http2.FrameSettings:
		return c.onSettings(flags, payload)
	case http2.FrameWindowUpdate:
		return c.onWindowUpdate(id, payload)
	case http2.FramePing:
		return c.onPing(flags, payload)
	case http2.FrameRSTStream:
		return c.onReset(id, payload)
	case http2.FrameGoAway:
		return c.onGoAway(payload)
	}
	return nil // others are to be ignored
}

func (c *conn) onHeaders(flags http2.Flags, id uint32, payload []byte) error {
	payload, err := unpadded(flags, payload)
	if err != nil {
		return err
	}
	if flags.Has(http2.FlagHeadersPriority) {
		if len(payload) < 5 {
			return errFrame
		}
		payload = payload[5:]
	}
	c.reader.blockEnd = flags.Has(http2.FlagHeadersEndStream)
	if flags.Has(http2.FlagHeadersEndHeaders) {
		return c.onBlock(id, payload)
	}
	c.reader.blockID, c.reader.block = id, append(c.reader.block[:0], payload...)
	return nil
}

func (c *conn) onContinuation(flags http2.Flags, payload []byte) error {
	r := &c.reader
	if r.blockID == 0 {
		return errFrame
	}
	r.block = append(r.block, payload...)
	if !flags.Has(http2.FlagContinuationEndHeaders) {
		return nil
	}
	id := r.blockID
	r.blockID = 0
	return c.onBlock(id, r.block)
}

// onBlock handles the headers or trailers of a call.
func (c *conn) onBlock(id uint32, block []byte) error {
	r := &c.reader
	r.fields = headers{}
	_, err := r.decoder.Write(block)
	if closed := r.decoder.Close(); err != nil || closed != nil {
		return errors.Join(err, closed)
	}
	k := c.find(id)
	if k == nil {
		return nil // ended before, and the table of headers is in step again
	}
	if !k.started {
		k.headers, k.started = r.fields, true
	} else {
		http := k.headers.http
		k.headers = r.fields
		k.headers.http = http
	}
	if r.blockEnd {
		c.finish(id, k)
	}
	return nil
}

func (c *conn) onData(flags http2.Flags, id uint32, payload []byte) error {
	r := &c.reader
	if r.consumed += int64(len(payload)); r.consumed > receiveWindow/2 {
		c.mu.Lock()
		c.out = appendWindowUpdate(c.out, uint32(r.consumed)) //nolint:gosec // half of the window, and a frame
		c.mu.Unlock()
		r.consumed = 0
	}
	payload, err := unpadded(flags, payload)
	if err != nil {
		return err
	}
	k := c.find(id)
	if k == nil {
		return nil
	}
	k.body = append(k.body, payload...)
	if flags.Has(http2.FlagDataEndStream) {
		c.finish(id, k) // without trailers, which is told to the caller
	}
	return nil
}

func (c *conn) find(id uint32) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[id]
}

// take ends a call and makes its place free for another.
func (c *conn) take(id uint32) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.calls[id]
	delete(c.calls, id)
	c.admit()
	return k
}

// finish answers a call whose stream has ended.
func (c *conn) finish(id uint32, k *call) {
	c.take(id)
	a := &c.reader.answer
	*a = Answer{Tag: k.tag, At: c.reader.at, conn: c}
	k.headers.answer(a)
	if a.Code == codes.OK {
		a.Body = message(a, k.body)
	}
	c.client.options.Handle(a)
	c.mu.Lock()
	c.free = append(c.free, k)
	c.mu.Unlock()
}

// message takes the prefix off the one message of an answer.
func message(a *Answer, body []byte) []byte {
	if len(body) < messagePrefix || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-messagePrefix {
		a.Code, a.Text = codes.Internal, "an answer that is not one plain message"
		return nil
	}
	return body[messagePrefix:]
}

// unpadded takes the padding off a frame.
func unpadded(flags http2.Flags, payload []byte) ([]byte, error) {
	if !flags.Has(http2.FlagDataPadded) { // the same bit for HEADERS
		return payload, nil
	}
	if len(payload) == 0 || int(payload[0]) >= len(payload) {
		return nil, errFrame
	}
	return payload[1 : len(payload)-int(payload[0])], nil
}

// giveUp answers calls that waited for too long.
func (c *conn) giveUp() {
	tags := c.reader.expired
	c.reader.expired = nil
	for _, tag := range tags {
		c.client.options.Handle(&Answer{
			Tag: tag, At: c.reader.at, Code: codes.DeadlineExceeded, Text: "not sent in time: the server took no more calls", conn: c,
		})
	}
}

// refuse answers calls that the server will never look at.
func (c *conn) refuse(tags []uint64) {
	slices.Sort(tags)
	for _, tag := range tags {
		c.client.options.Handle(&Answer{
			Tag: tag, At: c.reader.at, Code: codes.Unavailable, Text: "not processed", NotProcessed: true, conn: c,
		})
	}
}
