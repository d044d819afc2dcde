package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// guarded is a folder with what docs/security.md makes there, by its own commands.
type guarded struct{ folder string }

func newGuarded(t *testing.T, folder string) *guarded {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	if !found || !strings.Contains(block, "openssl") {
		t.Fatal("docs/security.md has no such commands")
	}
	shell := exec.CommandContext(t.Context(), "bash", "-euc", block)
	shell.Dir = folder
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("the commands of docs/security.md (they need openssl): %v\n%s", err, out)
	}
	return &guarded{folder}
}

func (g *guarded) path(name string) string { return filepath.Join(g.folder, name) }

func (g *guarded) read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(g.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// settings are those of docs/security.md.
func (g *guarded) settings() []string {
	return []string{
		"--tls-cert=" + g.path("server.crt"), "--tls-key=" + g.path("server.key"),
		"--tls-client-ca=" + g.path("ca.crt"), "--callers-file=" + g.path("callers.json"),
	}
}

// connect connects with the checkout's certificate, or with none.
func (g *guarded) connect(t *testing.T, addr string, withCertificate bool) *grpc.ClientConn {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	config.RootCAs.AppendCertsFromPEM([]byte(g.read(t, "ca.crt")))
	if withCertificate {
		pair, err := tls.LoadX509KeyPair(g.path("shop.crt"), g.path("shop.key"))
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithDefaultServiceConfig(retrying))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func bearing(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// TestGuardedServer follows docs/security.md: a checkout by certificate, an operator by token, one that changes while the server
// runs, and nothing secret in what the process writes or answers, its traces included.
func TestGuardedServer(t *testing.T) {
	forget(t)
	g := newGuarded(t, t.TempDir())
	t.Setenv("OTEL_TRACES_EXPORTER", "console")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	p := startServe(t, append(g.settings(), "--drain-delay=0s", "--log-level=debug")...)
	addr := p.err.all("grpc=")[0]
	shop, other := g.connect(t, addr, true), g.connect(t, addr, false)
	const buyer = "marker-of-a-buyer"
	token := g.read(t, "olga.token")
	var answers []string
	check := func(what string, err error, want codes.Code) {
		t.Helper()
		answers = append(answers, status.Convert(err).Proto().String())
		if status.Code(err) != want {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	hold := func(ctx context.Context, conn *grpc.ClientConn, allotment string) error {
		_, err := pb.NewInventoryServiceClient(conn).CreateHold(ctx, &pb.CreateHoldRequest{
			AllotmentId: allotment, BuyerId: buyer, RequestId: "r", Quantity: 1,
		})
		return err
	}
	list := func(token string) error {
		_, err := pb.NewAdminServiceClient(other).ListHolds(bearing(t.Context(), token), &pb.ListHoldsRequest{AllotmentId: "concert", BuyerId: buyer})
		return err
	}
	// The stores are away: who is let in is told so.
	check("the checkout", hold(t.Context(), shop, "concert"), codes.Unavailable)
	check("the checkout elsewhere", hold(t.Context(), shop, "dinner"), codes.PermissionDenied)
	check("nobody", hold(t.Context(), other, "concert"), codes.Unauthenticated)
	check("a wrong token", hold(bearing(t.Context(), token+"x"), shop, "concert"), codes.Unauthenticated)
	check("the operator as a checkout", hold(bearing(t.Context(), token), other, "concert"), codes.PermissionDenied)
	check("the operator", list(token), codes.Unavailable)

	const another = "marker-of-another-token"
	hash := func(token string) string {
		sum := sha256.Sum256([]byte(token))
		return hex.EncodeToString(sum[:])
	}
	changed := strings.ReplaceAll(g.read(t, "callers.json"), hash(token), hash(another))
	if err := os.WriteFile(g.path("callers.json"), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "new token", func() bool { return status.Code(list(another)) == codes.Unavailable })
	check("the token of before", list(token), codes.Unauthenticated)
	_, err := pb.NewAdminServiceClient(other).CreateAllotment(bearing(t.Context(), another),
		&pb.CreateAllotmentRequest{Allotment: &pb.Allotment{Id: "concert", Capacity: 1}})
	check("an action", err, codes.Unavailable)
	until(t, time.Minute, "line in the audit log", func() bool { return strings.Contains(p.err.String(), "who=olga") })
	until(t, time.Minute, "spans", func() bool { return strings.Contains(p.out.String(), "holdfast.v1.InventoryService/CreateHold") })

	key := strings.Split(g.read(t, "server.key"), "\n")[1]
	for _, secret := range []string{token, another, hash(token), hash(another), buyer, key, "user:marker", "u:marker"} {
		for where, text := range map[string]string{"log": p.err.String(), "traces": p.out.String(), "answers": strings.Join(answers, "\n")} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s hold %q", where, secret)
			}
		}
	}
}

// TestWrongFiles: whatever is wrong with a file, the setting is named, and nothing in it is shown.
func TestWrongFiles(t *testing.T) {
	forget(t)
	g := newGuarded(t, t.TempDir())
	const marker = "marker-of-a-secret"
	if err := os.WriteFile(g.path("wrong"), []byte(`{"callers":[{"name":"a","roles":["reader"],"tokens_sha256":["`+marker+`"]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong, none := g.path("wrong"), g.path("none")
	jwt := []string{"--jwt-issuer=i", "--jwt-audience=a"}
	for _, test := range []struct {
		named string
		args  []string
	}{
		{"tls-cert", []string{"--tls-cert=" + wrong, "--tls-key=" + wrong}},
		{"tls-cert", []string{"--tls-cert=" + g.path("server.crt"), "--tls-key=" + g.path("shop.key")}},
		{"tls-cert", []string{"--tls-cert=" + none, "--tls-key=" + none}},
		{"callers-file", []string{"--callers-file=" + wrong}},
		{"callers-file", []string{"--callers-file=" + none}},
		{"jwks", append(jwt, "--callers-file="+g.path("callers.json"), "--jwks="+none)},
		{"jwks", append(jwt, "--callers-file="+g.path("callers.json"), "--jwks="+g.path("server.key"))},
		{"redis-ca", []string{"--redis-url=rediss://h", "--redis-ca=" + wrong}},
		{"redis-cert", []string{"--redis-url=rediss://h", "--redis-cert=" + wrong, "--redis-key=" + wrong}},
	} {
		var out strings.Builder
		args := append([]string{
			"serve", "--grpc-addr=127.0.0.1:0", "--http-addr=127.0.0.1:0", "--redis-url=redis://127.0.0.1:1/0", "--postgres-url=postgres://u@127.0.0.1:1/d",
		}, test.args...)
		code := run(t.Context(), args, &out, &out)
		if code != exitError || !strings.Contains(out.String(), "--"+test.named+" (HOLDFAST_") || strings.Contains(out.String(), marker) {
			t.Errorf("%v: exit code %d:\n%s", test.args, code, &out)
		}
	}
}
