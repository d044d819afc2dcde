package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
)

const jwtCallers = `{"callers":[{"name":"shop","roles":["checkout"],"subjects":["shop@example.org"]}]}`

// issuer signs tokens with a key that has an id.
type issuer struct {
	id  string
	key *ecdsa.PrivateKey
}

func newIssuer(t testing.TB, id string) issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return issuer{id, key}
}

// keys is the JWKS of issuers.
func keys(t testing.TB, all ...issuer) string {
	t.Helper()
	list := []map[string]string{}
	for _, i := range all {
		point, err := i.key.PublicKey.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, map[string]string{
			"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": i.id,
			"x": base64.RawURLEncoding.EncodeToString(point[1:33]), "y": base64.RawURLEncoding.EncodeToString(point[33:]),
		})
	}
	text, err := json.Marshal(map[string]any{"keys": list})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func claims(change func(jwt.MapClaims)) jwt.MapClaims {
	c := jwt.MapClaims{"iss": "https://issuer.example.org", "aud": "holdfast", "sub": "shop@example.org", "exp": time.Now().Add(time.Hour).Unix()}
	if change != nil {
		change(c)
	}
	return c
}

func (i issuer) sign(t testing.TB, c jwt.MapClaims) string {
	t.Helper()
	return signed(t, jwt.SigningMethodES256, i.id, i.key, c)
}

func signed(t testing.TB, method jwt.SigningMethod, id string, key any, c jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	token.Header["kid"] = id
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func jwtOptions(keys string) JWTOptions {
	return JWTOptions{Keys: keys, Issuer: "https://issuer.example.org", Audience: "holdfast"}
}

func newJWTs(t testing.TB, o JWTOptions) *JWTs {
	t.Helper()
	v, err := NewJWTs(t.Context(), o, quiet())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestJWT: which tokens are taken, and that the answer to others holds nothing of them.
func TestJWT(t *testing.T) {
	good, other := newIssuer(t, "one"), newIssuer(t, "two")
	a := newAuthenticator(t, jwtCallers, newJWTs(t, jwtOptions(file(t, keys(t, good)))))
	set := func(key string, value any) jwt.MapClaims { return claims(func(c jwt.MapClaims) { c[key] = value }) }
	public, err := x509.MarshalPKIXPublicKey(good.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	for _, test := range []struct{ name, token, want string }{
		{"good", good.sign(t, claims(nil)), "shop"},
		{"several audiences", good.sign(t, set("aud", []string{"x", "holdfast"})), "shop"},
		{"expired within the leeway", good.sign(t, set("exp", time.Now().Add(-10*time.Second).Unix())), "shop"},
		{"expired", good.sign(t, set("exp", time.Now().Add(-time.Minute).Unix())), errExpired.Why},
		{"not valid yet", good.sign(t, set("nbf", time.Now().Add(time.Minute).Unix())), errExpired.Why},
		{"without an end", good.sign(t, claims(func(c jwt.MapClaims) { delete(c, "exp") })), errToken.Why},
		{"another issuer", good.sign(t, set("iss", "https://other.example.org")), errIssuer.Why},
		{"another audience", good.sign(t, set("aud", "other")), errAudience.Why},
		{"no audience", good.sign(t, claims(func(c jwt.MapClaims) { delete(c, "aud") })), errToken.Why},
		{"another subject", good.sign(t, set("sub", "other")), errSubject.Why},
		{"no subject", good.sign(t, claims(func(c jwt.MapClaims) { delete(c, "sub") })), errSubject.Why},
		{"another key", signed(t, jwt.SigningMethodES256, "one", other.key, claims(nil)), errSignature.Why},
		{"an unknown key", other.sign(t, claims(nil)), errSignature.Why},
		{"not signed", signed(t, jwt.SigningMethodNone, "one", jwt.UnsafeAllowNoneSignatureType, claims(nil)), errSignature.Why},
		{"signed with what everybody knows", signed(t, jwt.SigningMethodHS256, "one", secret, claims(nil)), errSignature.Why},
		{"cut", good.sign(t, claims(nil))[:40] + "..", errToken.Why},
		{"no JWT", "marker", errToken.Why},
	} {
		for range 2 { // the second time it may be known
			got := named(a.Caller(withToken(t, test.token)))
			if got != test.want || strings.Contains(got, test.token) {
				t.Errorf("%s: %q, want %q", test.name, got, test.want)
			}
		}
	}
}

// TestKeysChange: a key counts from when it is in the file until it is not, for tokens that were found good before too.
func TestKeysChange(t *testing.T) {
	one, two := newIssuer(t, "one"), newIssuer(t, "two")
	path := file(t, keys(t, one))
	v := newJWTs(t, jwtOptions(path))
	a := newAuthenticator(t, jwtCallers, v)
	first, second := one.sign(t, claims(nil)), two.sign(t, claims(nil))
	check := func(step, wantFirst, wantSecond string) {
		t.Helper()
		if got := named(a.Caller(withToken(t, first))); got != wantFirst {
			t.Errorf("%s: the first is of %q, want %q", step, got, wantFirst)
		}
		if got := named(a.Caller(withToken(t, second))); got != wantSecond {
			t.Errorf("%s: the second is of %q, want %q", step, got, wantSecond)
		}
	}
	check("at first", "shop", errSignature.Why)
	write(t, path, []byte(keys(t, two)))
	v.file.look()
	check("changed", errSignature.Why, "shop")
	write(t, path, []byte("broken"))
	v.file.look()
	check("broken", errSignature.Why, "shop")
}

type keySet = keyfunc.Keyfunc // whose method of that name an embedded field would hide

// replaced are keys that are replaced by others while a token is verified with them.
type replaced struct {
	keySet
	replace func()
}

func (r replaced) KeyfuncCtx(ctx context.Context) jwt.Keyfunc {
	find := r.keySet.KeyfuncCtx(ctx)
	return func(token *jwt.Token) (any, error) {
		r.replace()
		return find(token)
	}
}

// TestKeysChangeMeanwhile: a token that was verified with keys that are gone by then is not remembered as good.
func TestKeysChangeMeanwhile(t *testing.T) {
	one, two := newIssuer(t, "one"), newIssuer(t, "two")
	v := newJWTs(t, jwtOptions(file(t, keys(t, one))))
	var old keyfunc.Keyfunc = replaced{*v.keys.Load(), func() {
		if err := v.load([][]byte{[]byte(keys(t, two))}); err != nil {
			t.Error(err)
		}
	}}
	v.keys.Store(&old)
	a := newAuthenticator(t, jwtCallers, v)
	ctx := withToken(t, one.sign(t, claims(nil)))
	for _, want := range []string{"shop", errSignature.Why} {
		if got := named(a.Caller(ctx)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestKeysFromURL: a key that appears at the URL is found when a token has it, and is not asked for again for others within a
// minute. A URL that does not answer is no trouble at the start.
func TestKeysFromURL(t *testing.T) {
	one, two, three := newIssuer(t, "one"), newIssuer(t, "two"), newIssuer(t, "three")
	var asked atomic.Int64
	var shown atomic.Value
	shown.Store(keys(t, one))
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(shown.Load().(string)))
	}))
	defer s.Close()
	o := jwtOptions(s.URL)
	o.client = s.Client()
	a := newAuthenticator(t, jwtCallers, newJWTs(t, o))
	if got := named(a.Caller(withToken(t, one.sign(t, claims(nil))))); got != "shop" {
		t.Errorf("a key that is there: %q", got)
	}
	shown.Store(keys(t, one, two))
	if got := named(a.Caller(withToken(t, two.sign(t, claims(nil))))); got != "shop" {
		t.Errorf("a key that came later: %q", got)
	}
	before := asked.Load()
	for range 3 {
		if got := named(a.Caller(withToken(t, three.sign(t, claims(nil))))); got != errSignature.Why {
			t.Errorf("a key that is not there: %q", got)
		}
	}
	if got := asked.Load() - before; got > 1 {
		t.Errorf("asked %d times for keys that are not there", got)
	}
	s.Close()
	if _, err := NewJWTs(context.WithoutCancel(t.Context()), o, quiet()); err != nil {
		t.Errorf("a URL that does not answer: %v", err)
	}
}

// TestKnownIsBounded: tokens that were found good do not fill the memory.
func TestKnownIsBounded(t *testing.T) {
	v := newJWTs(t, jwtOptions(file(t, keys(t, newIssuer(t, "one")))))
	good := newIssuer(t, "one")
	if err := v.load([][]byte{[]byte(keys(t, good))}); err != nil {
		t.Fatal(err)
	}
	for n := range knownMost {
		v.known[[32]byte{byte(n), byte(n >> 8)}] = verified{}
	}
	a := newAuthenticator(t, jwtCallers, v)
	if got := named(a.Caller(withToken(t, good.sign(t, claims(nil))))); got != "shop" || len(v.known) != 1 {
		t.Errorf("%q, and %d are known", got, len(v.known))
	}
}
