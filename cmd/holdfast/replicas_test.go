package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-inventory/holdfast/store/ledger"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// cluster is several holdfast processes on one private Redis and one private Postgres.
type cluster struct {
	redisURL, postgresURL string
	servers               []*process
	conns                 []*grpc.ClientConn
}

func startCluster(t *testing.T, n int) *cluster {
	t.Helper()
	forget(t)
	c := &cluster{redisURL: storetest.NewRedis(t, local.RedisOptions{}).URL()}
	postgres := storetest.NewPostgres(t, local.PostgresOptions{})
	if err := postgres.CreateDatabase(t.Context(), "holdfast"); err != nil {
		t.Fatal(err)
	}
	c.postgresURL = postgres.URL("holdfast")
	if err := ledger.Migrate(t.Context(), c.postgresURL); err != nil {
		t.Fatal(err)
	}
	for range n {
		c.add(t)
	}
	return c
}

// add starts one more server, with settings in its environment, and waits until it is ready.
func (c *cluster) add(t *testing.T, environment ...string) *process {
	t.Helper()
	p := c.addDoomed(t, environment...)
	until(t, 60*time.Second, "readiness", func() bool { return strings.Contains(p.err.String(), "msg=ready") })
	c.servers = append(c.servers, p)
	c.conns = append(c.conns, connect(t, p))
	return p
}

// addDoomed starts one more server, which may end at any moment. It does not drain unless the environment says so.
func (c *cluster) addDoomed(t *testing.T, environment ...string) *process {
	t.Helper()
	return startWith(t, append([]string{"HOLDFAST_DRAIN_DELAY=0s"}, environment...), "serve", "--grpc-addr=127.0.0.1:0",
		"--http-addr=127.0.0.1:0", "--log-format=text", "--redis-url="+c.redisURL, "--postgres-url="+c.postgresURL)
}
