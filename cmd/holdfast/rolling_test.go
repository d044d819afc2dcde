package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // clients watch the health of servers, if they are told to
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/holdfast-inventory/holdfast/client"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// newcomers are callers who come to a server when it has begun to stop.
const newcomers = 5

// TestRollingRestart replaces three servers under an open loop of 2,000 requests a second, as the chart's Deployment does: a new
// one is ready before an old one is told to stop, with the chart's times to drain and to stop, and the old one stays on the list of
// addresses for some time. Callers balance by themselves, with the service config that is for them; half of them also watch health,
// the others learn that a server stops from its connection. Every request is decided, and nothing is cut off: what gRPC repeats
// by itself no server had begun, and whoever comes to a server that is still on the list is served.
func TestRollingRestart(t *testing.T) {
	r := newRollout(t)
	r.offer(t)
	crowd := newCrowd(r.dial(t, client.ServiceConfig), r.dial(t, strings.Replace(client.ServiceConfig, "{", `{
		"healthCheckConfig": {"serviceName": "holdfast.v1.InventoryService"},`, 1)))
	crowd.arrive(t.Context())
	for _, old := range slices.Clone(r.servers) {
		r.replace(t, old)
	}
	crowd.leave()
	crowd.judge(t)
}

// rollout is a cluster whose servers are replaced, and the list of their addresses.
type rollout struct {
	*cluster
	drain, stop time.Duration

	mu   sync.Mutex
	list []string
}

func newRollout(t *testing.T) *rollout {
	t.Helper()
	r := &rollout{cluster: startCluster(t, 0), drain: chartSeconds(t, "drainDelaySeconds"), stop: chartSeconds(t, "stopTimeoutSeconds")}
	for range 3 {
		r.start(t)
	}
	return r
}

// chartSeconds is a default value of the chart.
func chartSeconds(t *testing.T, name string) time.Duration {
	t.Helper()
	text, err := os.ReadFile("../../deploy/chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + name + `: ([0-9]+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("the chart has no %s", name)
	}
	seconds, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(seconds) * time.Second
}

// start starts a server and puts it on the list.
func (r *rollout) start(t *testing.T) {
	t.Helper()
	p := r.add(t, "HOLDFAST_DRAIN_DELAY="+r.drain.String(), "HOLDFAST_STOP_TIMEOUT="+r.stop.String())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, p.grpcAddr())
}

// replace starts another server, and stops the old one. Kubernetes takes that off the list meanwhile, at a time of its own.
func (r *rollout) replace(t *testing.T, old *process) {
	t.Helper()
	r.start(t)
	told := time.Now()
	if err := old.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, 30*time.Second, "stopping", func() bool { return strings.Contains(old.err.String(), "msg=stopping") })
	for range newcomers {
		if err := come(t, old); err != nil && time.Since(told) < r.drain { // later, this machine was too slow to find out
			t.Errorf("a newcomer to a server that had begun to stop: %v", err)
		}
	}
	r.mu.Lock()
	r.list = slices.DeleteFunc(r.list, func(addr string) bool { return addr == old.grpcAddr() })
	r.mu.Unlock()
	if code := old.exit(t, r.drain+r.stop+15*time.Second); code != exitOK { // the chart's grace
		t.Errorf("a server that was told to stop ended with %d", code)
	}
}

// come connects to a server and asks it something. An error: the server did not answer.
func come(t *testing.T, server *process) error {
	t.Helper()
	conn, err := grpc.NewClient(server.grpcAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = pb.NewInventoryServiceClient(conn).GetAvailability(t.Context(), &pb.GetAvailabilityRequest{AllotmentId: "scarce"})
	if reason, _ := reasonOf(err); reason != "" {
		return nil
	}
	return err
}

// dial makes a client that has the list as if by DNS: at first, and when a connection has ended.
func (r *rollout) dial(t *testing.T, config string) *caller {
	t.Helper()
	addresses := manual.NewBuilderWithScheme("list")
	addresses.InitialState(r.addresses())
	addresses.ResolveNowCallback = func(resolver.ResolveNowOptions) { addresses.UpdateState(r.addresses()) }
	c := &caller{}
	conn, err := grpc.NewClient("list:///holdfast", grpc.WithResolvers(addresses), grpc.WithStatsHandler(c),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c.InventoryServiceClient = pb.NewInventoryServiceClient(conn)
	return c
}

func (r *rollout) addresses() resolver.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	var state resolver.State
	for _, addr := range r.list {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: addr})
	}
	return state
}

// grpcAddr is where a server says that gRPC listens.
func (p *process) grpcAddr() string { return p.err.all("grpc=")[0] }
