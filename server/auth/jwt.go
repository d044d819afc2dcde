package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"
)

const (
	keysPatience = 5 * time.Second  // for the URL of keys to answer
	keysRefresh  = 15 * time.Minute // of a URL of keys
	unknownKey   = time.Minute      // at most so often an unknown key makes it ask the URL again
	unknownWait  = 2 * time.Second  // that the call with that key waits; others do not wait for their turn to ask
	clockLeeway  = 30 * time.Second // between our clock and the issuer's
	// knownFor is how long a token that was found good is not verified again: a signature takes as long as a whole call.
	knownFor  = time.Minute
	knownMost = 4096
)

// JWTOptions says which JSON Web Tokens are taken.
type JWTOptions struct {
	Keys     string // a JWKS: a file, or a URL that begins with https://
	Issuer   string // iss must be this
	Audience string // aud must contain this

	client *http.Client // of the URL; nil: http.DefaultClient
}

var (
	errExpired   = &Unknown{"the token has expired, or is not valid yet"}
	errIssuer    = &Unknown{"the token is of another issuer"}
	errAudience  = &Unknown{"the token is for another audience"}
	errSignature = &Unknown{"the token's signature is not one of the issuer's"}
)

// JWTs verifies JSON Web Tokens.
type JWTs struct {
	parser *jwt.Parser
	keys   atomic.Pointer[keyfunc.Keyfunc]
	file   *watched // nil: the keys come from a URL

	mu    sync.Mutex
	known map[[32]byte]verified // by the token's hash
}

// verified is a token that was found good.
type verified struct {
	subject string
	until   time.Time
}

// NewJWTs reads the keys; from a URL it does so again until ctx is done. One that does not answer delays it by 5 seconds, and may
// answer later.
func NewJWTs(ctx context.Context, o JWTOptions, log *slog.Logger) (*JWTs, error) {
	v := &JWTs{
		known: map[[32]byte]verified{},
		parser: jwt.NewParser(
			// None that a public key could be mistaken to be the secret of.
			jwt.WithValidMethods([]string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}),
			jwt.WithIssuer(o.Issuer), jwt.WithAudience(o.Audience), jwt.WithExpirationRequired(), jwt.WithLeeway(clockLeeway),
		),
	}
	var err error
	if strings.HasPrefix(o.Keys, "https://") {
		err = v.fetch(ctx, o, log)
	} else {
		v.file, err = watch(log, "JWKS", v.load, o.Keys)
	}
	return v, err
}

func (v *JWTs) load(contents [][]byte) error {
	keys, err := keyfunc.NewJWKSetJSON(json.RawMessage(contents[0]))
	if err != nil {
		return errors.New("is not a JSON Web Key Set")
	}
	v.keys.Store(&keys)
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.known) // a key that is gone counts at once
	return nil
}

// fetch takes the keys from a URL, now and again until ctx is done.
func (v *JWTs) fetch(ctx context.Context, o JWTOptions, log *slog.Logger) error {
	keys, err := keyfunc.NewDefaultOverrideCtx(ctx, []string{o.Keys}, keyfunc.Override{
		Client:      o.client,
		HTTPTimeout: keysPatience, RefreshInterval: keysRefresh,
		RefreshUnknownKID: rate.NewLimiter(rate.Every(unknownKey), 1),
		RateLimitWaitMax:  unknownWait,
		RefreshErrorHandlerFunc: func(string) func(context.Context, error) {
			return func(_ context.Context, err error) { log.Warn("the JWKS could not be fetched", "error", err) }
		},
	})
	if err != nil {
		return fmt.Errorf("JWKS: %w", err)
	}
	v.keys.Store(&keys)
	return nil
}

// watched is the file to look at; nil has none.
func (v *JWTs) watched() []*watched {
	if v == nil || v.file == nil {
		return nil
	}
	return []*watched{v.file}
}

// subject verifies a token, whose hash is given.
func (v *JWTs) subject(ctx context.Context, hash [32]byte, token string) (string, error) {
	now := time.Now()
	v.mu.Lock()
	found, ok := v.known[hash]
	v.mu.Unlock()
	if ok && now.Before(found.until) {
		return found.subject, nil
	}
	keys := v.keys.Load()
	var claims jwt.RegisteredClaims
	if _, err := v.parser.ParseWithClaims(token, &claims, (*keys).KeyfuncCtx(ctx)); err != nil {
		return "", whyNot(err)
	}
	until := now.Add(knownFor)
	if expires := claims.ExpiresAt.Add(clockLeeway); expires.Before(until) {
		until = expires
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) >= knownMost {
		clear(v.known)
	}
	if v.keys.Load() == keys { // else they were replaced meanwhile, and what they verified forgotten
		v.known[hash] = verified{subject: claims.Subject, until: until}
	}
	return claims.Subject, nil
}

// whyNot tells the caller what is wrong, in words that hold nothing of the token.
func whyNot(err error) error {
	switch {
	case errors.Is(err, jwt.ErrTokenExpired), errors.Is(err, jwt.ErrTokenNotValidYet):
		return errExpired
	case errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return errIssuer
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return errAudience
	case errors.Is(err, jwt.ErrTokenSignatureInvalid), errors.Is(err, jwt.ErrTokenUnverifiable):
		return errSignature
	default:
		return errToken
	}
}
