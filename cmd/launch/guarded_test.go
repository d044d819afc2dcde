package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/caller/callertest"
	"github.com/holdfast-inventory/holdfast/cmd/launch/program"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// startGuarded starts a server that encrypts and asks who calls, on stores of its own, and returns its address.
func startGuarded(t *testing.T, flags ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	stores := program.Stores{
		RedisURL: storetest.NewRedis(t, local.RedisOptions{}).URL(), PostgresURL: storetest.NewPostgres(t, local.PostgresOptions{}).URL("postgres"),
	}
	server, err := program.Serve(ctx, buildHoldfast(ctx, t), stores, program.Settings{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("holdfast wrote:\n%s", server.Tail())
		}
		if err := server.Stop(30 * time.Second); err != nil {
			t.Error(err)
		}
	})
	return server.Addr()
}

// TestGuarded rehearses on a server with TLS, certificates and tokens: it needs somebody who may do all that it does, and
// says so before it begins.
func TestGuarded(t *testing.T) {
	serverCert, serverKey := callertest.Pair(t, "server")
	clientCert, clientKey := callertest.Pair(t, "rehearsal")
	caller := func(name, rest string) string {
		return fmt.Sprintf(`{"name": %q, "tokens_sha256": ["%x"], %s}`, name, sha256.Sum256([]byte("marker-"+name)), rest)
	}
	callers := []string{
		`{"name": "rehearsal", "roles": ["checkout", "operator"], "certificates": ["rehearsal"]}`,
		caller("both", `"roles": ["checkout", "operator"]`),
		caller("elsewhere", `"roles": ["checkout"], "allotments": ["concert"]`),
		caller("shop", `"roles": ["checkout"]`),
		caller("olga", `"roles": ["operator"]`),
	}
	address := startGuarded(t, "--tls-cert="+serverCert, "--tls-key="+serverKey, "--tls-client-ca="+clientCert,
		"--callers-file="+callertest.File(t, "callers.json", `{"callers": [`+strings.Join(callers, ",")+`]}`))
	t.Setenv(asLaunch, "1")
	onsale := []string{"onsale", "--addr=" + address, "--requests=200", "--duration=200ms", "--capacity=50", "--window=10s", "--noop", "--no-lapses"}
	closed := []string{"closed", "--addr=" + address, "--in-flight=8", "--duration=200ms", "--warm-up=100ms", "--rounds=1"}
	token := func(name string) []string {
		return []string{"--ca-file=" + serverCert, "--token-file=" + callertest.File(t, "token", "marker-"+name)}
	}
	certificate := []string{"--ca-file=" + serverCert, "--cert-file=" + clientCert, "--key-file=" + clientKey}
	const needs = "must be known to the server and have the roles checkout and operator"
	for name, test := range map[string]struct{ args, who []string }{
		"a launch with a certificate": {onsale, certificate}, "a launch with a token": {onsale, token("both")},
		"the highest rate with a certificate": {closed, certificate}, "the highest rate with a token": {closed, token("both")},
	} {
		t.Run(name, func(t *testing.T) { mustSay(t, launch(t, append(test.args, test.who...)...), "holdfast") })
	}
	for name, test := range map[string]struct {
		args, who, says []string
	}{
		"an operator alone":                {onsale, token("olga"), []string{"call as a checkout: ", "has no role that may call this method", needs}},
		"an operator at the highest rate":  {closed, token("olga"), []string{"call as a checkout: ", needs}},
		"a checkout alone":                 {onsale, token("shop"), []string{"create allotment", "has no role that may call this method", needs}},
		"who may touch others' allotments": {onsale, token("elsewhere"), []string{"may only touch allotments of its own", needs}},
		"a stranger":                       {onsale, token("nobody"), []string{"the token is not known", needs}},
		"nobody":                           {onsale, []string{"--ca-file=" + serverCert}, []string{"neither a client certificate nor a bearer token", needs}},
		"who trusts others":                {onsale, []string{"--tls"}, []string{"--addr: no Holdfast answers: ", "certificate"}},
		"no token":                         {onsale, []string{"--token-file=" + serverCert}, []string{"--token-file: " + serverCert + " does not hold a token"}},
		"in the clear":                     {closed, nil, []string{"--addr: no Holdfast answers: ", "wants TLS"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut strings.Builder
			if code := run(t.Context(), append(test.args, test.who...), &out, &errOut); code != exitError {
				t.Errorf("exit code %d", code)
			}
			mustSay(t, errOut.String(), test.says...)
			if said := out.String() + errOut.String(); strings.Contains(said, "marker") || strings.Contains(said, "granted 1") {
				t.Errorf("a secret, or a launch that had begun:\n%s", said)
			}
		})
	}
}
