package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/holdfast-inventory/holdfast/client"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

func TestPlainTextStaysHere(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "secret\n")
	here := []string{"localhost:1", "127.0.0.1:1", "[::1]:1", "dns:///localhost:1", "unix:/tmp/x", "passthrough:///127.0.0.1:1", "unix:///tmp/x"}
	for _, target := range here {
		c, err := client.Dial(target, client.Options{TokenFile: token})
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		c.Close()
	}
	for _, target := range []string{"example.org:1", "10.0.0.1:1", "dns:///example.org:1", "dns://127.0.0.1:53/example.org:1", "localhost.example.org:1"} {
		for _, o := range []client.Options{{}, {TokenFile: token}, {TokenFile: token, Insecure: true}} {
			if _, err := client.Dial(target, o); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s with %+v: %v", target, o, err)
			}
		}
		for _, o := range []client.Options{{Insecure: true}, {TLS: true, TokenFile: token}} {
			c, err := client.Dial(target, o)
			if err != nil {
				t.Errorf("%s with %+v: %v", target, o, err)
				continue
			}
			c.Close()
		}
	}
}

func TestBadOptions(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	write(t, empty, "")
	missing := filepath.Join(dir, "missing")
	for _, o := range []client.Options{
		{CertFile: empty}, {KeyFile: empty}, {CertFile: empty, KeyFile: empty}, {CAFile: empty}, {CAFile: missing},
		{TokenFile: empty}, {TokenFile: missing},
	} {
		if _, err := client.Dial("localhost:1", o); err == nil || !strings.HasPrefix(err.Error(), "holdfast: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// guarded is a server that asks for a certificate, and notes who calls, with which token.
type guarded struct {
	pb.UnimplementedInventoryServiceServer

	names, tokens []string
}

// CancelHold notes the caller.
func (g *guarded) CancelHold(ctx context.Context, _ *pb.CancelHoldRequest) (*pb.CancelHoldResponse, error) {
	from, _ := peer.FromContext(ctx)
	g.names = append(g.names, from.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].Subject.CommonName)
	md, _ := metadata.FromIncomingContext(ctx)
	g.tokens = append(g.tokens, md.Get("authorization")...)
	return &pb.CancelHoldResponse{}, nil
}

// TestCredentials: the certificate is shown and the token sent, as they are in their files at the time.
func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca := newAuthority(t, file("ca.crt"))
	ca.issue(t, "holdfast", file("server.crt"), file("server.key"))
	ca.issue(t, "shop", file("shop.crt"), file("shop.key"))
	write(t, file("token"), "one\n")
	pair, err := tls.LoadX509KeyPair(file("server.crt"), file("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool, MinVersion: tls.VersionTLS12,
	})))
	pb.RegisterInventoryServiceServer(server, g)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	options := client.Options{CAFile: file("ca.crt"), CertFile: file("shop.crt"), KeyFile: file("shop.key"), TokenFile: file("token")}
	c, err := client.Dial(listener.Addr().String(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"one", "two"} {
		write(t, file("token"), token)
		if err := c.Cancel(t.Context(), "concert.x"); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(append(g.names, g.tokens...), ", "); got != "shop, shop, Bearer one, Bearer two" {
		t.Errorf("the server saw %s", got)
	}
}

func TestConnectEnds(t *testing.T) {
	c, err := client.Dial("unix:"+filepath.Join(t.TempDir(), "nobody"), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Connect(ctx); err == nil {
		t.Error("connects to nobody")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Connect(t.Context()); err == nil {
		t.Error("connects when closed")
	}
}

// TestWaitsForServer: while there is nobody to connect to, a call waits, and is not made again and again.
func TestWaitsForServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterInventoryServiceServer(server, cancels{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	var refused, tries atomic.Int64
	c, err := client.Dial(listener.Addr().String(), client.Options{DialOptions: []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			if refused.Add(1) <= 3 {
				return nil, errors.New("nobody is there yet")
			}
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}),
		grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
		) error {
			tries.Add(1)
			return invoke(ctx, method, request, reply, conn, options...)
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Cancel(ctx, "concert.x"); err != nil || refused.Load() < 4 || tries.Load() > 3 {
		t.Errorf("%d tries, %d connections: %v", tries.Load(), refused.Load(), err)
	}
	c.Close()
	server.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

type cancels struct {
	pb.UnimplementedInventoryServiceServer
}

// CancelHold does.
func (cancels) CancelHold(context.Context, *pb.CancelHoldRequest) (*pb.CancelHoldResponse, error) {
	return &pb.CancelHoldResponse{}, nil
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// authority signs certificates for this machine.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T, file string) *authority {
	t.Helper()
	a := &authority{pool: x509.NewCertPool()}
	template := template("authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a.cert, a.key = sign(t, template, template, nil, file)
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) issue(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	_, key := sign(t, template(name), a.cert, a.key, certFile)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// sign makes a key and its certificate; without a parent's key it signs itself.
func sign(t *testing.T, of, parent *x509.Certificate, by *ecdsa.PrivateKey, file string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}
