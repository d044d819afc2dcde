package server

import (
	"context"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

// ConfirmHold turns a hold into a sale.
func (s *checkouts) ConfirmHold(ctx context.Context, r *pb.ConfirmHoldRequest) (*pb.ConfirmHoldResponse, error) {
	confirm, err := confirmIn(r)
	if err != nil {
		return nil, err
	}
	sale, err := s.sales.ConfirmHold(ctx, confirm)
	if err != nil {
		return nil, err
	}
	return &pb.ConfirmHoldResponse{Sale: saleOut(sale)}, nil
}

// BatchConfirmHolds turns several holds into sales.
func (s *checkouts) BatchConfirmHolds(
	ctx context.Context, r *pb.BatchConfirmHoldsRequest,
) (*pb.BatchConfirmHoldsResponse, error) {
	ids, err := holdIDsIn("hold_ids", r.GetHoldIds())
	if err != nil {
		return nil, err
	}
	sales, err := s.sales.ConfirmHolds(ctx, ids, r.GetOrderId())
	if err != nil {
		return nil, err
	}
	return &pb.BatchConfirmHoldsResponse{Sales: each(sales, saleOut)}, nil
}

// GetSale reads the sale of a hold.
func (s *checkouts) GetSale(ctx context.Context, r *pb.GetSaleRequest) (*pb.GetSaleResponse, error) {
	id, err := holdIDIn("hold_id", r.GetHoldId())
	if err != nil {
		return nil, err
	}
	sale, err := s.sales.Sale(ctx, id)
	if err != nil {
		return nil, err
	}
	return &pb.GetSaleResponse{Sale: saleOut(sale)}, nil
}

// CancelSale gives units of a sale back.
func (s *checkouts) CancelSale(ctx context.Context, r *pb.CancelSaleRequest) (*pb.CancelSaleResponse, error) {
	id, err := holdIDIn("hold_id", r.GetHoldId())
	if err != nil {
		return nil, err
	}
	sale, err := s.sales.CancelSale(ctx, store.CancelSale{
		ID: id, RequestID: r.GetRequestId(), Quantity: int64(r.GetQuantity()),
	})
	if err != nil {
		return nil, err
	}
	return &pb.CancelSaleResponse{Sale: saleOut(sale)}, nil
}
