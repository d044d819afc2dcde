package wire

import (
	"bytes"
	"strconv"
	"time"

	"golang.org/x/net/http2/hpack"
)

const (
	userAgent = "holdfast-launch"
	// A value up to this length finds its place in the table of headers beside all others, so that none is pushed out.
	longestInTable = 1024
)

// blocks makes the header blocks of requests. All headers of a method are always the same: from its second call
// on, its block is some ten bytes, which name entries of the table that both ends keep.
type blocks struct {
	methods       []Method
	authority     string
	scheme        string
	authorization string // empty: none
	encoder       *hpack.Encoder
	buffer        bytes.Buffer
	ready         [][]byte // by method; nil: not used yet on this connection
}

func newBlocks(authority, scheme, authorization string, methods []Method) *blocks {
	b := &blocks{
		methods: methods, authority: authority, scheme: scheme, authorization: authorization, ready: make([][]byte, len(methods)),
	}
	b.encoder = hpack.NewEncoder(&b.buffer)
	return b
}

// of returns the block for the next call of a method. The blocks have to be sent in the order in which they are
// asked for.
func (b *blocks) of(method int) []byte {
	if block := b.ready[method]; block != nil {
		return block
	}
	first := bytes.Clone(b.encode(method))
	// What was added to the table has moved the entries of the others.
	for i := range b.ready {
		if i == method || b.ready[i] != nil {
			b.ready[i] = bytes.Clone(b.encode(i))
		}
	}
	return first
}

func (b *blocks) encode(method int) []byte {
	b.buffer.Reset()
	m := b.methods[method]
	b.field(":method", "POST")
	b.field(":scheme", b.scheme)
	b.field(":path", m.Path)
	b.field(":authority", b.authority)
	b.field("content-type", "application/grpc")
	b.field("user-agent", userAgent)
	b.field("te", "trailers")
	if b.authorization != "" {
		b.field("authorization", b.authorization)
	}
	if m.Timeout > 0 {
		b.field("grpc-timeout", timeoutText(m.Timeout))
	}
	return b.buffer.Bytes()
}

func (b *blocks) field(name, value string) {
	f := hpack.HeaderField{Name: name, Value: value, Sensitive: len(value) > longestInTable} // sensitive ones stay out of the table
	_ = b.encoder.WriteField(f)                                                              // a buffer takes everything
}

// timeoutText is a timeout as gRPC wants it: at most eight digits and a unit.
func timeoutText(d time.Duration) string {
	if millis := d.Milliseconds(); millis < 1e8 {
		return strconv.FormatInt(max(millis, 1), 10) + "m"
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "S"
}
