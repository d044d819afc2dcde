package client

import (
	"cmp"
	"context"
	"crypto/rand"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// Want is what a buyer wants to have held: one intent, whatever becomes of the calls that it takes.
type Want struct {
	AllotmentID string
	BuyerID     string
	Quantity    int32
	// RequestID names the intent, for this buyer and allotment. Give the one that you keep with the order or cart: then a repeat finds what was
	// held, also after this process has ended. Empty: Hold makes one, which is in the hold, or in the Unknown.
	RequestID string
}

// NewRequestID makes an id that nobody else makes.
func NewRequestID() string { return rand.Text() }

// Hold takes units until the hold's deadline. It uses one request id for all its tries, so that there is one hold at most.
//
// A repeat answers with the hold as it is now. If that is SOLD or CONFIRMING, the buyer has paid for it before: do not charge again. If it
// is CANCELLED or LAPSED, that is a [HoldCancelled] or [HoldLapsed].
func (c *Client) Hold(ctx context.Context, w Want) (*pb.Hold, error) {
	response, err := c.CreateHold(ctx, &pb.CreateHoldRequest{
		AllotmentId: w.AllotmentID, BuyerId: w.BuyerID, RequestId: cmp.Or(w.RequestID, NewRequestID()), Quantity: w.Quantity,
	})
	if err != nil {
		return nil, err
	}
	if err := Ended(response.GetHold()); err != nil {
		return nil, err
	}
	return response.GetHold(), nil
}

// Confirm turns a hold into a sale, when the buyer has paid. The order id is what makes it one sale, whatever is repeated: keep it with the hold's
// id before the buyer pays. After an [Unknown] repeat it until it is a sale or a [Refusal]; where [HoldLost] is true of that, refund, and do not
// confirm again. Of a sale of which a part has been cancelled since, the sale says how much; if it was all, that is a Refusal.
func (c *Client) Confirm(ctx context.Context, holdID, orderID string) (*pb.Sale, error) {
	response, err := c.ConfirmHold(ctx, &pb.ConfirmHoldRequest{HoldId: holdID, OrderId: orderID})
	if err != nil {
		return nil, err
	}
	if err := Returned(response.GetSale()); err != nil {
		return nil, err
	}
	return response.GetSale(), nil
}

// Cancel gives a hold's units back at once, also those of one that has lapsed or was cancelled before. A hold that nobody cancels lapses by itself.
func (c *Client) Cancel(ctx context.Context, holdID string) error {
	_, err := c.CancelHold(ctx, &pb.CancelHoldRequest{HoldId: holdID})
	return err
}
