package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/credentials"
)

// TLSFiles are the PEM files of one side of a TLS connection.
type TLSFiles struct {
	Cert, Key string // the chain that this side shows, and its key
	CA        string // who signs the certificates of the other side
}

// TLS is the certificates of the gRPC listeners. They are read again when they change; connections that stand keep theirs,
// for as long as a connection may live.
type TLS struct {
	config atomic.Pointer[tls.Config]
	files  *watched
}

// NewTLS reads the files. Without a CA no client certificate is asked for. With one, callers may show one, which must then
// be good: who shows none may still have a token.
func NewTLS(files TLSFiles, log *slog.Logger, meter metric.Meter) (*TLS, error) {
	t := &TLS{}
	paths := []string{files.Cert, files.Key}
	if files.CA != "" {
		paths = append(paths, files.CA)
	}
	var err error
	if t.files, err = watch(log, "certificate", t.load, paths...); err != nil {
		return nil, err
	}
	if err := t.measure(meter); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *TLS) load(contents [][]byte) error {
	own, err := keyPair(contents[0], contents[1])
	if err != nil {
		return err
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{own},
		// A resumed session would not show its certificate to be verified anew.
		SessionTicketsDisabled: true,
	}
	if len(contents) > 2 {
		if config.ClientCAs, err = pool(contents[2]); err != nil {
			return err
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	t.config.Store(config)
	return nil
}

func keyPair(cert, key []byte) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("certificate and key: %w", err)
	}
	if time.Now().After(pair.Leaf.NotAfter) {
		return pair, fmt.Errorf("certificate: has expired at %s", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return pair, nil
}

func pool(content []byte) (*x509.CertPool, error) {
	all := x509.NewCertPool()
	if !all.AppendCertsFromPEM(content) {
		return nil, errors.New("the CA's file has no certificate")
	}
	return all, nil
}

// measure exports when the certificate expires, so that an alert can come before it does.
func (t *TLS) measure(meter metric.Meter) error {
	const name = "holdfast.tls.certificate.remaining"
	_, err := meter.Float64ObservableGauge(name, metric.WithUnit("s"),
		metric.WithDescription("Time until the certificate of the gRPC listeners expires."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(time.Until(t.config.Load().Certificates[0].Leaf.NotAfter).Seconds())
			return nil
		}))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Run reads the files again when they have changed, until ctx is done.
func (t *TLS) Run(ctx context.Context) { follow(ctx, reloadEvery, t.files) }

// Credentials are for a gRPC server.
func (t *TLS) Credentials() credentials.TransportCredentials {
	return transport{credentials.NewTLS(&tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.config.Load(), nil },
	})}
}

// transport notes at the handshake who the peer is, once for all calls of a connection.
type transport struct {
	credentials.TransportCredentials
}

// connection is what the calls of a connection know of its peer.
type connection struct {
	credentials.TLSInfo
	name string
}

// ServerHandshake is gRPC's own, with the name of the peer.
func (t transport) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := t.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return conn, info, err
	}
	known, ok := info.(credentials.TLSInfo)
	if !ok {
		return conn, info, nil
	}
	return conn, connection{TLSInfo: known, name: nameOf(known.State)}, nil
}

// Clone keeps what is ours.
func (t transport) Clone() credentials.TransportCredentials {
	return transport{t.TransportCredentials.Clone()}
}

// nameOf is the SPIFFE id of a verified certificate, or else its common name; empty: there is none.
func nameOf(state tls.ConnectionState) string {
	if len(state.VerifiedChains) == 0 {
		return ""
	}
	leaf := state.VerifiedChains[0][0]
	for _, uri := range leaf.URIs {
		if uri.Scheme == "spiffe" {
			return uri.String()
		}
	}
	return leaf.Subject.CommonName
}
