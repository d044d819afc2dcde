// Package noop answers CreateHold without deciding anything: the same messages as in a launch, and nothing behind
// them. What it costs and how long it takes is gRPC, the machine, and who asks.
package noop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// The dearest setting of grpc-go to be without: a stack that is kept for each of so many calls.
const streamWorkers = 64

// Serve answers on l until ctx is done. The first calls get a hold, as many as holds says; the others are refused.
func Serve(ctx context.Context, l net.Listener, holds int64) error {
	refusal, err := refuse()
	if err != nil {
		return err
	}
	s := &service{holds: holds, refusal: refusal}
	server := grpc.NewServer(grpc.NumStreamWorkers(streamWorkers))
	pb.RegisterInventoryServiceServer(server, s)
	defer context.AfterFunc(ctx, server.Stop)()
	if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

type service struct {
	pb.UnimplementedInventoryServiceServer

	holds   int64
	asked   atomic.Int64
	refusal error
}

// CreateHold echoes the request as a hold, or refuses it.
func (s *service) CreateHold(_ context.Context, req *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
	n := s.asked.Add(1)
	if n > s.holds {
		return nil, s.refusal
	}
	now := timestamppb.Now()
	return &pb.CreateHoldResponse{Hold: &pb.Hold{
		Id:           req.GetAllotmentId() + ".td7IQZZ4UyKstWZtF2t0FBiVtd7IQZZ4",
		AllotmentId:  req.GetAllotmentId(),
		BuyerId:      req.GetBuyerId(),
		RequestId:    req.GetRequestId(),
		Quantity:     req.GetQuantity(),
		State:        pb.HoldState_HOLD_STATE_HELD,
		FencingToken: &pb.FencingToken{Epoch: 1, Sequence: n},
		CreateTime:   now,
		ExpireTime:   now,
		Remaining:    durationpb.New(1),
	}}, nil
}

// refuse makes a refusal like those of a launch.
func refuse() (error, error) {
	const allotment = "launch-onsale-20261129-200000-abcdef"
	text := "allotment " + allotment + ": 1 asked for, 4321 are unsold, 4321 of them held"
	s, err := status.New(codes.FailedPrecondition, text).WithDetails(&errdetails.ErrorInfo{
		Reason: "ALL_HELD", Domain: "holdfast.v1", Metadata: map[string]string{
			"allotment_id": allotment, "capacity": strconv.Itoa(5000), "sold": strconv.Itoa(679), "held": strconv.Itoa(4321),
			"version": strconv.Itoa(5432), "requested": "1", "next_lapse_time": "2026-11-29T20:00:12.345Z",
		},
	})
	if err != nil {
		return nil, fmt.Errorf("refusal: %w", err)
	}
	return s.Err(), nil
}
