package holds

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay is a link to a server, which can be cut and mended.
type relay struct {
	t        *testing.T
	to       string
	listener net.Listener
	mu       sync.Mutex
	isCut    bool
	conns    []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	r := &relay{t: t, to: to, listener: listener}
	var accepting sync.WaitGroup
	accepting.Go(r.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
		r.set(true)
	})
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return
		}
		out, err := new(net.Dialer).DialContext(r.t.Context(), "tcp", r.to)
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

// set cuts the link, or mends it.
func (r *relay) set(isCut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isCut = isCut
	if !isCut {
		return
	}
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
}
