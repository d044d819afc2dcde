package wire

import (
	"encoding/binary"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
)

// onSettings takes the server's settings over, and says so.
func (c *conn) onSettings(flags http2.Flags, payload []byte) error {
	if flags.Has(http2.FlagSettingsAck) {
		return nil
	}
	if len(payload)%6 != 0 {
		return errFrame
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	limited := c.reader.settled
	for ; len(payload) > 0; payload = payload[6:] {
		value := binary.BigEndian.Uint32(payload[2:])
		switch http2.SettingID(binary.BigEndian.Uint16(payload)) {
		case http2.SettingMaxConcurrentStreams:
			c.streams, limited = int64(value), true
		case http2.SettingInitialWindowSize:
			c.initial = int64(value) // calls that were sent are through with theirs
		case http2.SettingHeaderTableSize:
			c.headers.limit(value)
		}
	}
	if !limited { // the first settings do not limit it
		c.streams = maxStreamID
	}
	c.out = appendFrame(c.out, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)
	c.admit()
	return nil
}

// limit makes the server's table of headers the limit of ours.
func (b *blocks) limit(size uint32) {
	if size < smallTable {
		size = 0 // so that no entry is ever pushed out of it
	}
	b.encoder.SetMaxDynamicTableSizeLimit(size)
	clear(b.ready)
}

func (c *conn) onWindowUpdate(id uint32, payload []byte) error {
	if len(payload) != 4 {
		return errFrame
	}
	if id != 0 {
		return nil // a call's one frame was sent
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.window += int64(binary.BigEndian.Uint32(payload) & maxStreamID)
	c.admit()
	return nil
}

func (c *conn) onPing(flags http2.Flags, payload []byte) error {
	if len(payload) != 8 {
		return errFrame
	}
	if flags.Has(http2.FlagPingAck) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = appendFrame(c.out, len(payload), http2.FramePing, http2.FlagPingAck, 0)
	c.out = append(c.out, payload...)
	return nil
}

// onReset ends a call that the server gave up.
func (c *conn) onReset(id uint32, payload []byte) error {
	if len(payload) != 4 {
		return errFrame
	}
	k := c.take(id)
	if k == nil {
		return nil
	}
	code := http2.ErrCode(binary.BigEndian.Uint32(payload))
	if code == http2.ErrCodeRefusedStream {
		c.refuse([]uint64{k.tag})
		return nil
	}
	c.client.options.Handle(&Answer{
		Tag: k.tag, At: c.reader.at, Code: resetMeans(code), Text: "the stream was reset: " + code.String(), conn: c,
	})
	return nil
}

// resetMeans is what gRPC takes a reset for. A server cancels a call that it did not finish in the time it was told.
func resetMeans(code http2.ErrCode) codes.Code {
	switch code {
	case http2.ErrCodeCancel:
		return codes.DeadlineExceeded
	case http2.ErrCodeEnhanceYourCalm:
		return codes.ResourceExhausted
	default:
		return codes.Internal
	}
}

// onGoAway stops sending: what the server has not seen and will not see is to be sent elsewhere.
func (c *conn) onGoAway(payload []byte) error {
	if len(payload) < 8 {
		return errFrame
	}
	last := binary.BigEndian.Uint32(payload) & maxStreamID
	c.mu.Lock()
	c.drain()
	var tags []uint64
	for id, k := range c.calls {
		if id > last {
			tags = append(tags, k.tag)
			delete(c.calls, id)
		}
	}
	tags = append(tags, c.leave()...)
	c.mu.Unlock()
	c.refuse(tags)
	return nil
}
