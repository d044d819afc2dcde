package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// buildHoldfast builds the program as it is now.
func buildHoldfast(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "holdfast")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/holdfast-inventory/holdfast/cmd/holdfast")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	return path
}

// runCompare runs the command and returns what it wrote.
func runCompare(t *testing.T, args ...string) (*report, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "out.json")
	c, err := parse(t, append(args, "--json="+file)...)
	if err != nil {
		t.Fatal(err)
	}
	var out, progress bytes.Buffer
	if err := c.Run(t.Context(), &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := &report{}
	if err := json.Unmarshal(text, r); err != nil {
		t.Fatal(err)
	}
	return r, out.String()
}

// TestAllWays plays a small demand through every way, on private stores.
func TestAllWays(t *testing.T) {
	t.Parallel()
	const capacity, requests = 100, 2000
	r, table := runCompare(t, "--capacity=100", "--requests=2000", "--workers=16", "--conns=8", "--holdfast="+buildHoldfast(t))
	if len(r.Rows) != len(ways()) {
		t.Fatalf("%d ways, want %d:\n%s", len(r.Rows), len(ways()), table)
	}
	for i, w := range ways() {
		row := r.Rows[i]
		if row.Way != w.name || !strings.Contains(table, w.title) {
			t.Errorf("row %d is %s, want %s, in\n%s", i, row.Way, w.name, table)
		}
		if row.Decisions != requests || row.Refused > requests || row.Oversold != max(0, row.Sold-capacity) || row.ValidRefusals > row.Refused {
			t.Errorf("%s: it does not add up: %+v", w.name, row)
		}
		if (row.CPU != nil && *row.CPU <= 0) || row.Rate <= 0 || row.P99 < row.P50 || row.Relative == nil {
			t.Errorf("%s: a figure is missing: %+v", w.name, row)
		}
		if row.CPU == nil && (w.name == baseline || w.name == usesHoldfast) { // no machine makes 2,000 of these in 0.1 s
			t.Errorf("%s: its CPU is not known", w.name)
		}
		if w.neverOversells && row.Oversold != 0 {
			t.Errorf("%s oversold by %d", w.name, row.Oversold)
		}
		// There is demand for all of it, so that only wrong refusals can leave any.
		if w.name != "optimistic" && (row.Sold < capacity || row.ValidRefusals != 0) {
			t.Errorf("%s: sold %d of %d, refused %d valid requests", w.name, row.Sold, capacity, row.ValidRefusals)
		}
	}
	if note := r.Rows[len(r.Rows)-1].Note; !strings.Contains(note, "confirmed") {
		t.Errorf("note on Holdfast: %q", note)
	}
}

// TestGivenStoresAreLeftClean: on servers that were named nothing is left but what was there.
func TestGivenStoresAreLeftClean(t *testing.T) {
	t.Parallel()
	admin := storetest.Postgres(t).URL("postgres")
	server := storetest.NewRedis(t, local.RedisOptions{}) // others leave such keys in the shared one
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	const theirs = "hf:{launch-compare-of-somebody-else}:c"
	if err := client.Set(t.Context(), theirs, 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	r, table := runCompare(t, "--ways=holdfast,conditional,redis", "--capacity=50", "--requests=100", "--workers=8",
		"--postgres-url="+admin, "--redis-url="+server.URL(), "--holdfast="+buildHoldfast(t))
	for _, row := range r.Rows {
		if row.Sold != 50 || row.CPU != nil || row.Relative != nil {
			t.Errorf("%s: %+v in\n%s", row.Way, row, table)
		}
	}
	if left := databases(t, admin); slices.ContainsFunc(left, func(name string) bool { return strings.HasPrefix(name, "launch_compare_") }) {
		t.Errorf("databases are left: %s", left)
	}
	left, err := client.Keys(t.Context(), "*launch-compare-*").Result()
	if err != nil || len(left) != 1 || left[0] != theirs {
		t.Errorf("keys are left: %q, %v", left, err)
	}
}

func databases(t *testing.T, url string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	rows, err := conn.Query(t.Context(), "SELECT datname FROM pg_database")
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestServerThatRunsAlready: with --addr no store is started, and the allotments that were made are closed.
func TestServerThatRunsAlready(t *testing.T) {
	t.Parallel()
	e := testEnv(t, 4)
	e.settings.Holdfast = buildHoldfast(t)
	server, err := serve(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(stopPatience); err != nil {
			t.Errorf("stop: %v", err)
		}
	}()
	r, table := runCompare(t, "--ways=holdfast", "--capacity=50", "--requests=100", "--workers=8", "--addr="+server.Addr())
	if row := r.Rows[0]; row.Sold != 50 || row.ValidRefusals != 0 || row.CPU != nil {
		t.Errorf("%+v in\n%s", row, table)
	}
	conn, err := grpc.NewClient(server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	made, err := pb.NewAdminServiceClient(conn).ListAllotments(t.Context(), &pb.ListAllotmentsRequest{})
	if err != nil || len(made.GetAllotments()) != 2 {
		t.Fatalf("allotments %v, %v, want two", made, err)
	}
	for _, a := range made.GetAllotments() {
		if a.GetState() != pb.AllotmentState_ALLOTMENT_STATE_CLOSED {
			t.Errorf("%s is %s", a.GetId(), a.GetState())
		}
	}
}

func TestHoldfastMustBeThere(t *testing.T) {
	t.Parallel()
	e := testEnv(t, 1)
	e.settings.Holdfast = filepath.Join(t.TempDir(), "nothing")
	if _, err := openHoldfast(t.Context(), e); err == nil {
		t.Error("there is none, and it was started")
	}
	e.settings.Holdfast = "/bin/false"
	if _, err := openHoldfast(t.Context(), e); err == nil || !strings.Contains(err.Error(), "migrate") {
		t.Errorf("a program that fails: %v", err)
	}
}
