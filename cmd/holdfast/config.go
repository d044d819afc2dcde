package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/server"
)

// logSettings is how to log.
type logSettings struct {
	Format string `name:"log-format" env:"HOLDFAST_LOG_FORMAT" default:"${log_format}" enum:"json,text" placeholder:"json|text" help:"How log lines on standard error look."`
	Level  string `name:"log-level" env:"HOLDFAST_LOG_LEVEL" default:"info" enum:"debug,info,warn,error" placeholder:"LEVEL" help:"The least important lines to log: debug, info, warn or error."`
}

func (s logSettings) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.Level)) // one of four that it knows
	options := &slog.HandlerOptions{Level: level}
	if s.Format == "json" {
		options.ReplaceAttr = readableDuration
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// readableDuration writes durations in JSON as the text format does, with their unit: slog's are bare nanoseconds.
func readableDuration(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// listenSettings is where to listen.
type listenSettings struct {
	GRPCAddr string `name:"grpc-addr" env:"HOLDFAST_GRPC_ADDR" default:"127.0.0.1:50051" placeholder:"HOST:PORT" help:"Where gRPC listens. Port 0: a free one."`
	HTTPAddr string `name:"http-addr" env:"HOLDFAST_HTTP_ADDR" default:"127.0.0.1:9464" placeholder:"HOST:PORT" help:"Where /metrics (Prometheus), /livez and /readyz listen."`
	Insecure bool   `name:"insecure" env:"HOLDFAST_INSECURE" help:"Let gRPC listen beyond this machine although callers are not identified or nothing is encrypted."`
}

// problems looks at the addresses. secure: callers are identified, and what they say is encrypted.
func (s listenSettings) problems(secure bool) []string {
	return slices.Concat(
		addressProblems("grpc-addr", s.GRPCAddr, s.Insecure || secure),
		addressProblems("http-addr", s.HTTPAddr, true), // shows numbers, takes no calls
	)
}

// buyerSettings is how often one buyer may ask for holds.
type buyerSettings struct {
	BuyerRate  float64 `name:"buyer-rate" env:"HOLDFAST_BUYER_RATE" default:"20" placeholder:"N" help:"Requests for holds that one buyer may make a second, at this server. 0: any number."`
	BuyerBurst int     `name:"buyer-burst" env:"HOLDFAST_BUYER_BURST" default:"40" placeholder:"N" help:"Requests for holds that one buyer may make at once."`
}

func (s buyerSettings) problems() []string {
	var all []string
	if !(s.BuyerRate >= 0 && s.BuyerRate <= maxBuyerRate) { // nor NaN
		all = problem("buyer-rate", "must be from 0 to 1000000")
	}
	if s.BuyerBurst < 1 || s.BuyerBurst > maxBuyerRate {
		all = append(all, problem("buyer-burst", "must be from 1 to 1000000")...)
	}
	return all
}

const maxBuyerRate = 1_000_000

func (s buyerSettings) limit() server.BuyerLimit {
	return server.BuyerLimit{PerSecond: s.BuyerRate, Burst: s.BuyerBurst}
}

// databaseSettings is where the ledger is.
type databaseSettings struct {
	PostgresURL string `name:"postgres-url" env:"HOLDFAST_POSTGRES_URL" placeholder:"URL" help:"The ledger's database: postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=... Required."`
}

func (s databaseSettings) problems() []string {
	return urlProblems("postgres-url", s.PostgresURL, "postgres", "postgresql")
}

// bounds are the limits of a duration.
type bounds struct{ least, most time.Duration }

func durationProblems(name string, value time.Duration, b bounds) []string {
	if value < b.least || value > b.most {
		return problem(name, fmt.Sprintf("is %v, must be from %v to %v", value, b.least, b.most))
	}
	return nil
}

// problem names a setting both ways.
func problem(name, what string) []string {
	variable := envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	return []string{fmt.Sprintf("--%s (%s): %s", name, variable, what)}
}

// settingError is a setting that turns out wrong when it is used.
type settingError struct {
	name string
	err  error
}

func (e *settingError) Error() string { return problem(e.name, e.err.Error())[0] }

func (e *settingError) Unwrap() error { return e.err }

func usage(problems ...[]string) error {
	if all := slices.Concat(problems...); len(all) > 0 {
		return &usageError{problems: all}
	}
	return nil
}

// addressProblems checks an address to listen on. Without anywhere set it must be of this machine alone.
func addressProblems(name, address string, anywhere bool) []string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return problem(name, fmt.Sprintf("is %q, must be HOST:PORT", address))
	}
	if number, err := net.LookupPort("tcp", port); err != nil || number < 0 {
		return problem(name, fmt.Sprintf("is %q, whose port is not a number from 0 to 65535", address))
	}
	if !anywhere && !isLoopback(host) {
		return problem(name, fmt.Sprintf("is %q, which others can reach: set --tls-cert, --tls-key and "+
			"--callers-file, use 127.0.0.1, or say --insecure if the network keeps them out", address))
	}
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// urlProblems checks a URL that may hold a password: it never shows any of it.
func urlProblems(name, text string, schemes ...string) []string {
	if text == "" {
		return problem(name, "is required")
	}
	u, err := url.Parse(text)
	switch {
	case !strings.Contains(text, "://"):
		return problem(name, "must begin with "+strings.Join(schemes, ":// or ")+"://")
	case err != nil:
		return problem(name, "is not a URL; special characters in user and password must be percent-encoded")
	case !slices.Contains(schemes, u.Scheme):
		return problem(name, "must begin with "+strings.Join(schemes, ":// or ")+"://")
	case u.Host == "" && u.Query().Get("host") == "": // Postgres may be reached through a folder of sockets
		return problem(name, "names no host")
	}
	return nil
}

// redacted is what of a URL may be shown: where it leads, and not how to get in.
func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "not a URL"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
