package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/holdfast-inventory/holdfast/cmd/launch/program"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

const (
	allotment   = "image"
	callTimeout = 10 * time.Second
)

// connect connects to a server on this machine.
func connect(server *program.Server) (*grpc.ClientConn, error) {
	return grpc.NewClient(server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// answers checks that a server is healthy and sells.
func answers(ctx context.Context, server *program.Server) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := answersHTTP(ctx, server.HTTPAddr()); err != nil {
		return err
	}
	conn, err := connect(server)
	if err != nil {
		return err
	}
	defer conn.Close()
	services := []string{"", pb.InventoryService_ServiceDesc.ServiceName, pb.AdminService_ServiceDesc.ServiceName}
	for _, service := range services {
		answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
		if err := isHealth(healthpb.HealthCheckResponse_SERVING, answer, err); err != nil {
			return fmt.Errorf("health of %q: %w", service, err)
		}
	}
	return sell(ctx, conn)
}

func sell(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := pb.NewAdminServiceClient(conn).CreateAllotment(ctx, &pb.CreateAllotmentRequest{
		Allotment: &pb.Allotment{Id: allotment, Capacity: 3},
	})
	if err != nil {
		return fmt.Errorf("CreateAllotment: %w", err)
	}
	checkouts := pb.NewInventoryServiceClient(conn)
	held, err := checkouts.CreateHold(ctx, &pb.CreateHoldRequest{
		AllotmentId: allotment, BuyerId: "ann", RequestId: "r1", Quantity: 1,
	})
	if err != nil {
		return fmt.Errorf("CreateHold: %w", err)
	}
	_, err = checkouts.ConfirmHold(ctx, &pb.ConfirmHoldRequest{HoldId: held.GetHold().GetId(), OrderId: "order-1"})
	if err != nil {
		return fmt.Errorf("ConfirmHold: %w", err)
	}
	return nil
}

// stopWatched stops a server while a caller watches an allotment and another its health, and returns how long that took.
func stopWatched(ctx context.Context, server *program.Server) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*grace)
	defer cancel()
	conn, err := connect(server)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	availability, err := pb.NewInventoryServiceClient(conn).WatchAvailability(ctx, &pb.WatchAvailabilityRequest{
		AllotmentIds: []string{allotment},
	})
	if err != nil {
		return 0, err
	}
	if _, err := availability.Recv(); err != nil {
		return 0, fmt.Errorf("WatchAvailability: %w", err)
	}
	health, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return 0, err
	}
	answer, err := health.Recv()
	if err := isHealth(healthpb.HealthCheckResponse_SERVING, answer, err); err != nil {
		return 0, fmt.Errorf("health Watch: %w", err)
	}
	asked := time.Now()
	if err := server.Stop(grace); err != nil {
		return 0, fmt.Errorf("after SIGTERM: %w", err)
	}
	took := time.Since(asked)
	answer, err = health.Recv()
	if err := isHealth(healthpb.HealthCheckResponse_NOT_SERVING, answer, err); err != nil {
		return 0, fmt.Errorf("health Watch after SIGTERM: %w", err)
	}
	if _, err := health.Recv(); status.Code(err) != codes.Unavailable {
		return 0, fmt.Errorf("health Watch did not end with UNAVAILABLE: %w", err)
	}
	for err = nil; err == nil; { // a change may have been on its way
		_, err = availability.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		return 0, fmt.Errorf("WatchAvailability did not end with UNAVAILABLE: %w", err)
	}
	return took, nil
}

func isHealth(want healthpb.HealthCheckResponse_ServingStatus, answer *healthpb.HealthCheckResponse, err error) error {
	if err == nil && answer.GetStatus() != want {
		return fmt.Errorf("%v, must be %v", answer.GetStatus(), want)
	}
	return err
}
