package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/result"
)

const startLimit = 3 * time.Minute // to build holdfast, and to start it on a busy machine

// waiter gathers what a process writes, until an address comes.
type waiter struct {
	mu    sync.Mutex
	text  bytes.Buffer
	found chan string
}

func (w *waiter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if _, rest, ok := strings.Cut(w.text.String(), " grpc="); ok {
		if address, _, whole := strings.Cut(rest, " "); whole {
			select {
			case w.found <- address:
			default:
			}
		}
	}
	return len(p), nil
}

func (w *waiter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// buildHoldfast returns where the program is.
func buildHoldfast(ctx context.Context, t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "holdfast")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "../holdfast").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

// startHoldfast builds holdfast, starts it on private stores, and returns its address.
func startHoldfast(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	server := exec.CommandContext(context.WithoutCancel(ctx), buildHoldfast(ctx, t), "dev", "--ephemeral", "--grpc-addr=127.0.0.1:0", "--http-addr=127.0.0.1:0")
	log := &waiter{found: make(chan string, 1)}
	server.Stderr = log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = server.Wait() // how it ends is in what it writes
		close(ended)
	}()
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = server.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("holdfast wrote:\n%s", log)
		}
	})
	select {
	case address := <-log.found:
		return address
	case <-ended:
		t.Fatal("holdfast has ended")
	case <-ctx.Done():
		t.Fatal("holdfast has not started")
	}
	return ""
}

// contextFor ends well before the test must.
func contextFor(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), 500*time.Millisecond)
}

// launch runs the program, and returns what it wrote.
func launch(t *testing.T, args ...string) string {
	t.Helper()
	var out, errOut strings.Builder
	if code := run(t.Context(), args, &out, &errOut); code != exitOK {
		t.Fatalf("%v: exit code %d\n%s\n%s", args, code, out.String(), errOut.String())
	}
	return out.String()
}

// TestEndToEnd plays each preset with a small load on a real server.
func TestEndToEnd(t *testing.T) {
	address := startHoldfast(t)
	t.Setenv(asLaunch, "1")
	t.Run("onsale", func(t *testing.T) { testOnsale(t, address) })
	t.Run("second round", func(t *testing.T) {
		out := launch(t, "second-round", "--addr="+address, "--requests=1000", "--duration=2500ms", "--capacity=50", "--window=10s", "--completion=0.3")
		mustSay(t, out, "launch second-round", "refused, 0 of them while enough was free")
	})
	t.Run("steady", func(t *testing.T) {
		out := launch(t, "steady", "--addr="+address, "--requests=300", "--duration=1s", "--capacity=1000", "--window=10s", "--no-lapses")
		mustSay(t, out, "launch steady", "R6  conservation")
	})
	for _, kind := range []string{"refusals", "holds"} {
		t.Run("closed "+kind, func(t *testing.T) {
			out := launch(t, "closed", "--addr="+address, "--in-flight=8", "--kind="+kind, "--duration=200ms", "--warm-up=100ms", "--rounds=1")
			mustSay(t, out, "holdfast", "no-op", "of the no-op's")
		})
	}
	t.Run("closed with several allotments", func(t *testing.T) {
		out := launch(t, "closed", "--addr="+address, "--allotments=3", "--in-flight=8", "--duration=200ms", "--warm-up=100ms", "--rounds=1")
		mustSay(t, out, "the first alone", "of the first's alone")
	})
	t.Run("closed with several servers", func(t *testing.T) { testSeveralServers(t, address) })
}

// testSeveralServers takes a server by two names for two.
func testSeveralServers(t *testing.T, address string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "closed.json")
	other := strings.Replace(address, "127.0.0.1", "localhost", 1)
	var out, errOut strings.Builder
	args := []string{"closed", "--addr=" + address + "," + other, "--in-flight=8", "--duration=200ms", "--warm-up=100ms", "--rounds=2", "--json=" + file}
	// On a machine that is too busy, answers are others than refusals. They are counted, too.
	if code := run(t.Context(), args, &out, &errOut); code != exitOK && !strings.Contains(errOut.String(), "answers were others") {
		t.Fatalf("exit code %d\n%s\n%s", code, &out, &errOut)
	}
	mustSay(t, out.String(), "the first alone", "of the first's alone", other+": ")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r result.Closed
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Holdfast) != 2 || len(r.First) != 2 || len(r.Noop) != 2 || r.Fairness == nil || r.Several == nil {
		t.Fatalf("%+v", r)
	}
	for _, round := range r.Holdfast {
		if round.From[address]+round.From[other] != round.Answers {
			t.Errorf("of %d answers: %v", round.Answers, round.From)
		}
	}
}

func testOnsale(t *testing.T, address string) {
	t.Helper()
	file, page := filepath.Join(t.TempDir(), "run.json"), filepath.Join(t.TempDir(), "run.html")
	out := launch(t, "--addr="+address+","+address, "--requests=2000", "--duration=1s", "--capacity=50", "--window=10s", "--noop",
		"--repeat=0.1", "--json="+file, "--report="+page)
	mustSay(t, out, "launch onsale", "hold granted", "no-op", "oversold 0; ", " refused, 0 of them while enough was free")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r result.Result
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	// How many were in trouble depends on the machine; that everything adds up does not.
	var holds int64
	for _, o := range r.Outcomes {
		if o.Call == "hold" {
			holds += o.Calls
		}
	}
	if r.Rates.Requests != 2000 || holds < 2000 || r.Decisions.Count == 0 || r.Noop == nil || r.Noop.Decisions.Count < 2000 {
		t.Errorf("%d requests, %d answers, %d decisions, no-op %+v", r.Rates.Requests, holds, r.Decisions.Count, r.Noop)
	}
	if r.End == nil || r.End.Held != 0 || r.End.Available+r.End.Sold != 50 || r.Verdict.Peak > 50 || len(r.Series.Stocks) == 0 {
		t.Errorf("in the end %+v, peak %d, %d readings", r.End, r.Verdict.Peak, len(r.Series.Stocks))
	}
	// Whether buyers were served as R7 says depends on the machine, too.
	if html, err := os.ReadFile(page); err != nil || !bytes.Contains(html, []byte(r.Headline())) || !r.Verdict.Kept() {
		t.Errorf("report: %v, no %q in it", err, r.Headline())
	}
	mustSay(t, launch(t, "window", "--from="+file), "%")
}

func mustSay(t *testing.T, out string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}
