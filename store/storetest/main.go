// Package storetest gives tests a real Redis and a real Postgres.
//
// The servers are private to the test binary, started when a test first asks and shared by its tests, which
// may all run in parallel: each works on allotments and a database of its own, and nothing is ever
// flushed. A test that kills, pauses or configures a server starts one for itself with NewRedis or NewPostgres. Where
// the server programs are missing a test fails, and says how to install them.
//
// A package that uses it has:
//
//	func TestMain(m *testing.M) { storetest.Main(m) }
package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-inventory/holdfast/store/local"
)

const (
	startTimeout = 90 * time.Second
	stopTimeout  = 30 * time.Second
)

// shared is the state of the test binary. Tests reach its servers through functions that take only their
// *testing.T, so it cannot be handed to them.
var shared suite

type suite struct {
	mu       sync.Mutex
	running  bool // between the start and the end of Run
	redis    *local.Redis
	postgres *local.Postgres
	template map[uintptr]*template // by migrate function
}

// Main is TestMain's body: it runs the tests, stops the shared servers and exits.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for packages whose TestMain has more to do: it returns the exit code. A server that does not stop turns
// success into failure.
func Run(m *testing.M) int {
	logging.Disable() // tests that stop a Redis would bury what they say under thousands of lines of the client library
	shared.mu.Lock()
	shared.running = true
	shared.mu.Unlock()
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "storetest:", err)
		code = max(code, 1)
	}
	return code
}

func (s *suite) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var errs []error
	if s.redis != nil {
		errs = append(errs, s.redis.Close(ctx))
	}
	if s.postgres != nil {
		errs = append(errs, s.postgres.Close(ctx))
	}
	return errors.Join(errs...)
}
