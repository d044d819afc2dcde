package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/url"
	"strings"

	"github.com/holdfast-inventory/holdfast/server/auth"
)

// accessSettings is who may call, and how calls are encrypted.
type accessSettings struct {
	TLSCert      string `name:"tls-cert" env:"HOLDFAST_TLS_CERT" placeholder:"FILE" help:"The certificate of the gRPC listeners, with its chain (PEM). Read again when it changes. Empty: plain text."`
	TLSKey       string `name:"tls-key" env:"HOLDFAST_TLS_KEY" placeholder:"FILE" help:"Its private key (PEM)."`
	TLSClientCA  string `name:"tls-client-ca" env:"HOLDFAST_TLS_CLIENT_CA" placeholder:"FILE" help:"Who signs callers' certificates (PEM). Empty: they are not asked for any."`
	CallersFile  string `name:"callers-file" env:"HOLDFAST_CALLERS_FILE" placeholder:"FILE" help:"Who may call, and what (JSON; docs/security.md). Read again when it changes. Empty: everybody, everything."`
	JWKS         string `name:"jwks" env:"HOLDFAST_JWKS" placeholder:"FILE|URL" help:"The keys of JSON Web Tokens: a file, read again when it changes, or an https:// URL. Empty: none are taken."`
	JWTIssuer    string `name:"jwt-issuer" env:"HOLDFAST_JWT_ISSUER" placeholder:"TEXT" help:"The issuer (iss) that these tokens must have."`
	JWTAudience  string `name:"jwt-audience" env:"HOLDFAST_JWT_AUDIENCE" placeholder:"TEXT" help:"The audience (aud) that they must be for."`
	NoReflection bool   `name:"no-reflection" env:"HOLDFAST_NO_REFLECTION" help:"Do not let callers ask for the API (gRPC reflection)."`
}

// secure tells whether callers are identified, and what they say is encrypted.
func (s accessSettings) secure() bool { return s.TLSCert != "" && s.CallersFile != "" }

func (s accessSettings) problems() []string {
	all := pairProblems("tls-cert", s.TLSCert, "tls-key", s.TLSKey)
	if s.TLSClientCA != "" && !s.secure() {
		all = append(all, problem("tls-client-ca", "is of use only with --tls-cert and --callers-file")...)
	}
	if s.JWKS == "" {
		for _, given := range [][2]string{{"jwt-issuer", s.JWTIssuer}, {"jwt-audience", s.JWTAudience}} {
			if given[1] != "" {
				all = append(all, problem(given[0], "is of use only with --jwks")...)
			}
		}
		return all
	}
	if s.CallersFile == "" {
		all = append(all, problem("jwks", "is of use only with --callers-file")...)
	}
	if u, err := url.Parse(s.JWKS); strings.Contains(s.JWKS, "://") && (err != nil || u.Scheme != "https" || u.Host == "") {
		all = append(all, problem("jwks", "must be a file, or a URL that begins with https://")...)
	}
	for _, needed := range [][2]string{{"jwt-issuer", s.JWTIssuer}, {"jwt-audience", s.JWTAudience}} {
		if needed[1] == "" {
			all = append(all, problem(needed[0], "is required with --jwks")...)
		}
	}
	return all
}

func (s accessSettings) files() auth.TLSFiles {
	return auth.TLSFiles{Cert: s.TLSCert, Key: s.TLSKey, CA: s.TLSClientCA}
}

// callers reads who may call. It goes on fetching keys until ctx is done.
func (s accessSettings) callers(ctx context.Context, log *slog.Logger) (*auth.Authenticator, error) {
	var jwts *auth.JWTs
	if s.JWKS != "" {
		var err error
		jwts, err = auth.NewJWTs(ctx, auth.JWTOptions{Keys: s.JWKS, Issuer: s.JWTIssuer, Audience: s.JWTAudience}, log)
		if err != nil {
			return nil, &settingError{name: "jwks", err: err}
		}
	}
	callers, err := auth.New(auth.Options{CallersFile: s.CallersFile, JWTs: jwts, Logger: log})
	if err != nil {
		return nil, &settingError{name: "callers-file", err: err}
	}
	return callers, nil
}

// redisTLSSettings is what connections to Redis trust and show.
type redisTLSSettings struct {
	RedisCA   string `name:"redis-ca" env:"HOLDFAST_REDIS_CA" placeholder:"FILE" help:"Who signs Redis's certificates (PEM). Empty: those whom this machine trusts."`
	RedisCert string `name:"redis-cert" env:"HOLDFAST_REDIS_CERT" placeholder:"FILE" help:"The certificate to show to Redis (PEM). Read again for each connection."`
	RedisKey  string `name:"redis-key" env:"HOLDFAST_REDIS_KEY" placeholder:"FILE" help:"Its private key (PEM)."`
}

func (s redisTLSSettings) problems(redisURL string) []string {
	all := pairProblems("redis-cert", s.RedisCert, "redis-key", s.RedisKey)
	for _, given := range [][2]string{{"redis-ca", s.RedisCA}, {"redis-cert", s.RedisCert}} {
		if given[1] != "" && !strings.HasPrefix(redisURL, "rediss") {
			all = append(all, problem(given[0], "is of use only with a --redis-url that begins with rediss")...)
		}
	}
	return all
}

// config is nil if there is nothing to set.
func (s redisTLSSettings) config() (*tls.Config, error) {
	if s == (redisTLSSettings{}) {
		return nil, nil //nolint:nilnil // nothing to set
	}
	config, err := auth.ClientTLS(s.RedisCA)
	if err != nil {
		return nil, &settingError{name: "redis-ca", err: err}
	}
	if s.RedisCert != "" {
		if err := auth.Show(config, s.RedisCert, s.RedisKey); err != nil {
			return nil, &settingError{name: "redis-cert", err: err}
		}
	}
	return config, nil
}

// pairProblems checks two settings that need each other.
func pairProblems(a, valueA, b, valueB string) []string {
	switch {
	case valueA != "" && valueB == "":
		return problem(b, "is required with --"+a)
	case valueA == "" && valueB != "":
		return problem(a, "is required with --"+b)
	}
	return nil
}
