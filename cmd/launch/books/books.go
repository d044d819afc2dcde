// Package books is what an operator does in a launch: opens stock for sale, looks at it while it sells, and reads in the
// end what the server has on its books.
package books

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/load"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

const (
	pageSize   = 1000
	retryPause = 100 * time.Millisecond
	readLimit  = time.Second // of one reading of the stock
)

// Books are those of one allotment.
type Books struct {
	Allotment string

	options []grpc.DialOption
	conns   []*grpc.ClientConn
	admin   pb.AdminServiceClient
	stock   pb.InventoryServiceClient
	clock   func() time.Duration
}

// Open connects, in the clear unless the options say otherwise. admin is the address of AdminService; empty: it is at address.
func Open(address, admin, allotment string, clock func() time.Duration, options ...grpc.DialOption) (*Books, error) {
	b := &Books{Allotment: allotment, clock: clock, options: append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)}
	conn, err := b.connect(address)
	if err != nil {
		return nil, err
	}
	b.stock, b.admin = pb.NewInventoryServiceClient(conn), pb.NewAdminServiceClient(conn)
	if admin == "" || admin == address {
		return b, nil
	}
	if conn, err = b.connect(admin); err != nil {
		b.Close()
		return nil, err
	}
	b.admin = pb.NewAdminServiceClient(conn)
	return b, nil
}

// Of is the books of another allotment of the same server. They end with b.
func (b *Books) Of(allotment string) *Books {
	other := *b
	other.Allotment = allotment
	return &other
}

func (b *Books) connect(address string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(address, b.options...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	b.conns = append(b.conns, conn)
	return conn, nil
}

// Close closes the connections.
func (b *Books) Close() {
	for _, c := range b.conns {
		_ = c.Close() // nothing is left to be lost
	}
}

// Create opens the allotment for sale, and waits until it can be sold.
func (b *Books) Create(ctx context.Context, capacity int64, window time.Duration) error {
	err := insist(ctx, func() error {
		_, err := b.admin.CreateAllotment(ctx, &pb.CreateAllotmentRequest{Allotment: &pb.Allotment{
			Id: b.Allotment, Capacity: capacity, HoldDuration: durationpb.New(window), MaxHoldDuration: durationpb.New(window),
		}})
		return err
	})
	if err == nil {
		err = b.known(ctx, b.stock)
	}
	if err != nil {
		return fmt.Errorf("create allotment %s: %w", b.Allotment, explained(err))
	}
	return nil
}

// Hold takes units for a buyer.
func (b *Books) Hold(ctx context.Context, buyer history.Buyer) (history.Hold, error) {
	var got *pb.CreateHoldResponse
	err := insist(ctx, func() (err error) {
		got, err = b.stock.CreateHold(ctx, &pb.CreateHoldRequest{
			AllotmentId: b.Allotment, BuyerId: buyer.ID, RequestId: buyer.Request,
			Quantity: int32(buyer.Quantity), //nolint:gosec // at most ten
		})
		return err
	})
	return load.Hold(got.GetHold()), err
}

// Grow adds units for sale, once for each request id.
func (b *Books) Grow(ctx context.Context, units int64, request string) error {
	return insist(ctx, func() error {
		_, err := b.admin.AdjustCapacity(ctx, &pb.AdjustCapacityRequest{AllotmentId: b.Allotment, Delta: units, RequestId: request})
		return err
	})
}

// Stock reads the stock once.
func (b *Books) Stock(ctx context.Context) (history.Stock, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	s := history.Stock{Sent: b.clock()}
	got, err := b.stock.GetAvailability(ctx, &pb.GetAvailabilityRequest{AllotmentId: b.Allotment})
	if err != nil {
		return history.Stock{}, err
	}
	a := got.GetAvailability()
	s.Answered = b.clock()
	s.Capacity, s.Available, s.Held, s.Sold = a.GetCapacity(), a.GetAvailable(), a.GetHeld(), a.GetSold()
	return s, nil
}

// Watch reads the stock again and again until ctx is done. Readings that fail are left out.
func (b *Books) Watch(ctx context.Context, every time.Duration, note func(history.Stock)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if s, err := b.Stock(ctx); err == nil {
			note(s)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Retire ends the sale: nobody can hold anything of the allotment any more.
func (b *Books) Retire(ctx context.Context) error {
	closed := &pb.Allotment{State: pb.AllotmentState_ALLOTMENT_STATE_CLOSED}
	if err := b.update(ctx, closed, "state"); err != nil {
		return fmt.Errorf("close allotment %s: %w", b.Allotment, explained(err))
	}
	return nil
}

// Shorten gives holds that are made from now on another window.
func (b *Books) Shorten(ctx context.Context, window time.Duration) error {
	if err := b.update(ctx, &pb.Allotment{HoldDuration: durationpb.New(window)}, "hold_duration"); err != nil {
		return fmt.Errorf("change the window of allotment %s: %w", b.Allotment, explained(err))
	}
	return nil
}

// update changes a field of the allotment, whatever others have changed meanwhile.
func (b *Books) update(ctx context.Context, next *pb.Allotment, field string) error {
	return insist(ctx, func() error {
		got, err := b.admin.GetAllotment(ctx, &pb.GetAllotmentRequest{AllotmentId: b.Allotment})
		now := got.GetAllotment()
		if err != nil || (field == "state" && now.GetState() == next.GetState()) { // a try that met trouble may have done it
			return err
		}
		next.Id, next.Etag = b.Allotment, now.GetEtag()
		_, err = b.admin.UpdateAllotment(ctx, &pb.UpdateAllotmentRequest{Allotment: next, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{field}}})
		return err
	})
}

// insist repeats what meets trouble, until ctx is done.
func insist(ctx context.Context, try func() error) error {
	for {
		err := try()
		switch status.Code(err) {
		case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Aborted:
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryPause):
		}
	}
}
