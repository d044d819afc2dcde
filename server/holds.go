package server

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

// checkouts answers InventoryService. Errors go out as they come: the interceptors map them.
type checkouts struct {
	pb.UnsafeInventoryServiceServer

	stock Stock
	holds Holds
	sales Sales
}

var _ pb.InventoryServiceServer = (*checkouts)(nil)

// GetAvailability reads one allotment.
func (s *checkouts) GetAvailability(
	ctx context.Context, r *pb.GetAvailabilityRequest,
) (*pb.GetAvailabilityResponse, error) {
	a, err := s.stock.Availability(ctx, r.GetAllotmentId())
	if err != nil {
		return nil, err
	}
	return &pb.GetAvailabilityResponse{Availability: availabilityOut(a)}, nil
}

// BatchGetAvailability reads several allotments.
func (s *checkouts) BatchGetAvailability(
	ctx context.Context, r *pb.BatchGetAvailabilityRequest,
) (*pb.BatchGetAvailabilityResponse, error) {
	list, err := s.stock.Availabilities(ctx, r.GetAllotmentIds())
	if err != nil {
		return nil, err
	}
	return &pb.BatchGetAvailabilityResponse{Availabilities: each(list, availabilityOut)}, nil
}

// WatchAvailability streams until the caller or the server ends it.
func (s *checkouts) WatchAvailability(
	r *pb.WatchAvailabilityRequest, stream grpc.ServerStreamingServer[pb.WatchAvailabilityResponse],
) error {
	send := func(a store.Availability) error {
		return stream.Send(&pb.WatchAvailabilityResponse{Availability: availabilityOut(a)})
	}
	return s.stock.Watch(stream.Context(), distinct(r.GetAllotmentIds()), send)
}

// CreateHold takes units of one allotment.
func (s *checkouts) CreateHold(ctx context.Context, r *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
	line := store.Line{Allotment: r.GetAllotmentId(), Quantity: int64(r.GetQuantity())}
	h, err := s.holds.CreateHold(ctx, r.GetBuyerId(), r.GetRequestId(), line)
	if err != nil {
		return nil, err
	}
	return &pb.CreateHoldResponse{Hold: holdOut(h)}, nil
}

// BatchCreateHolds takes units of several allotments of a group.
func (s *checkouts) BatchCreateHolds(
	ctx context.Context, r *pb.BatchCreateHoldsRequest,
) (*pb.BatchCreateHoldsResponse, error) {
	list, err := s.holds.CreateHolds(ctx, r.GetBuyerId(), r.GetRequestId(), linesIn(r.GetLines()))
	var field *store.InvalidField
	if errors.As(err, &field) && field.Field == "quantity" {
		return nil, &store.InvalidField{Field: "lines", Problem: "quantity " + field.Problem}
	}
	if err != nil {
		return nil, err
	}
	return &pb.BatchCreateHoldsResponse{Holds: each(list, holdOut)}, nil
}

// GetHold reads a hold.
func (s *checkouts) GetHold(ctx context.Context, r *pb.GetHoldRequest) (*pb.GetHoldResponse, error) {
	h, err := onHold(ctx, r.GetHoldId(), s.holds.Hold)
	if err != nil {
		return nil, err
	}
	return &pb.GetHoldResponse{Hold: h}, nil
}

// ExtendHold moves a hold's deadline.
func (s *checkouts) ExtendHold(ctx context.Context, r *pb.ExtendHoldRequest) (*pb.ExtendHoldResponse, error) {
	h, err := onHold(ctx, r.GetHoldId(), s.holds.ExtendHold)
	if err != nil {
		return nil, err
	}
	return &pb.ExtendHoldResponse{Hold: h}, nil
}

// CancelHold gives a hold's units back.
func (s *checkouts) CancelHold(ctx context.Context, r *pb.CancelHoldRequest) (*pb.CancelHoldResponse, error) {
	h, err := onHold(ctx, r.GetHoldId(), s.holds.CancelHold)
	if err != nil {
		return nil, err
	}
	return &pb.CancelHoldResponse{Hold: h}, nil
}

func onHold(
	ctx context.Context, text string, do func(context.Context, store.HoldID) (store.Hold, error),
) (*pb.Hold, error) {
	id, err := holdIDIn("hold_id", text)
	if err != nil {
		return nil, err
	}
	h, err := do(ctx, id)
	if err != nil {
		return nil, err
	}
	return holdOut(h), nil
}
