package wire

import (
	"bytes"
	"io"
	"net"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

// odd is a server that speaks HTTP/2 frame by frame.
type odd struct {
	t      *testing.T
	socket net.Conn
	*http2.Framer
	headers bytes.Buffer
	encoder *hpack.Encoder
}

// serveOdd serves one connection after the other with talk. Frames that it writes arrive byte by byte.
func serveOdd(t *testing.T, talk ...func(*odd)) string {
	t.Helper()
	l := listen(t)
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for _, f := range talk {
			socket, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := io.ReadFull(socket, make([]byte, len(http2.ClientPreface))); err != nil {
				t.Error(err)
			}
			o := &odd{t: t, socket: socket, Framer: http2.NewFramer(slowly{socket}, socket)}
			o.encoder = hpack.NewEncoder(&o.headers)
			o.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
			o.check(o.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 100}))
			f(o)
			_ = socket.Close()
		}
	}()
	return l.Addr().String()
}

type slowly struct{ net.Conn }

func (s slowly) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := s.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

func (o *odd) check(err error) {
	if err != nil {
		o.t.Error(err)
	}
}

// next returns the stream of the next call, when all of it has come.
func (o *odd) next() uint32 {
	for {
		f, err := o.ReadFrame()
		if err != nil {
			o.t.Error(err)
			return 0
		}
		if d, ok := f.(*http2.DataFrame); ok && d.StreamEnded() {
			return d.StreamID
		}
		if h, ok := f.(*http2.MetaHeadersFrame); ok && len(h.Fields) < 7 {
			o.t.Errorf("headers %v", h.Fields)
		}
	}
}

func (o *odd) untilClosed() {
	for {
		if _, err := o.ReadFrame(); err != nil {
			return
		}
	}
}

func (o *odd) block(fields ...string) []byte {
	o.headers.Reset()
	for i := 0; i < len(fields); i += 2 {
		o.check(o.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return o.headers.Bytes()
}

// ok answers a call with a message in padded pieces and header blocks in pieces.
func (o *odd) ok(stream uint32) {
	block := o.block(":status", "200", "content-type", "application/grpc")
	o.check(o.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block[:1], PadLength: 3, Priority: http2.PriorityParam{Weight: 3}}))
	o.check(o.WriteContinuation(stream, true, block[1:]))
	o.check(o.WriteDataPadded(stream, false, []byte{0, 0, 0}, make([]byte, 5)))
	o.check(o.WriteData(stream, false, []byte{0, 2, 'h', 'i'}))
	o.check(o.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: o.block("grpc-status", "0"), EndHeaders: true, EndStream: true}))
}

func TestFramesInPieces(t *testing.T) {
	address := serveOdd(t, func(o *odd) {
		o.check(o.WritePing(false, [8]byte{1}))
		o.check(o.WriteRawFrame(0x77, 0, 0, []byte("unknown")))
		for range 3 {
			o.ok(o.next())
		}
		o.check(o.WriteRSTStream(99, http2.ErrCodeNo)) // long gone
		stream := o.next()
		o.check(o.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: o.block(":status", "503"), EndHeaders: true, EndStream: true}))
		stream = o.next()
		o.check(o.WriteRSTStream(stream, http2.ErrCodeInternal))
		stream = o.next()
		o.check(o.WriteData(stream, true, []byte("x")))
		o.untilClosed()
	})
	c := newCaller(t, nil, address)
	for i := range 6 {
		c.send(i%2, uint64(i), request(i))
		c.client.Flush()
		c.wait(int64(i + 1))
	}
	answers := c.wait(6)
	for i, want := range []codes.Code{codes.OK, codes.OK, codes.OK, codes.Unavailable, codes.Internal, codes.Unknown} {
		a := answers[uint64(i)][0]
		if a.Code != want || a.NotProcessed {
			t.Errorf("call %d: %v %q", i, a.Code, a.Text)
		}
		if want == codes.OK && string(a.body) != "hi" {
			t.Errorf("call %d: %q", i, a.body)
		}
	}
}

// TestNotProcessed: refused streams, and those behind a GOAWAY, are sent again on another connection.
func TestNotProcessed(t *testing.T) {
	address := serveOdd(t,
		func(o *odd) {
			first := o.next()
			second := o.next()
			o.check(o.WriteRSTStream(first, http2.ErrCodeRefusedStream))
			third := o.next()
			fourth := o.next()
			o.check(o.WriteGoAway(third, http2.ErrCodeNo, nil))
			o.ok(second)
			o.ok(third)
			_ = fourth
		},
		func(o *odd) {
			o.ok(o.next())
			o.ok(o.next())
			o.untilClosed()
		})
	c := newCaller(t, nil, address)
	refused := map[uint64]int{}
	again := resend(t)
	c.again = func(a *Answer) bool {
		if a.NotProcessed {
			refused[a.Tag]++
		}
		if a.Tag == 1 && a.NotProcessed { // sent again when the first connection is gone
			go func() {
				for c.client.Reconnects() == 0 {
					continue
				}
				c.send(create, 1, request(1))
				c.client.Flush()
			}()
			return false
		}
		return again(a)
	}
	for i := 1; i <= 4; i++ {
		c.send(create, uint64(i), request(i))
	}
	c.client.Flush()
	for tag, a := range c.wait(4) {
		if len(a) != 1 || a[0].Code != codes.OK {
			t.Errorf("call %d: %v", tag, a)
		}
	}
	if refused[1] != 1 || refused[4] != 1 || len(refused) != 2 {
		t.Errorf("not processed: %v", refused)
	}
}

// TestBrokenFrames: what is not HTTP/2 ends the connection, and its calls.
func TestBrokenFrames(t *testing.T) {
	for name, frame := range map[string][]byte{
		"too long":                        {0xff, 0, 0, 0, 0, 0, 0, 0, 1},
		"headers that are no HPACK":       {0, 0, 1, 1, 5, 0, 0, 0, 1, 0x80},
		"padding beyond the end":          {0, 0, 1, 0, 8, 0, 0, 0, 1, 9},
		"a continuation of nothing":       {0, 0, 0, 9, 4, 0, 0, 0, 1},
		"settings of five bytes":          {0, 0, 5, 4, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5},
		"a ping of one byte":              {0, 0, 1, 6, 0, 0, 0, 0, 0, 1},
		"a reset of no bytes":             {0, 0, 0, 3, 0, 0, 0, 0, 1},
		"a window of no bytes":            {0, 0, 0, 8, 0, 0, 0, 0, 0},
		"going away without saying where": {0, 0, 0, 7, 0, 0, 0, 0, 0},
		"a priority that is missing":      {0, 0, 0, 1, 0x24, 0, 0, 0, 1},
		"a ping inside of a block":        {0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaller(t, nil, serveOdd(t, func(o *odd) {
				o.next()
				_, err := o.socket.Write(frame)
				o.check(err)
				o.untilClosed()
			}))
			c.send(create, 1, request(1))
			c.client.Flush()
			if a := c.wait(1)[1][0]; a.Code != codes.Unavailable || a.NotProcessed {
				t.Errorf("%v %q", a.Code, a.Text)
			}
		})
	}
}
