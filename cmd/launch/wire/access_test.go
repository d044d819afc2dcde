package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-inventory/holdfast/cmd/caller/callertest"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// guard makes a server encrypt, and a client that trusts it.
func guard(t *testing.T, protocols ...string) (server, client *tls.Config) {
	t.Helper()
	certFile, keyFile := callertest.Pair(t, "server")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(text)
	return &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: protocols, MinVersion: tls.VersionTLS12},
		&tls.Config{RootCAs: known, MinVersion: tls.VersionTLS12}
}

// allowing lets in calls with one of these headers, and counts them.
func allowing(counts map[string]*atomic.Int64) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		sent := strings.Join(metadata.ValueFromIncomingContext(ctx, "authorization"), ", ")
		if counts[sent] == nil {
			return nil, status.Errorf(codes.Unauthenticated, "authorization %q", sent)
		}
		counts[sent].Add(1)
		return handler(ctx, req)
	}
}

// TestAccess: calls of both methods are encrypted and have the header, a short one and a long one.
func TestAccess(t *testing.T) {
	server, client := guard(t)
	for name, token := range map[string]string{"short": "Bearer a", "long": "Bearer " + strings.Repeat("abc", 1100)} {
		t.Run(name, func(t *testing.T) {
			f := &fake{create: echo, confirm: func(context.Context, *pb.ConfirmHoldRequest) (*pb.ConfirmHoldResponse, error) {
				return &pb.ConfirmHoldResponse{}, nil
			}}
			address := serve(t, f, grpc.Creds(credentials.NewTLS(server)),
				grpc.UnaryInterceptor(allowing(map[string]*atomic.Int64{token: new(atomic.Int64)})))
			c := newCaller(t, func(o *Options) {
				o.Access = Access{TLS: client, Authorization: func() (string, error) { return token, nil }}
			}, address)
			const n = 300
			for i := range n {
				if i%3 == 0 {
					c.send(confirm, uint64(i), &pb.ConfirmHoldRequest{})
				} else {
					c.send(create, uint64(i), request(i))
				}
				c.client.Flush()
			}
			for tag, a := range c.wait(n) {
				if len(a) != 1 || a[0].Code != codes.OK {
					t.Fatalf("call %d: %v", tag, a[0].Answer)
				}
			}
		})
	}
}

// TestAnyToken: whatever its length and the server's table of headers, every block says what it should. Some of these tokens
// would push other entries out of the table that blocks name.
func TestAnyToken(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		length, table := random.IntN(4000), uint32(smallTable+random.IntN(4096-smallTable))
		b := newBlocks("127.0.0.1:12345", "https", "Bearer "+strings.Repeat("x", length), methods())
		got := map[string]string{}
		decoder := hpack.NewDecoder(4096, func(f hpack.HeaderField) { got[f.Name] = f.Value })
		for call := range 50 {
			if call == 3 {
				b.limit(table)
				decoder.SetAllowedMaxDynamicTableSize(table)
			}
			clear(got)
			method := random.IntN(len(b.methods))
			_, err := decoder.Write(b.of(method))
			if ended := decoder.Close(); err != nil || ended != nil || got[":path"] != b.methods[method].Path || got["authorization"] != b.authorization {
				t.Fatalf("token of %d bytes, table of %d: call %d has %d headers, %v, %v", length, table, call, len(got), err, ended)
			}
		}
	}
}

// TestTokenChanges: a new connection's calls have the header that is given then.
func TestTokenChanges(t *testing.T) {
	counts := map[string]*atomic.Int64{"Bearer 1": {}, "Bearer 2": {}}
	address := serve(t, &fake{create: echo}, grpc.UnaryInterceptor(allowing(counts)),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 20 * time.Millisecond, MaxConnectionAgeGrace: time.Second}))
	var asked atomic.Int64
	c := newCaller(t, func(o *Options) {
		o.Access.Authorization = func() (string, error) {
			if asked.Add(1) == 1 {
				return "Bearer 1", nil
			}
			return "Bearer 2", nil
		}
	}, address)
	c.again = resend(t)
	for i := uint64(0); counts["Bearer 2"].Load() == 0; i++ {
		c.send(create, i, request(int(i)))
		c.client.Flush()
		for _, a := range c.wait(int64(i + 1)) {
			if a[0].Code != codes.OK {
				t.Fatal(a[0].Answer)
			}
		}
	}
}

// TestAccessDenied: what keeps a client out is said at once.
func TestAccessDenied(t *testing.T) {
	server, client := guard(t)
	guarded := serve(t, &fake{create: echo}, grpc.Creds(credentials.NewTLS(server)))
	web, trusting := guard(t, "http/1.1")
	l := tls.NewListener(listen(t), web)
	defer l.Close()
	go func() {
		if socket, err := l.Accept(); err == nil {
			_ = socket.(*tls.Conn).HandshakeContext(t.Context()) // the client says what is wrong
			_ = socket.Close()
		}
	}()
	metrics := httptest.NewServer(http.NotFoundHandler())
	defer metrics.Close()
	for name, test := range map[string]struct {
		address string
		access  Access
		says    string
	}{
		"TLS that is wanted":               {guarded, Access{}, "as a server does that wants TLS"},
		"a port for HTTP/1":                {metrics.Listener.Addr().String(), Access{}, "no gRPC is answered there: it speaks HTTP/1"},
		"an authority that is not trusted": {guarded, Access{TLS: &tls.Config{MinVersion: tls.VersionTLS12}}, "certificate"},
		"no HTTP/2":                        {l.Addr().String(), Access{TLS: trusting}, "no application protocol"},
		"a token that cannot be read":      {guarded, Access{TLS: client, Authorization: func() (string, error) { return "", os.ErrNotExist }}, "not exist"},
		"a token that is too long": {guarded, Access{TLS: client, Authorization: func() (string, error) {
			return strings.Repeat("x", maxAuthorization+1), nil
		}}, "must have at most 8192"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Dial(t.Context(), Options{
				Addresses: []string{test.address}, Methods: methods(), Handle: func(*Answer) {}, Clock: func() time.Duration { return 0 }, Access: test.access,
			})
			if err == nil {
				c.Close()
			}
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), test.address) {
				t.Errorf("%v, want %q", err, test.says)
			}
		})
	}
}
