package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// telling is a health service that tells when it has answered.
type telling struct {
	*health.Server
	answered chan struct{}
}

func (c telling) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	defer func() { c.answered <- struct{}{} }()
	return c.Server.Check(ctx, r)
}

func TestAnswerIsLost(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := telling{health.NewServer(), make(chan struct{}, 1)}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, service)
	go server.Serve(listener) //nolint:errcheck // ended by the Stop below
	defer server.Stop()

	printed, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- cut(t.Context(), listener.Addr().String(), out) }()
	line := make([]byte, 64)
	n, err := printed.Read(line)
	if err != nil {
		t.Fatal(err)
	}

	conn, err := grpc.NewClient(strings.TrimSpace(string(line[:n])), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
	<-service.answered
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	frame := bytes.NewReader([]byte{0, 0, 1, 4, 0, 0, 0, 0, 0, 'x'}) // SETTINGS
	var passed bytes.Buffer
	if err := passUntilAnswer(&passed, frame); err == nil || passed.Len() != 10 {
		t.Errorf("passed %d bytes, %v; want 10 and an error", passed.Len(), err)
	}
}
