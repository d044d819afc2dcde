package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-inventory/holdfast/cmd/caller/callertest"
)

// guarded serves with TLS to clients that show this certificate and the token "marker-1".
func (f *fake) guarded(t *testing.T, certFile, keyFile, clientFile string) string {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	client, err := os.ReadFile(clientFile)
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(client)
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, ClientCAs: known, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	check := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		sent := metadata.ValueFromIncomingContext(ctx, "authorization")
		if len(sent) != 1 || sent[0] != "Bearer marker-1" {
			return nil, status.Error(codes.Unauthenticated, "no such token")
		}
		return handler(ctx, request)
	}
	return f.serve(t, grpc.Creds(credentials.NewTLS(config)), grpc.UnaryInterceptor(check))
}

// TestCredentials: certificates and token go where they belong, each failure names what is wrong, and no secret is printed.
func TestCredentials(t *testing.T) {
	certFile, keyFile := callertest.Pair(t, "server")
	clientCert, clientKey := callertest.Pair(t, "operator")
	otherCert, otherKey := callertest.Pair(t, "stranger")
	dir := t.TempDir()
	token, wrong := callertest.File(t, "token", "marker-1\n"), callertest.File(t, "wrong", "marker-2")
	empty := callertest.File(t, "empty", "marker 3\nmarker")
	address := (&fake{}).guarded(t, certFile, keyFile, clientCert)
	tests := []struct{ name, flags, want string }{
		{"all", "--ca-file=" + certFile + " --cert-file=" + clientCert + " --key-file=" + clientKey + " --token-file=" + token, ""},
		{"no token", "--ca-file=" + certFile + " --cert-file=" + clientCert + " --key-file=" + clientKey, "UNAUTHENTICATED"},
		{"another token", "--ca-file=" + certFile + " --cert-file=" + clientCert + " --key-file=" + clientKey + " --token-file=" + wrong, "UNAUTHENTICATED"},
		{"no certificate", "--ca-file=" + certFile + " --token-file=" + token, "UNAVAILABLE"},
		{"a stranger's", "--ca-file=" + certFile + " --cert-file=" + otherCert + " --key-file=" + otherKey + " --token-file=" + token, "UNAVAILABLE"},
		{"another authority", "--ca-file=" + otherCert + " --cert-file=" + clientCert + " --key-file=" + clientKey + " --token-file=" + token, "certificate"},
		{"the machine's authorities", "--tls --token-file=" + token, "certificate"},
		{"no TLS", "--token-file=" + token, "--tls"},
		{"no authority in it", "--ca-file=" + token, "--ca-file: " + token + ": the CA's file has no certificate"},
		{"no authority", "--ca-file=" + dir + "/none", "--ca-file"},
		{"not a pair", "--cert-file=" + clientCert + " --key-file=" + otherKey, "--cert-file and --key-file"},
		{"not a token", "--token-file=" + empty, "--token-file: " + empty},
		{"no such token", "--token-file=" + dir + "/none", "--token-file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			out, errOut, err := run(t, address, "get concert "+test.flags)
			if test.want == "" {
				if err != nil || out == "" {
					t.Errorf("printed %q, %v", out, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(out+errOut+err.Error(), "marker") {
				t.Errorf("%v, want %s; printed %s%s", err, test.want, out, errOut)
			}
		})
	}
}
