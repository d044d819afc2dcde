package main

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"
)

func validServe() serveCommand {
	return serveCommand{
		listenSettings:   listenSettings{GRPCAddr: "127.0.0.1:50051", HTTPAddr: "127.0.0.1:9464"},
		databaseSettings: databaseSettings{PostgresURL: "postgres://u:p@h:5432/d?sslmode=require"},
		buyerSettings:    buyerSettings{BuyerRate: 20, BuyerBurst: 40},
		RedisURL:         "rediss://u:p@h:6379/1", PostgresMaxConns: 8, Retention: 24 * time.Hour, Durability: "none",
		DrainDelay: 5 * time.Second, StopTimeout: 10 * time.Second,
	}
}

func guardedBy(file string) accessSettings {
	return accessSettings{TLSCert: file, TLSKey: file, TLSClientCA: file, CallersFile: file}
}

func TestServeSettings(t *testing.T) {
	tests := []struct {
		name   string
		change func(*serveCommand)
		named  string // empty: valid
	}{
		{"valid", func(*serveCommand) {}, ""},
		{"all interfaces", func(c *serveCommand) { c.GRPCAddr = ":50051" }, "grpc-addr"},
		{"all interfaces, said so", func(c *serveCommand) { c.GRPCAddr, c.Insecure = ":50051", true }, ""},
		{"another interface", func(c *serveCommand) { c.GRPCAddr = "10.0.0.1:1" }, "grpc-addr"},
		{"a name", func(c *serveCommand) { c.GRPCAddr = "example.org:1" }, "grpc-addr"},
		{"any IPv6", func(c *serveCommand) { c.GRPCAddr = "[::]:1" }, "grpc-addr"},
		{"loopback IPv6", func(c *serveCommand) { c.GRPCAddr = "[::1]:1" }, ""},
		{"loopback as IPv6", func(c *serveCommand) { c.GRPCAddr = "[::ffff:127.0.0.1]:1" }, ""},
		{"localhost", func(c *serveCommand) { c.GRPCAddr = "localhost:0" }, ""},
		{"another loopback", func(c *serveCommand) { c.GRPCAddr = "127.8.8.8:0" }, ""},
		{"no port", func(c *serveCommand) { c.GRPCAddr = "127.0.0.1" }, "grpc-addr"},
		{"a port too high", func(c *serveCommand) { c.GRPCAddr = "127.0.0.1:65536" }, "grpc-addr"},
		{"no address", func(c *serveCommand) { c.GRPCAddr = "" }, "grpc-addr"},
		{"admin elsewhere", func(c *serveCommand) { c.AdminAddr = "127.0.0.1:50052" }, ""},
		{"admin open to all", func(c *serveCommand) { c.AdminAddr = "0.0.0.0:50052" }, "admin-addr"},
		{"probes open to all", func(c *serveCommand) { c.HTTPAddr = ":9464" }, ""},
		{"probes nowhere", func(c *serveCommand) { c.HTTPAddr = "x" }, "http-addr"},
		{"no Redis", func(c *serveCommand) { c.RedisURL = "" }, "redis-url"},
		{"Redis of another kind", func(c *serveCommand) { c.RedisURL = "http://h" }, "redis-url"},
		{"Redis without a host", func(c *serveCommand) { c.RedisURL = "redis://" }, "redis-url"},
		{"Sentinels", func(c *serveCommand) { c.RedisURL = "rediss-sentinel://u:p@h1,h2:26379/main?db=2" }, ""},
		{"Sentinels of nobody", func(c *serveCommand) { c.RedisURL = "redis-sentinel://h1,h2" }, "redis-url"},
		{"a cluster", func(c *serveCommand) { c.RedisURL = "redis-cluster://u:p@h1:6379,h2:6379" }, ""},
		{"a cluster's second database", func(c *serveCommand) { c.RedisURL = "redis-cluster://h1/1" }, "redis-url"},
		{"two servers", func(c *serveCommand) { c.RedisURL = "redis://h1,h2" }, "redis-url"},
		{"replicas", func(c *serveCommand) { c.Durability = "replicas:2" }, ""},
		{"fsync", func(c *serveCommand) { c.Durability = "fsync" }, ""},
		{"no replicas", func(c *serveCommand) { c.Durability = "replicas:0" }, "durability"},
		{"another durability", func(c *serveCommand) { c.Durability = "always" }, "durability"},
		{"no Postgres", func(c *serveCommand) { c.PostgresURL = "" }, "postgres-url"},
		{"Postgres of another kind", func(c *serveCommand) { c.PostgresURL = "mysql://h/d" }, "postgres-url"},
		{"Postgres in words", func(c *serveCommand) { c.PostgresURL = "host=h user=u" }, "postgres-url"},
		{"Postgres by a socket", func(c *serveCommand) { c.PostgresURL = "postgresql:///d?host=/run/postgresql" }, ""},
		{"no connections", func(c *serveCommand) { c.PostgresMaxConns = 0 }, "postgres-max-conns"},
		{"too many connections", func(c *serveCommand) { c.PostgresMaxConns = 1001 }, "postgres-max-conns"},
		{"no limit for buyers", func(c *serveCommand) { c.BuyerRate = 0 }, ""},
		{"a negative limit", func(c *serveCommand) { c.BuyerRate = -1 }, "buyer-rate"},
		{"no number as a limit", func(c *serveCommand) { c.BuyerRate = math.NaN() }, "buyer-rate"},
		{"no burst", func(c *serveCommand) { c.BuyerBurst = 0 }, "buyer-burst"},
		{"short retention", func(c *serveCommand) { c.Retention = time.Second }, "retention"},
		{"long retention", func(c *serveCommand) { c.Retention = 721 * time.Hour }, "retention"},
		{"negative drain delay", func(c *serveCommand) { c.DrainDelay = -1 }, "drain-delay"},
		{"no drain delay", func(c *serveCommand) { c.DrainDelay = 0 }, ""},
		{"guarded, on all interfaces", func(c *serveCommand) { c.GRPCAddr, c.AdminAddr, c.accessSettings = ":50051", ":50052", guardedBy("f") }, ""},
		{"encrypted, for anybody", func(c *serveCommand) { c.GRPCAddr, c.TLSCert, c.TLSKey = ":50051", "f", "f" }, "grpc-addr"},
		{"callers in plain text", func(c *serveCommand) { c.GRPCAddr, c.CallersFile = ":50051", "f" }, "grpc-addr"},
		{"callers in plain text, on this machine", func(c *serveCommand) { c.CallersFile = "f" }, ""},
		{"a certificate without a key", func(c *serveCommand) { c.TLSCert = "f" }, "tls-key"},
		{"a key without a certificate", func(c *serveCommand) { c.TLSKey = "f" }, "tls-cert"},
		{"certificates of nobody", func(c *serveCommand) { c.TLSCert, c.TLSKey, c.TLSClientCA = "f", "f", "f" }, "tls-client-ca"},
		{"keys from a file", func(c *serveCommand) { c.CallersFile, c.JWKS, c.JWTIssuer, c.JWTAudience = "f", "f", "i", "a" }, ""},
		{"keys from a URL", func(c *serveCommand) {
			c.CallersFile, c.JWKS, c.JWTIssuer, c.JWTAudience = "f", "https://h/k", "i", "a"
		}, ""},
		{"keys that anybody can change", func(c *serveCommand) { c.CallersFile, c.JWKS, c.JWTIssuer, c.JWTAudience = "f", "http://h/k", "i", "a" }, "jwks"},
		{"keys for nobody", func(c *serveCommand) { c.JWKS, c.JWTIssuer, c.JWTAudience = "f", "i", "a" }, "jwks"},
		{"any issuer", func(c *serveCommand) { c.CallersFile, c.JWKS, c.JWTAudience = "f", "f", "a" }, "jwt-issuer"},
		{"any audience", func(c *serveCommand) { c.CallersFile, c.JWKS, c.JWTIssuer = "f", "f", "i" }, "jwt-audience"},
		{"an audience of nothing", func(c *serveCommand) { c.JWTAudience = "a" }, "jwt-audience"},
		{"a Redis of an own authority", func(c *serveCommand) { c.RedisCA, c.RedisCert, c.RedisKey = "f", "f", "f" }, ""},
		{"half of a certificate for Redis", func(c *serveCommand) { c.RedisCert = "f" }, "redis-key"},
		{"an authority for plain text", func(c *serveCommand) { c.RedisURL, c.RedisCA = "redis://h", "f" }, "redis-ca"},
		{"a certificate for plain text", func(c *serveCommand) { c.RedisURL, c.RedisCert, c.RedisKey = "redis://h", "f", "f" }, "redis-cert"},
		{"no stop timeout", func(c *serveCommand) { c.StopTimeout = 0 }, "stop-timeout"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := validServe()
			test.change(&c)
			err := c.check()
			if test.named == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			if got := err.Error(); !strings.HasPrefix(got, "--"+test.named+" (HOLDFAST_") || strings.Contains(got, "\n") {
				t.Errorf("got %q, want --%s alone named", got, test.named)
			}
		})
	}
}

func TestAllProblemsAreNamed(t *testing.T) {
	err := (&serveCommand{}).check()
	for _, name := range []string{"grpc-addr", "http-addr", "redis-url", "postgres-url", "postgres-max-conns", "retention", "stop-timeout"} {
		if !strings.Contains(err.Error(), "--"+name+" ") {
			t.Errorf("--%s is not named in:\n%v", name, err)
		}
	}
}

func TestLogger(t *testing.T) {
	for _, test := range []struct{ format, level, want string }{
		{"json", "info", `"msg":"shown"`}, {"text", "info", "msg=shown"}, {"text", "error", ""},
	} {
		var out bytes.Buffer
		log := logSettings{Format: test.format, Level: test.level}.logger(&out)
		log.Debug("hidden")
		log.Warn("shown", slog.String("k", "v"))
		if got := out.String(); !strings.Contains(got, test.want) || strings.Contains(got, "hidden") || (test.want == "" && got != "") {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

// TestDurationsAreReadable: in both formats with their unit.
func TestDurationsAreReadable(t *testing.T) {
	for format, want := range map[string]string{"json": `"took":"22.5s"`, "text": "took=22.5s"} {
		var out bytes.Buffer
		log := logSettings{Format: format, Level: "info"}.logger(&out)
		log.Info("adopted", slog.Duration("took", 22500*time.Millisecond))
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s, want %s", format, out.String(), want)
		}
	}
}
