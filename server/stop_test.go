package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// watching sends one state, then waits for the end of its context.
func watching(ctx context.Context, send func(store.Availability) error) error {
	if err := send(store.Availability{Allotment: "concert", Version: 1}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestStopWithOpenStreams: a watch, a health watch and a call that runs are open when the server stops. The streams
// end at once, the call ends as it would have, and nothing waits for the stop timeout.
func TestStopWithOpenStreams(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	f := &fake{watch: watching, before: func(_ context.Context, method string) error {
		if method == "ConfirmHold" {
			close(arrived)
			<-release
		}
		return nil
	}}
	b := startServer(t, f, func(o *Options) { o.StopTimeout = time.Hour })
	b.server.SetReady(true)
	watch := b.watch(t)
	health := b.watchHealth(t, "holdfast.v1.InventoryService")
	confirmed := make(chan error, 1)
	go func() { confirmed <- b.call(t, "ConfirmHold", validRequests()["ConfirmHold"]) }()
	<-arrived

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		b.server.Stop(t.Context())
	}()
	if got, err := health.Recv(); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health watch: %v, %v, want NOT_SERVING", got, err)
	}
	_, err := watch.Recv()
	delay := detail[*errdetails.RetryInfo](status.Convert(err)).GetRetryDelay().AsDuration()
	if status.Code(err) != codes.Unavailable || delay < retryStopping || delay > 2*retryStopping {
		t.Errorf("watch ends with %v and is to be opened again after %v, want UNAVAILABLE", err, delay)
	}
	if _, err := health.Recv(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("health watch ends with %v, want an error", err)
	}
	select {
	case <-stopped:
		t.Fatal("stopped while a confirm was running")
	default:
	}
	close(release)
	if err := <-confirmed; err != nil {
		t.Errorf("the confirm that was running: %v", err)
	}
	<-stopped
	if err := <-b.served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// TestStopTimeout: a call that does not end is cut off, and Stop waits for its handler.
func TestStopTimeout(t *testing.T) {
	arrived := make(chan struct{})
	var returned atomic.Bool
	f := &fake{before: func(ctx context.Context, _ string) error {
		close(arrived)
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond) // what a handler may still do
		returned.Store(true)
		return ctx.Err()
	}}
	b := startServer(t, f, func(o *Options) {
		o.StopTimeout = 50 * time.Millisecond
		o.Budgets.Call = time.Hour
	})
	answered := make(chan error, 1)
	go func() { answered <- b.call(t, "ConfirmHold", validRequests()["ConfirmHold"]) }()
	<-arrived
	b.server.Stop(t.Context())
	if !returned.Load() {
		t.Error("Stop returned before the handler")
	}
	if err := <-answered; status.Code(err) != codes.Unavailable {
		t.Errorf("the caller got %v", err)
	}
}

// TestStopWithPeersThatDoNothing: one watches and never reads, until Send waits for it; one has an open stream of
// reflection. Neither makes the server wait for the stop timeout, and the watcher is told to come again.
func TestStopWithPeersThatDoNothing(t *testing.T) {
	var sent atomic.Int64
	returned := make(chan error, 1)
	f := &fake{watch: func(_ context.Context, send func(store.Availability) error) error {
		for {
			if err := send(store.Availability{Allotment: strings.Repeat("x", 1000), Version: sent.Add(1)}); err != nil {
				returned <- err
				return err
			}
		}
	}}
	b := startServer(t, f, func(o *Options) { o.StopTimeout = time.Hour })
	watch := b.watch(t)
	reflected, err := reflectionpb.NewServerReflectionClient(b.conn).ServerReflectionInfo(t.Context())
	if err == nil {
		err = reflected.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	}
	if err == nil {
		_, err = reflected.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	storetest.Eventually(t, 20*time.Second, func() error { // it waits: nothing is sent any more
		before := sent.Load()
		time.Sleep(20 * time.Millisecond)
		if now := sent.Load(); now != before {
			return fmt.Errorf("sent %d more", now-before)
		}
		return nil
	})
	b.server.Stop(t.Context())
	if err := <-returned; err == nil {
		t.Error("Send went on")
	}
	for err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ends with %v, want UNAVAILABLE", err)
	}
	if _, err := reflected.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the reflection stream ends with %v, want UNAVAILABLE", err)
	}
}

// TestDrainDelay: while the server drains it says NOT_SERVING and answers calls, until patience ends.
func TestDrainDelay(t *testing.T) {
	b := startServer(t, &fake{}, func(o *Options) { o.DrainDelay = time.Hour })
	b.server.SetReady(true)
	health := b.watchHealth(t, "")
	ctx, giveUp := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		b.server.Stop(ctx)
	}()
	if got, err := health.Recv(); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Fatalf("health watch: %v, %v, want NOT_SERVING", got, err)
	}
	if b.server.IsReady() {
		t.Error("IsReady while draining")
	}
	if err := b.call(t, "CreateHold", validRequests()["CreateHold"]); err != nil {
		t.Errorf("a call during the drain delay: %v", err)
	}
	giveUp()
	<-stopped
	b.server.SetReady(true)
	if b.server.IsReady() {
		t.Error("IsReady after Stop")
	}
}

func (b *bench) watch(t *testing.T) interface {
	Recv() (*pb.WatchAvailabilityResponse, error)
} {
	t.Helper()
	stream, err := b.holds.WatchAvailability(t.Context(), &pb.WatchAvailabilityRequest{AllotmentIds: []string{"concert"}})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Recv(); err != nil || first.GetAvailability().GetVersion() != 1 {
		t.Fatalf("watch: %v, %v", first, err)
	}
	return stream
}

func (b *bench) watchHealth(t *testing.T, service string) healthpb.Health_WatchClient {
	t.Helper()
	stream, err := healthpb.NewHealthClient(b.conn).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Recv(); err != nil || first.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("health: %v, %v, want SERVING", first, err)
	}
	return stream
}
