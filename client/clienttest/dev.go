package clienttest

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-inventory/holdfast/client"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

const (
	command        = "github.com/holdfast-inventory/holdfast/cmd/holdfast"
	binaryVariable = "CLIENTTEST_HOLDFAST" // not HOLDFAST_...: those are holdfast's own

	// repeats is for operators' calls, all of which are safe to repeat: a busy machine does not decide in time.
	repeats = `{"methodConfig":[{"name":[{"service":"holdfast.v1.AdminService"}],"waitForReady":true,"retryPolicy":{"maxAttempts":5,
		"initialBackoff":"0.1s","maxBackoff":"1s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE","RESOURCE_EXHAUSTED"]}}]}`
)

// keeper is a shell that runs a program until its standard input ends, which it does with this process, however that is.
const keeper = `trap "" INT; "$@" & exec >/dev/null; read -r _; kill $!; wait $!`

// Server is a running holdfast dev. It has the allotment demo, of 5 units.
type Server struct {
	// Addr is where it takes calls.
	Addr string
	// Admin is for operators' calls, such as CreateAllotment.
	Admin pb.AdminServiceClient
}

// Dev starts `holdfast dev --ephemeral` for this test, on free ports and on a Redis and a Postgres of its own, which must be installed, and stops
// it at the test's end. It takes some seconds: let subtests share one, each with an allotment of its own.
//
// Where CLIENTTEST_HOLDFAST names a holdfast program, that one is started. Else it is built from the version of Holdfast that the go.mod of
// the test requires, which needs what `go get -tool github.com/holdfast-inventory/holdfast/cmd/holdfast` adds to go.mod: some sixty lines,
// since the server needs more modules than its clients. The first build takes a minute.
func Dev(t testing.TB) *Server {
	t.Helper()
	addr := start(t, binary(t))
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(repeats))
	if err != nil {
		t.Fatalf("clienttest: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it is open
	return &Server{Addr: addr, Admin: pb.NewAdminServiceClient(conn)}
}

// Create makes an allotment of so many units, with the default rules.
func (s *Server) Create(t testing.TB, allotment string, capacity int64) {
	t.Helper()
	request := &pb.CreateAllotmentRequest{Allotment: &pb.Allotment{Id: allotment, Capacity: capacity}}
	if _, err := s.Admin.CreateAllotment(t.Context(), request); err != nil {
		t.Fatalf("clienttest: create allotment %s: %v", allotment, err)
	}
}

// Client makes a client of it, which is closed at the test's end.
func (s *Server) Client(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.Dial(s.Addr, client.Options{})
	if err != nil {
		t.Fatalf("clienttest: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it is open
	return c
}

// binary is where the program is.
func binary(t testing.TB) string {
	t.Helper()
	if named := os.Getenv(binaryVariable); named != "" {
		return named
	}
	path := filepath.Join(t.TempDir(), "holdfast")
	t.Logf("clienttest: building holdfast, since %s names none; the first time takes a minute", binaryVariable)
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, command)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("clienttest: build holdfast: %v\n%s\nname one with %s; or make it a part of this module: `go get -tool %s`",
			err, output, binaryVariable, command)
	}
	return path
}

// start starts it, and returns its address when it takes calls.
func start(t testing.TB, path string) string {
	t.Helper()
	var log bytes.Buffer
	shell := exec.CommandContext(context.WithoutCancel(t.Context()), "/bin/sh", "-c", keeper, "sh",
		path, "dev", "--ephemeral", "--grpc-addr=127.0.0.1:0", "--http-addr=127.0.0.1:0")
	shell.Stderr, shell.Dir = &log, t.TempDir()
	shell.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "HOLDFAST_") }) // the caller's settings
	alive, err := shell.StdinPipe()
	if err != nil {
		t.Fatalf("clienttest: %v", err)
	}
	tour, err := shell.StdoutPipe()
	if err != nil {
		t.Fatalf("clienttest: %v", err)
	}
	if err := shell.Start(); err != nil {
		t.Fatalf("clienttest: start holdfast: %v", err)
	}
	read := make(chan struct{}) // all that it prints: it may not be waited for before
	t.Cleanup(func() {
		_ = alive.Close() // asks it to end
		<-read
		_ = shell.Wait() // "terminated", as meant
		if t.Failed() {
			t.Logf("holdfast dev wrote:\n%s", log.String())
		}
	})
	serves := make(chan string, 1)
	go func() {
		defer close(read)
		serves <- addressIn(tour)
		_, _ = io.Copy(io.Discard, tour) // until it ends
	}()
	select {
	case addr := <-serves:
		if addr == "" {
			t.Fatal("clienttest: holdfast dev ended before it took calls")
		}
		return addr
	case <-t.Context().Done():
		t.Fatal("clienttest: the test ended before holdfast dev took calls")
	}
	return ""
}

// addressIn waits for the line with the address. Empty: there was none.
func addressIn(tour io.Reader) string {
	line := regexp.MustCompile(`^Holdfast serves on (\S+)\. `)
	lines := bufio.NewScanner(tour)
	for lines.Scan() {
		if found := line.FindStringSubmatch(lines.Text()); found != nil {
			return found[1]
		}
	}
	return ""
}
