package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// asHoldfast makes the test's own program run as holdfast: it is what is built.
const asHoldfast = "TEST_RUNS_AS_HOLDFAST"

func TestMain(m *testing.M) {
	if os.Getenv(asHoldfast) != "" {
		main()
	}
	os.Exit(m.Run())
}

// process is holdfast running as a process of its own.
type process struct {
	*exec.Cmd
	ended chan struct{}
	out   *lines
	err   *lines
}

// lines gathers what a process writes.
type lines struct{ storetest.Log }

// all returns what follows key in each line that has it, up to the next space.
func (l *lines) all(key string) []string {
	var found []string
	for scan := bufio.NewScanner(strings.NewReader(l.String())); scan.Scan(); {
		if _, rest, ok := strings.Cut(scan.Text(), key); ok {
			value, _, _ := strings.Cut(rest, " ")
			found = append(found, value)
		}
	}
	return found
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startWith(t, nil, args...)
}

// startWith starts holdfast with something more in its environment.
func startWith(t *testing.T, environment []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.CommandContext(context.WithoutCancel(t.Context()), self, args...), ended: make(chan struct{}), out: &lines{}, err: &lines{}}
	p.Env = append(append(os.Environ(), asHoldfast+"=1"), environment...)
	p.Stdout, p.Stderr, p.Dir = p.out, p.err, t.TempDir()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait() // the exit code is looked at
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("holdfast %s wrote:\n%s\n%s", strings.Join(args, " "), p.out, p.err)
		}
	})
	return p
}

// exit waits for the end and returns the exit code.
func (p *process) exit(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("did not end within %v", within)
		return -1
	}
}

// until waits for a condition.
func until(t *testing.T, within time.Duration, what string, condition func() bool) {
	t.Helper()
	storetest.Eventually(t, within, func() error {
		if !condition() {
			return errors.New("no " + what)
		}
		return nil
	})
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
