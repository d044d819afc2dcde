package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	readyPatience = time.Minute
	stopPatience  = 30 * time.Second
)

// Stores are what a server works on.
type Stores struct{ PostgresURL, RedisURL string }

// Settings are those that differ from what ships.
type Settings struct{ Flags, Environment []string }

// Server is a Holdfast server that we started.
type Server struct {
	*Child

	log *serverLog
}

// Serve brings the tables up and starts the server, and returns when it is ready. path is where the program is; empty:
// beside ours, or in PATH.
func Serve(ctx context.Context, path string, stores Stores, settings Settings) (_ *Server, err error) {
	if path, err = findHoldfast(path); err != nil {
		return nil, err
	}
	environment := append(withoutSettings(os.Environ()),
		"HOLDFAST_POSTGRES_URL="+stores.PostgresURL, "HOLDFAST_REDIS_URL="+stores.RedisURL) // not for all to see in ps
	environment = append(environment, settings.Environment...)
	migrate := exec.CommandContext(ctx, path, "migrate")
	migrate.Env = environment
	if output, err := migrate.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("holdfast migrate: %w\n%s", err, output)
	}
	s := &Server{log: newServerLog()}
	cmd := exec.Command(path, append([]string{
		"serve", "--grpc-addr=127.0.0.1:0", "--http-addr=127.0.0.1:0", "--drain-delay=0s", "--log-format=json",
	}, settings.Flags...)...)
	cmd.Env, cmd.Stderr = environment, s.log
	if s.Child, err = Start(cmd); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop(stopPatience))
		}
	}()
	select {
	case <-s.log.ready:
		return s, nil
	case <-s.ended:
		return nil, fmt.Errorf("holdfast did not start:\n%s", s.Tail())
	case <-time.After(readyPatience):
		return nil, fmt.Errorf("holdfast was not ready within %v:\n%s", readyPatience, s.Tail())
	case <-ctx.Done():
		return nil, fmt.Errorf("holdfast was not ready: %w:\n%s", ctx.Err(), s.Tail())
	}
}

// Addr is where it answers gRPC.
func (s *Server) Addr() string { return s.log.grpc }

// HTTPAddr is where it shows its metrics.
func (s *Server) HTTPAddr() string { return s.log.http }

// Tail is the last lines that it logged.
func (s *Server) Tail() string { return s.log.tail() }

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
