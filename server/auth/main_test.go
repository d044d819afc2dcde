package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{}
	a.cert, a.key, a.pem, _ = issue(t, nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// identity is a certificate and its key, as PEM.
type identity struct {
	cert, key []byte
	serial    *big.Int
}

func (a *authority) issue(t testing.TB, name, spiffe string, change func(*x509.Certificate)) identity {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if spiffe != "" {
		u, err := url.Parse(spiffe)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = []*url.URL{{Scheme: "https", Host: "example.org"}, u}
	}
	if change != nil {
		change(template)
	}
	cert, _, certPEM, keyPEM := issue(t, a, template)
	return identity{certPEM, keyPEM, cert.SerialNumber}
}

// issue signs a certificate by an authority; nil: by itself.
func issue(t testing.TB, by *authority, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

func (i identity) pair(t testing.TB) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(i.cert, i.key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func write(t testing.TB, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func file(t testing.TB, content string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "file"), []byte(content))
}

func hashOf(token string) string {
	hash := sha256.Sum256([]byte(token))
	return hex.EncodeToString(hash[:])
}

func newAuthenticator(t testing.TB, callers string, jwts *JWTs) *Authenticator {
	t.Helper()
	a, err := New(Options{CallersFile: file(t, callers), JWTs: jwts, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func withToken(t testing.TB, token string) context.Context {
	return metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+token))
}

// named is who calls, or why that is not known.
func named(c *Caller, err error) string {
	if err != nil {
		return err.Error()
	}
	return c.Name
}
