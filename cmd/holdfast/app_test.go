package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/holdfast-inventory/holdfast/server"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/ledger"
)

// noCases are use cases that nobody calls here.
type noCases struct {
	server.Checkouts
	server.Operators
}

// scripted is a backend that does as it is told, and notes what is done to it.
type scripted struct {
	mu     sync.Mutex
	schema error
	bad    []string
	redis  error // that its settings can't be asked for
	done   []string
}

func (s *scripted) set(change func(*scripted)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *scripted) note(what string) {
	s.set(func(s *scripted) { s.done = append(s.done, what) })
}

func (s *scripted) open(context.Context, instruments) (*backend, error) {
	return &backend{
		checkouts: noCases{}, operators: noCases{},
		schema: func(context.Context) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.schema
		},
		settings: func(context.Context) (bad, weak []string, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.bad, []string{"appendonly is no"}, s.redis
		},
		pings: map[string]func(context.Context) error{"redis": func(context.Context) error { return store.ErrUnavailable }},
		loops: func(ctx context.Context) {
			<-ctx.Done()
			s.note("loops ended")
		},
		drain: func(context.Context) error {
			s.note("drained")
			return nil
		},
		close: func(context.Context) error {
			s.note("closed")
			return errors.New("close failed")
		},
	}, nil
}

func testApp(s *scripted, log io.Writer) *App {
	return newApp(appOptions{
		grpcAddr: "127.0.0.1:0", httpAddr: "127.0.0.1:0", stopTimeout: time.Second, open: s.open,
		log: slog.New(slog.NewTextHandler(log, nil)),
	})
}

func readyz(t *testing.T, a *App) int {
	t.Helper()
	response, err := http.Get("http://" + a.HTTPAddr() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

func TestAppBecomesReady(t *testing.T) {
	bad := []string{"maxmemory-policy is allkeys-lru: set it to noeviction"}
	tests := []struct {
		name  string
		at    *scripted // when it starts
		ready bool
		then  func(*scripted)
		after bool
	}{
		{"all is well", &scripted{}, true, nil, true},
		{"Postgres is down at the start", &scripted{schema: store.ErrUnavailable}, false, func(s *scripted) { s.schema = nil }, true},
		{"Redis is down at the start", &scripted{redis: store.ErrUnavailable}, true, func(s *scripted) { s.redis = nil }, true},
		{"Redis may drop holds", &scripted{bad: bad}, false, func(s *scripted) { s.bad = nil }, true},
		{"and that is known late", &scripted{redis: store.ErrUnavailable}, true, func(s *scripted) { s.redis, s.bad = nil, bad }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := test.at
			log := &lines{}
			a := testApp(s, log)
			if err := a.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = a.Close() })
			said := "msg=ready"
			if !test.ready || s.redis != nil {
				said = "not ready"
			}
			until(t, 10*time.Second, said, func() bool { return strings.Contains(log.String(), said) })
			if got := readyz(t, a) == http.StatusOK; got != test.ready {
				t.Errorf("ready: %v, want %v", got, test.ready)
			}
			if test.then != nil {
				s.set(test.then)
			}
			until(t, 10*time.Second, "change", func() bool { return (readyz(t, a) == http.StatusOK) == test.after })
			if n := strings.Count(log.String(), "msg=\"store is down\""); n > 1 {
				t.Errorf("an outage is logged %d times", n)
			}
		})
	}
}

func TestAppRefusesOtherTables(t *testing.T) {
	s := &scripted{schema: &ledger.SchemaError{Have: 1, Want: 2}}
	a := testApp(s, io.Discard)
	err := a.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "holdfast migrate") {
		t.Errorf("Run: %v, want to be told to migrate", err)
	}
	if !slices.Equal(s.done, []string{"closed"}) {
		t.Errorf("done: %v, want the stores closed", s.done)
	}
}

// TestAppStops: in the reverse order of the start, each step taken though one fails. An open health watch, which would never end by
// itself, is not waited for.
func TestAppStops(t *testing.T) {
	s := &scripted{}
	a := testApp(s, io.Discard)
	a.options.stopTimeout = time.Hour
	if err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(a.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err == nil || !strings.Contains(err.Error(), "close failed") {
		t.Errorf("Close: %v, want what failed", err)
	}
	if want := []string{"loops ended", "drained", "closed"}; !slices.Equal(s.done, want) {
		t.Errorf("done: %v, want %v", s.done, want)
	}
	if err := a.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	again := testApp(s, io.Discard)
	again.options.grpcAddr = a.GRPCAddr()
	if err := again.Run(t.Context()); err != nil {
		t.Errorf("the address is not free: %v", err)
	}
	_ = again.Close()
}

func TestAppOnThreeAddresses(t *testing.T) {
	a := testApp(&scripted{}, io.Discard)
	a.options.adminAddr = "127.0.0.1:0"
	if err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.AdminAddr() == a.GRPCAddr() || a.HTTPAddr() == a.GRPCAddr() {
		t.Errorf("addresses: %s %s %s", a.GRPCAddr(), a.AdminAddr(), a.HTTPAddr())
	}
}

func TestAppStopsOnItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &scripted{}
	a := testApp(s, io.Discard)
	ended := make(chan error, 1)
	go func() { ended <- a.runUntil(ctx) }()
	cancel()
	if err := <-ended; err != nil && !strings.Contains(err.Error(), "close failed") {
		t.Errorf("runUntil: %v", err)
	}
}
