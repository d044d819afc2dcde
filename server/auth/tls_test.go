package auth

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

const twoCallers = `{"callers":[
	{"name":"shop","roles":["checkout"],"certificates":["spiffe://example.org/shop"]},
	{"name":"ops","roles":["operator"],"certificates":["ops"]}
]}`

// world is a gRPC server whose calls fail with the name of their caller.
type world struct {
	tls    *TLS
	addr   string
	folder string
	log    *bytes.Buffer
	meters *sdkmetric.ManualReader
	ca     *authority // of server and clients
}

func newWorld(t *testing.T, a *Authenticator) *world {
	t.Helper()
	w := &world{folder: t.TempDir(), log: &bytes.Buffer{}, ca: newAuthority(t), meters: sdkmetric.NewManualReader()}
	w.put(t, w.ca.issue(t, "server", "", nil), w.ca)
	var err error
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.meters)).Meter("test")
	w.tls, err = NewTLS(TLSFiles{Cert: w.path("cert"), Key: w.path("key"), CA: w.path("ca")}, slog.New(slog.NewTextHandler(w.log, nil)), meter)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(w.tls.Credentials()), grpc.UnaryInterceptor(
		func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
			return nil, status.Error(codes.Aborted, named(a.Caller(ctx)))
		}))
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = listener.Addr().String()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.folder, name) }

func (w *world) put(t *testing.T, own identity, clients *authority) {
	t.Helper()
	write(t, w.path("cert"), own.cert)
	write(t, w.path("key"), own.key)
	write(t, w.path("ca"), clients.pem)
}

// dial makes a connection; nil: without a client certificate.
func (w *world) dial(t *testing.T, as *identity) *grpc.ClientConn {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	config.RootCAs.AppendCertsFromPEM(w.ca.pem)
	if as != nil {
		// Shown whoever the server says that it trusts.
		pair := as.pair(t)
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	conn, err := grpc.NewClient(w.addr, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// call returns what the server says of its caller, or "refused" if there is no connection, and the serial of its certificate.
func call(t *testing.T, conn *grpc.ClientConn) (string, *big.Int) {
	t.Helper()
	var p peer.Peer
	_, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.Peer(&p))
	if status.Code(err) != codes.Aborted {
		return "refused", nil
	}
	return status.Convert(err).Message(), p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].SerialNumber
}

// TestCertificates: who is known by a certificate, and which are not taken.
func TestCertificates(t *testing.T) {
	w := newWorld(t, newAuthenticator(t, twoCallers, nil))
	expired := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
	}
	early := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	}
	forServers := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	for _, test := range []struct {
		name string
		show identity
		want string
	}{
		{"SPIFFE id", w.ca.issue(t, "", "spiffe://example.org/shop", nil), "shop"},
		{"common name", w.ca.issue(t, "ops", "", nil), "ops"},
		{"SPIFFE id before common name", w.ca.issue(t, "ops", "spiffe://example.org/shop", nil), "shop"},
		{"a known name beside an unknown id", w.ca.issue(t, "ops", "spiffe://example.org/other", nil), "the client certificate's name is not known"},
		{"unknown", w.ca.issue(t, "other", "", nil), "the client certificate's name is not known"},
		{"no name", w.ca.issue(t, "", "", nil), errNone.Why},
		{"expired", w.ca.issue(t, "ops", "", expired), "refused"},
		{"not valid yet", w.ca.issue(t, "ops", "", early), "refused"},
		{"for servers", w.ca.issue(t, "ops", "", forServers), "refused"},
		{"of another authority", newAuthority(t).issue(t, "ops", "", nil), "refused"},
	} {
		if got, _ := call(t, w.dial(t, &test.show)); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	if got, _ := call(t, w.dial(t, nil)); got != errNone.Why {
		t.Errorf("no certificate: %q", got)
	}
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	old := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, NextProtos: []string{"h2"}})
	if err := old.Handshake(); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

// TestCertificatesChange: connections that stand go on, new ones see the new certificate and are held against the new CA. What
// is wrong or half written changes nothing.
func TestCertificatesChange(t *testing.T) {
	w := newWorld(t, newAuthenticator(t, twoCallers, nil))
	client := w.ca.issue(t, "ops", "", nil)
	standing := w.dial(t, &client)
	_, first := call(t, standing)
	second := w.ca.issue(t, "server", "", nil)
	expired := w.ca.issue(t, "server", "", func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	})
	other := newAuthority(t)
	for _, step := range []struct {
		name   string
		change func()
		serial *big.Int
		want   string
		log    string
	}{
		{"nothing", func() {}, first, "ops", ""},
		{"the certificate alone", func() { write(t, w.path("cert"), second.cert) }, first, "ops", "stays in force"},
		{"and its key", func() { write(t, w.path("key"), second.key) }, second.serial, "ops", "read again"},
		{"an expired one", func() { w.put(t, expired, w.ca) }, second.serial, "ops", "has expired at"},
		{"no CA", func() { w.put(t, second, &authority{pem: []byte("none")}) }, second.serial, "ops", "has no certificate"},
		{"another CA", func() { w.put(t, second, other) }, second.serial, "refused", "read again"},
	} {
		w.log.Reset()
		step.change()
		w.tls.files.look()
		got, serial := call(t, w.dial(t, &client))
		if got != step.want || (serial != nil && serial.Cmp(step.serial) != 0) {
			t.Errorf("%s: %q by a server with %v, want %q and %v", step.name, got, serial, step.want, step.serial)
		}
		if got := w.log.String(); !strings.Contains(got, step.log) || (step.log == "" && got != "") || strings.Contains(got, "PRIVATE") {
			t.Errorf("%s: logged %q", step.name, got)
		}
		if got, _ := call(t, standing); got != "ops" {
			t.Errorf("%s: the standing connection: %q", step.name, got)
		}
	}
	mine := other.issue(t, "ops", "", nil)
	if got, _ := call(t, w.dial(t, &mine)); got != "ops" {
		t.Errorf("a client of the other CA: %q", got)
	}
}

// TestChangeUnderLoad: while certificate and key change one after the other, no call fails, on old connections and on new ones.
func TestChangeUnderLoad(t *testing.T) {
	w := newWorld(t, newAuthenticator(t, twoCallers, nil))
	client := w.ca.issue(t, "ops", "", nil)
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	var calls atomic.Int64
	for range 4 {
		callers.Go(func() {
			standing := w.dial(t, &client)
			for ctx.Err() == nil {
				for _, conn := range []*grpc.ClientConn{standing, w.dial(t, &client)} {
					if got, _ := call(t, conn); got != "ops" {
						t.Errorf("a call while certificates change: %q", got)
					}
					calls.Add(1)
				}
			}
		})
	}
	for range 5 {
		before := calls.Load()
		next := w.ca.issue(t, "server", "", nil)
		write(t, w.path("cert"), next.cert)
		w.tls.files.look()
		write(t, w.path("key"), next.key)
		w.tls.files.look()
		for calls.Load() < before+16 && !t.Failed() {
			runtime.Gosched()
		}
		if _, serial := call(t, w.dial(t, &client)); serial == nil || serial.Cmp(next.serial) != 0 {
			t.Errorf("the new certificate is not seen: %v", serial)
		}
	}
	cancel()
	callers.Wait()
}

// TestRemaining: the time until the certificate expires is a metric.
func TestRemaining(t *testing.T) {
	w := newWorld(t, newAuthenticator(t, twoCallers, nil))
	var data metricdata.ResourceMetrics
	if err := w.meters.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	m := data.ScopeMetrics[0].Metrics[0]
	if got := m.Data.(metricdata.Gauge[float64]).DataPoints[0].Value; m.Name != "holdfast.tls.certificate.remaining" || got < 3000 || got > 3600 {
		t.Errorf("%s is %v, want nearly an hour", m.Name, got)
	}
}

// TestRunFollows: what Run is for, without waiting for its interval.
func TestRunFollows(t *testing.T) {
	w := newWorld(t, newAuthenticator(t, twoCallers, nil))
	second := w.ca.issue(t, "server", "", nil)
	w.put(t, second, w.ca)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		follow(ctx, time.Millisecond, w.tls.files)
	}()
	for {
		if _, serial := call(t, w.dial(t, nil)); serial.Cmp(second.serial) == 0 {
			break
		}
	}
	cancel(errors.New("seen"))
	<-ended
}
