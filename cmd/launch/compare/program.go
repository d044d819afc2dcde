package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const readyPatience = time.Minute

// program is a Holdfast server that we started on the stores of the other ways, with the settings that ship.
type program struct {
	*child
	addr string // of gRPC
	log  *serverLog
}

// startProgram brings the tables up and starts the server, and returns when it is ready.
func startProgram(ctx context.Context, e *env) (_ *program, err error) {
	path, err := findHoldfast(e.settings.Holdfast)
	if err != nil {
		return nil, err
	}
	environment := append(withoutSettings(os.Environ()),
		"HOLDFAST_POSTGRES_URL="+e.stores.postgresURL, "HOLDFAST_REDIS_URL="+e.stores.redisURL) // not for all to see in ps
	migrate := exec.CommandContext(ctx, path, "migrate")
	migrate.Env = environment
	if output, err := migrate.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("holdfast migrate: %w\n%s", err, output)
	}
	p := &program{log: newServerLog()}
	cmd := exec.Command(path, "serve", "--grpc-addr=127.0.0.1:0", "--http-addr=127.0.0.1:0", "--drain-delay=0s", "--log-format=json")
	cmd.Env, cmd.Stderr = environment, p.log
	if p.child, err = startChild(cmd); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop(stopPatience))
		}
	}()
	select {
	case <-p.log.ready:
		p.addr = p.log.addr
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("holdfast did not start:\n%s", p.log.tail())
	case <-time.After(readyPatience):
		return nil, fmt.Errorf("holdfast was not ready within %v:\n%s", readyPatience, p.log.tail())
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// withoutSettings leaves out the caller's settings of Holdfast: what is measured is what ships.
func withoutSettings(environment []string) []string {
	var kept []string
	for _, entry := range environment {
		if !strings.HasPrefix(entry, "HOLDFAST_") {
			kept = append(kept, entry)
		}
	}
	return kept
}

// findHoldfast returns where the program is.
func findHoldfast(named string) (string, error) {
	if named != "" {
		return exec.LookPath(named)
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "holdfast")); err == nil {
			return path, nil
		}
	}
	if path, err := exec.LookPath("holdfast"); err == nil {
		return path, nil
	}
	return "", errors.New("there is no holdfast beside launch nor in PATH: `make build` makes one; or name it with --holdfast, " +
		"or a server that runs with --addr, or leave it out with --ways")
}

// serverLog waits for the lines of the start, and keeps the last ones for whoever asks what went wrong.
type serverLog struct {
	ready chan struct{} // closed when it takes calls; addr is set then

	mu    sync.Mutex
	addr  string
	isUp  bool   // said so
	rest  []byte // of a line
	lines []string
}

const keptLines = 20

func newServerLog() *serverLog { return &serverLog{ready: make(chan struct{})} }

func (l *serverLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, text...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		l.take(line)
		l.rest = rest
	}
}

func (l *serverLog) take(line []byte) {
	l.lines = append(l.lines, string(line))
	l.lines = l.lines[max(0, len(l.lines)-keptLines):]
	var entry struct{ Msg, GRPC string }
	if json.Unmarshal(line, &entry) != nil || (l.isUp && l.addr != "") {
		return // not every line need be an entry
	}
	switch entry.Msg { // in any order
	case "serving":
		l.addr = entry.GRPC
	case "ready":
		l.isUp = true
	}
	if l.isUp && l.addr != "" {
		close(l.ready)
	}
}

func (l *serverLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
