package books

import (
	"context"
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
