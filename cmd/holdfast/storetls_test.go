package main

import (
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store/ledger"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestTLSToStores: a Redis and a Postgres that ask for a client certificate get one, their own are checked, and a server without
// the authority that signed them reaches neither. Traces of both name no buyer.
func TestTLSToStores(t *testing.T) {
	forget(t)
	g := newGuarded(t, storetest.StateDir(t))
	g.forServers(t)
	redisPort := freePort(t)
	storetest.NewRedis(t, local.RedisOptions{ExtraArgs: []string{
		"--tls-port", redisPort, "--tls-auth-clients", "yes",
		"--tls-cert-file", g.path("server.crt"), "--tls-key-file", g.path("server.key"), "--tls-ca-cert-file", g.path("ca.crt"),
	}})
	postgres := storetest.NewPostgres(t, local.PostgresOptions{ExtraArgs: []string{
		"-c", "ssl=on", "-c", "ssl_cert_file=" + g.path("server.crt"), "-c", "ssl_key_file=" + g.path("postgres.key"), "-c", "ssl_ca_file=" + g.path("ca.crt"),
	}})
	if err := postgres.CreateDatabase(t.Context(), "holdfast"); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Migrate(t.Context(), postgres.URL("holdfast")); err != nil {
		t.Fatal(err)
	}
	tlsURL := strings.Replace(postgres.URL("holdfast"), "sslmode=disable", "sslmode=verify-full", 1)
	redisURL := "--redis-url=rediss://127.0.0.1:" + redisPort + "/0"
	t.Setenv("OTEL_TRACES_EXPORTER", "console")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	serve := func(more ...string) *process {
		return start(t, append([]string{
			"serve", "--grpc-addr=127.0.0.1:0", "--http-addr=127.0.0.1:0", "--log-format=text", "--drain-delay=0s", redisURL,
		}, more...)...)
	}

	known := serve("--redis-ca="+g.path("ca.crt"), "--redis-cert="+g.path("shop.crt"), "--redis-key="+g.path("shop.key"),
		"--postgres-url="+tlsURL+"&sslrootcert="+g.path("ca.crt")+"&sslcert="+g.path("shop.crt")+"&sslkey="+g.path("shop.key"))
	until(t, time.Minute, "readiness", func() bool { return strings.Contains(known.err.String(), "msg=ready") })
	conn := connect(t, known)
	_, err := pb.NewAdminServiceClient(conn).CreateAllotment(t.Context(), &pb.CreateAllotmentRequest{Allotment: &pb.Allotment{Id: "concert", Capacity: 1}})
	if err != nil {
		t.Fatal(err)
	}
	hold, err := pb.NewInventoryServiceClient(conn).CreateHold(t.Context(), &pb.CreateHoldRequest{
		AllotmentId: "concert", BuyerId: "marker-of-a-buyer", RequestId: "r", Quantity: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pb.NewInventoryServiceClient(conn).ConfirmHold(t.Context(), &pb.ConfirmHoldRequest{HoldId: hold.GetHold().GetId(), OrderId: "o"}); err != nil {
		t.Fatal(err)
	}
	if _, err := pb.NewAdminServiceClient(conn).ListSales(t.Context(), &pb.ListSalesRequest{BuyerId: "marker-of-a-buyer"}); err != nil {
		t.Fatal(err)
	}
	// The spans of both stores and of the calls.
	for _, span := range []string{"evalsha", "INSERT", "AdminService/ListSales"} {
		until(t, time.Minute, "span "+span, func() bool { return strings.Contains(known.out.String(), span) })
	}
	if text := known.err.String() + known.out.String(); strings.Contains(text, "marker") {
		t.Errorf("a buyer's id is in log or traces:\n%s", text)
	}
	if shown := certificatesShown(t, postgres); shown == 0 {
		t.Error("Postgres was shown no certificate")
	}

	stranger := serve("--postgres-url=" + tlsURL)
	until(t, time.Minute, "both stores down", func() bool { return strings.Count(stranger.err.String(), "store is down") == 2 })
	if text := stranger.err.String(); !strings.Contains(text, "unknown authority") || strings.Contains(text, "msg=ready") {
		t.Errorf("a server that does not know the authority:\n%s", text)
	}
}

// forServers lets the servers, which are not run as root, read what is theirs. Postgres wants its key for itself.
func (g *guarded) forServers(t *testing.T) {
	t.Helper()
	key, err := os.ReadFile(g.path("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.path("postgres.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.crt", "server.crt", "server.key"} {
		if err := os.Chmod(g.path(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() != 0 {
		return
	}
	owner, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.Atoi(owner.Uid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(g.path("postgres.key"), uid, -1); err != nil {
		t.Fatal(err)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// certificatesShown counts Postgres's encrypted connections whose clients showed theirs.
func certificatesShown(t *testing.T, p *local.Postgres) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.URL("holdfast"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_ssl WHERE ssl AND client_dn = '/CN=shop'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
