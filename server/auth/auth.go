// Package auth finds out who calls, by client certificate or bearer token, and what that caller may do. It knows no
// method: package server says which role each one needs.
package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// reloadEvery is how often files are looked at for changes.
const reloadEvery = 5 * time.Second

// Unknown says why it is not known who calls. It names nothing that the caller sent.
type Unknown struct{ Why string }

// Error is the reason, for people.
func (u *Unknown) Error() string { return u.Why }

var (
	errNone        = &Unknown{"neither a client certificate nor a bearer token came with the call"}
	errScheme      = &Unknown{"the authorization header is not one bearer token"}
	errToken       = &Unknown{"the token is not known"}
	errCertificate = &Unknown{"the client certificate's name is not known"}
	errSubject     = &Unknown{"the token's subject is not known"}
)

// Options is what identifies callers.
type Options struct {
	CallersFile string // who there is; looked at again every 5 seconds
	JWTs        *JWTs  // nil: none are taken
	Logger      *slog.Logger
}

// Authenticator knows all callers. It is used by all calls at the same time.
type Authenticator struct {
	callers atomic.Pointer[callers]
	jwts    *JWTs
	files   *watched
}

// New reads the files. An error names the file and what is wrong in it, and shows no secret.
func New(o Options) (*Authenticator, error) {
	a := &Authenticator{jwts: o.JWTs}
	files, err := watch(o.Logger, "callers", a.load, o.CallersFile)
	if err != nil {
		return nil, err
	}
	a.files = files
	return a, nil
}

func (a *Authenticator) load(contents [][]byte) error {
	known, err := parseCallers(contents[0])
	if err != nil {
		return err
	}
	a.callers.Store(known)
	return nil
}

// Run reads files again when they have changed, until ctx is done. A file that is wrong is logged, and what was read before
// stays in force.
func (a *Authenticator) Run(ctx context.Context) {
	follow(ctx, reloadEvery, append(a.jwts.watched(), a.files)...)
}

// Caller is who makes the call of ctx. A bearer token counts before a client certificate, which may be that of a proxy. The
// error is an *Unknown.
func (a *Authenticator) Caller(ctx context.Context) (*Caller, error) {
	known := a.callers.Load()
	if sent := metadata.ValueFromIncomingContext(ctx, "authorization"); len(sent) > 0 {
		token, ok := bearer(sent)
		if !ok {
			return nil, errScheme
		}
		return a.byToken(ctx, known, token)
	}
	name := certificateName(ctx)
	if name == "" {
		return nil, errNone
	}
	if c := known.byCertificate[name]; c != nil {
		return c, nil
	}
	return nil, errCertificate
}

func (a *Authenticator) byToken(ctx context.Context, known *callers, token string) (*Caller, error) {
	hash := sha256.Sum256([]byte(token))
	if c := known.byToken[hash]; c != nil {
		return c, nil
	}
	if a.jwts == nil || strings.Count(token, ".") != 2 {
		return nil, errToken
	}
	subject, err := a.jwts.subject(ctx, hash, token)
	if err != nil {
		return nil, err
	}
	if c := known.bySubject[subject]; c != nil {
		return c, nil
	}
	return nil, errSubject
}

// bearer is the token of an authorization header, RFC 6750.
func bearer(headers []string) (string, bool) {
	scheme, token, found := strings.Cut(headers[0], " ")
	if len(headers) != 1 || !found || token == "" || !strings.EqualFold(scheme, "bearer") {
		return "", false
	}
	return token, true
}

// certificateName is the name of the connection's verified client certificate; empty: it has none.
func certificateName(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	c, ok := p.AuthInfo.(connection)
	if !ok {
		return ""
	}
	return c.name
}

// Peer is the address that a call came from.
func Peer(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

var errEmptyFile = errors.New("is empty")

func inFile(path string, err error) error { return fmt.Errorf("%s: %w", path, err) }
