package storetest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Relay is a link to a server on loopback, which can be cut and mended.
type Relay struct {
	to       string
	listener net.Listener
	mu       sync.Mutex
	isCut    bool
	conns    []net.Conn
}

// NewRelay makes a whole link to an address. It is gone at the test's end.
func NewRelay(t testing.TB, to string) *Relay {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	r := &Relay{to: to, listener: listener}
	var accepting sync.WaitGroup
	accepting.Go(r.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
		r.Cut()
	})
	return r
}

// Addr is what to dial in place of the server.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

func (r *Relay) accept() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", r.to) //nolint:noctx // loopback answers at once
		r.mu.Lock()
		if err != nil || r.isCut {
			_ = in.Close()
			if err == nil {
				_ = out.Close()
			}
			r.mu.Unlock()
			continue
		}
		r.conns = append(r.conns, in, out)
		r.mu.Unlock()
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1])
				_ = pair[0].Close()
			}()
		}
	}
}

// Cut ends all connections, and each new one at once.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isCut = true
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
}

// Mend lets connections through again.
func (r *Relay) Mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isCut = false
}
