package server

import (
	"context"
	"fmt"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

// operators answers AdminService. Errors go out as they come: the interceptors map them.
type operators struct {
	pb.UnsafeAdminServiceServer

	allotments Allotments
	audits     Audits
}

var _ pb.AdminServiceServer = (*operators)(nil)

// CreateAllotment opens an allotment for sale.
func (s *operators) CreateAllotment(
	ctx context.Context, r *pb.CreateAllotmentRequest,
) (*pb.CreateAllotmentResponse, error) {
	wanted, err := allotmentIn(r.GetAllotment())
	if err != nil {
		return nil, err
	}
	a, err := s.allotments.CreateAllotment(ctx, wanted)
	if err != nil {
		return nil, err
	}
	return &pb.CreateAllotmentResponse{Allotment: allotmentOut(a)}, nil
}

// GetAllotment reads an allotment.
func (s *operators) GetAllotment(ctx context.Context, r *pb.GetAllotmentRequest) (*pb.GetAllotmentResponse, error) {
	a, err := s.allotments.Allotment(ctx, r.GetAllotmentId())
	if err != nil {
		return nil, err
	}
	return &pb.GetAllotmentResponse{Allotment: allotmentOut(a)}, nil
}

// ListAllotments reads a page of all allotments.
func (s *operators) ListAllotments(
	ctx context.Context, r *pb.ListAllotmentsRequest,
) (*pb.ListAllotmentsResponse, error) {
	after, err := parsePage(allotmentsKind, r.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(r.GetPageSize())
	list, err := s.allotments.ListAllotments(ctx, after, size+1)
	if err != nil {
		return nil, err
	}
	list, last := page(list, size, func(a store.Allotment) string { return a.Allotment })
	return &pb.ListAllotmentsResponse{
		Allotments: each(list, allotmentOut), NextPageToken: formatPage(allotmentsKind, last),
	}, nil
}

// UpdateAllotment changes rules or state.
func (s *operators) UpdateAllotment(
	ctx context.Context, r *pb.UpdateAllotmentRequest,
) (*pb.UpdateAllotmentResponse, error) {
	version, err := parseEtag("allotment.etag", r.GetAllotment().GetEtag())
	if err != nil {
		return nil, err
	}
	change := changeIn(r.GetUpdateMask().GetPaths(), r.GetAllotment())
	a, err := s.allotments.UpdateAllotment(ctx, r.GetAllotment().GetId(), version, change)
	if err != nil {
		return nil, err
	}
	return &pb.UpdateAllotmentResponse{Allotment: allotmentOut(a)}, nil
}

// AdjustCapacity adds units or takes them away.
func (s *operators) AdjustCapacity(
	ctx context.Context, r *pb.AdjustCapacityRequest,
) (*pb.AdjustCapacityResponse, error) {
	a, err := s.allotments.AdjustCapacity(ctx, store.AdjustCapacity{
		Allotment: r.GetAllotmentId(), Delta: r.GetDelta(), RequestID: r.GetRequestId(), DryRun: r.GetDryRun(),
	})
	if err != nil {
		return nil, err
	}
	return &pb.AdjustCapacityResponse{Allotment: allotmentOut(a)}, nil
}

// ListHolds reads a page of an allotment's holds.
func (s *operators) ListHolds(ctx context.Context, r *pb.ListHoldsRequest) (*pb.ListHoldsResponse, error) {
	filters := []string{r.GetAllotmentId(), r.GetBuyerId(), fmt.Sprint(r.GetStates())}
	at, err := parsePage(holdsKind, r.GetPageToken(), filters...)
	if err != nil {
		return nil, err
	}
	filter := store.HoldFilter{
		Allotment: r.GetAllotmentId(), BuyerID: r.GetBuyerId(), States: holdStatesIn(r.GetStates()),
	}
	list, next, err := s.audits.ListHolds(ctx, filter, at, pageSize(r.GetPageSize()))
	if err != nil {
		return nil, err
	}
	return &pb.ListHoldsResponse{
		Holds: each(list, holdOut), NextPageToken: formatPage(holdsKind, next, filters...),
	}, nil
}

// ListSales reads a page of sales.
func (s *operators) ListSales(ctx context.Context, r *pb.ListSalesRequest) (*pb.ListSalesResponse, error) {
	filters := []string{r.GetAllotmentId(), r.GetBuyerId(), r.GetOrderId()}
	after, err := parsePage(salesKind, r.GetPageToken(), filters...)
	if err != nil {
		return nil, err
	}
	filter := store.SaleFilter{Allotment: r.GetAllotmentId(), BuyerID: r.GetBuyerId(), OrderID: r.GetOrderId()}
	size := pageSize(r.GetPageSize())
	list, err := s.audits.ListSales(ctx, filter, after, size+1)
	if err != nil {
		return nil, err
	}
	list, last := page(list, size, func(s store.Sale) string { return s.ID.String() })
	return &pb.ListSalesResponse{
		Sales: each(list, saleOut), NextPageToken: formatPage(salesKind, last, filters...),
	}, nil
}

// ReconcileAllotment says what is off, and repairs it if asked to.
func (s *operators) ReconcileAllotment(
	ctx context.Context, r *pb.ReconcileAllotmentRequest,
) (*pb.ReconcileAllotmentResponse, error) {
	findings, applied, err := s.audits.Reconcile(ctx, r.GetAllotmentId(), r.GetApply())
	if err != nil {
		return nil, err
	}
	return &pb.ReconcileAllotmentResponse{Findings: each(findings, findingOut), Applied: applied}, nil
}
