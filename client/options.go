package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Options are how a client is let in; docs/security.md has the server's side. The zero value is for a server on this machine that asks nobody.
type Options struct {
	// TLS encrypts, and trusts the authorities that this machine trusts. CAFile and CertFile set it, too.
	TLS bool
	// CAFile has the authorities (PEM) to trust instead. It is read once.
	CAFile string
	// CertFile and KeyFile are the certificate (PEM) that is shown to the server. They are read again for each connection, and a
	// server ends connections after three minutes, so a certificate is changed by replacing the files.
	CertFile, KeyFile string
	// TokenFile is the file whose content is sent as bearer token, read again for each call. Beyond this machine it needs TLS.
	TokenFile string
	// Insecure lets calls go to other machines in plain text.
	Insecure bool
	// DialOptions come after those of this package: interceptors of your own, which see each try, another tracer, or another way to the server.
	DialOptions []grpc.DialOption
}

// security is what these options are to gRPC.
func (o Options) security(target string) ([]grpc.DialOption, error) {
	encrypted := o.TLS || o.CAFile != "" || o.CertFile != ""
	switch {
	case (o.CertFile == "") != (o.KeyFile == ""):
		return nil, errors.New("holdfast: CertFile and KeyFile: give both or none")
	case !encrypted && !o.Insecure && !onThisMachine(target):
		return nil, fmt.Errorf("holdfast: %s is not on this machine: give CAFile or TLS, or Insecure for plain text", target)
	case !encrypted && o.TokenFile != "" && !onThisMachine(target):
		return nil, fmt.Errorf("holdfast: TokenFile would be sent to %s in the clear: give CAFile or TLS", target)
	}
	transport := insecure.NewCredentials()
	if encrypted {
		config, err := o.tlsConfig()
		if err != nil {
			return nil, err
		}
		transport = credentials.NewTLS(config)
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(transport)}
	if o.TokenFile != "" {
		if _, err := readToken(o.TokenFile); err != nil {
			return nil, err
		}
		options = append(options, grpc.WithPerRPCCredentials(bearer(o.TokenFile)))
	}
	return options, nil
}

func (o Options) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		content, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("holdfast: CAFile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("holdfast: CAFile: there is no certificate in %s", o.CAFile)
		}
	}
	if o.CertFile != "" {
		load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("holdfast: CertFile and KeyFile: %w", err)
			}
			return &pair, nil
		}
		if _, err := load(nil); err != nil {
			return nil, err
		}
		config.GetClientCertificate = load
	}
	return config, nil
}

// onThisMachine tells whether what is sent to a gRPC target stays here.
func onThisMachine(target string) bool {
	if strings.HasPrefix(target, "unix:") || strings.HasPrefix(target, "unix-abstract:") {
		return true
	}
	if _, rest, ok := strings.Cut(target, "://"); ok { // an authority and the endpoint follow
		_, target, _ = strings.Cut(rest, "/")
	}
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// bearer sends the token in the file of this name, as it is when a call begins.
type bearer string

// GetRequestMetadata gives the token. gRPC asks for it.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := readToken(string(b))
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity is false, since Options were checked: without TLS the server is on this machine.
func (b bearer) RequireTransportSecurity() bool { return false }

// readToken never says what is in the file.
func readToken(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("holdfast: TokenFile: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("holdfast: TokenFile: %s does not hold a token: one line of printable ASCII", file)
	}
	return token, nil
}
