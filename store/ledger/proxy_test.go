package ledger

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
)

// proxy stands between the ledger and Postgres and can lose the answer to a COMMIT.
type proxy struct {
	url      string
	lose     atomic.Int32 // answers to COMMIT still to be lost, each with its connection
	lost     atomic.Int32
	refusing atomic.Bool // new connections are closed at once
}

// commitDone is how the server says that a COMMIT is done: a CommandComplete message.
var commitDone = []byte("C\x00\x00\x00\x0bCOMMIT\x00")

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	p := &proxy{}
	server := u.Host
	u.Host = listener.Addr().String()
	p.url = u.String()
	go p.accept(t, listener, server)
	return p
}

func (p *proxy) accept(t testing.TB, listener net.Listener, server string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		if p.refusing.Load() {
			_ = client.Close()
			continue
		}
		up, err := new(net.Dialer).DialContext(t.Context(), "tcp", server)
		if err != nil {
			_ = client.Close()
			return
		}
		go func() { _, _ = io.Copy(up, client); _ = up.Close() }()
		go p.answers(client, up)
	}
}

// answers copies from the server to the client. A small answer such as COMMIT's is read whole.
func (p *proxy) answers(client, up net.Conn) {
	defer client.Close()
	defer up.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := up.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], commitDone) && p.lose.Add(-1) >= 0 {
			p.lost.Add(1)
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}
