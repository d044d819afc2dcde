package auth

import (
	"context"
	"testing"

	"google.golang.org/grpc/peer"
)

func benchmarkCaller(ctx context.Context, b *testing.B, a *Authenticator) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Caller(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCertificate(b *testing.B) {
	a := newAuthenticator(b, twoCallers, nil)
	benchmarkCaller(peer.NewContext(b.Context(), &peer.Peer{AuthInfo: connection{name: "ops"}}), b, a)
}

func BenchmarkToken(b *testing.B) {
	token := hashOf("any")
	a := newAuthenticator(b, `{"callers":[{"name":"shop","roles":["checkout"],"tokens_sha256":["`+hashOf(token)+`"]}]}`, nil)
	benchmarkCaller(withToken(b, token), b, a)
}

func BenchmarkJWT(b *testing.B) {
	good := newIssuer(b, "one")
	a := newAuthenticator(b, jwtCallers, newJWTs(b, jwtOptions(file(b, keys(b, good)))))
	benchmarkCaller(withToken(b, good.sign(b, claims(nil))), b, a)
}
