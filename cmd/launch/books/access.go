package books

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// MaySell says why the caller may not sell the allotment as a checkout does, which need not be there yet. It asks for what
// changes nothing: to cancel a hold that cannot be.
func (b *Books) MaySell(ctx context.Context) error {
	err := insist(ctx, func() error {
		_, err := b.stock.CancelHold(ctx, &pb.CancelHoldRequest{HoldId: b.Allotment + ".none"})
		return err
	})
	if !isKeptOut(err) {
		return nil
	}
	return fmt.Errorf("call as a checkout: %w", explained(err))
}

// ErrOtherStores means that an allotment was created, and is not known where it is to be sold.
var ErrOtherStores = errors.New("these addresses do not serve the same stores")

// KnownAt says at which of the addresses the allotment is not known: what is sold there would not be on these books.
func (b *Books) KnownAt(ctx context.Context, addresses []string) error {
	for _, address := range addresses {
		conn, err := b.connect(address)
		if err != nil {
			return err
		}
		if err := b.known(ctx, pb.NewInventoryServiceClient(conn)); err != nil {
			return fmt.Errorf("%s: %w", address, err)
		}
	}
	return nil
}

// known waits until a service answers for the allotment.
func (b *Books) known(ctx context.Context, at pb.InventoryServiceClient) error {
	err := insist(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, readLimit)
		defer cancel()
		_, err := at.GetAvailability(ctx, &pb.GetAvailabilityRequest{AllotmentId: b.Allotment})
		return err
	})
	if status.Code(err) == codes.NotFound {
		return fmt.Errorf("allotment %s is not known there, just after it was created: %w", b.Allotment, ErrOtherStores)
	}
	return err
}

func isKeptOut(err error) bool {
	code := status.Code(err)
	return code == codes.Unauthenticated || code == codes.PermissionDenied
}

// explained says of a call that was refused for who made it who must.
func explained(err error) error {
	if !isKeptOut(err) {
		return err
	}
	return fmt.Errorf("%w; who rehearses must be known to the server and have the roles checkout and operator (docs/security.md)", err)
}
