package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"golang.org/x/net/http2"
)

// dial connects, and agrees on HTTP/2 where TLS lets both sides say what they speak.
func (a Access) dial(ctx context.Context, address string) (net.Conn, error) {
	if a.TLS == nil {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", address)
	}
	config := a.TLS.Clone()
	config.NextProtos = []string{http2.NextProtoTLS}
	socket, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if c, ok := socket.(*tls.Conn); ok && c.ConnectionState().NegotiatedProtocol != http2.NextProtoTLS {
		return nil, errors.Join(fmt.Errorf("it does not speak %s", http2.NextProtoTLS), socket.Close())
	}
	return socket, nil
}

func (a Access) scheme() string {
	if a.TLS != nil {
		return "https"
	}
	return "http"
}

// header is that of the calls of a new connection.
func (a Access) header() (string, error) {
	if a.Authorization == nil {
		return "", nil
	}
	header, err := a.Authorization()
	if err == nil && len(header) > maxAuthorization {
		err = fmt.Errorf("the authorization has %d bytes, must have at most %d", len(header), maxAuthorization)
	}
	return header, err
}

// stranger says what a server is that did not begin as one of HTTP/2 does, by what it sent.
func (c *conn) stranger(sent []byte, err error) error {
	switch {
	case bytes.HasPrefix(sent, []byte("HTTP/1.")):
		return errors.New("no gRPC is answered there: it speaks HTTP/1, as the port for metrics and probes does")
	case len(sent) == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) && c.client.options.Access.TLS == nil:
		return fmt.Errorf("it ended the connection without a word, as a server does that wants TLS: %w", err)
	default:
		return err
	}
}
