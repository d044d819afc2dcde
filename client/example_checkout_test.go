package client_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-inventory/holdfast/client"
	"github.com/holdfast-inventory/holdfast/client/clienttest"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// order is what the shop has stored before the first call, so that whoever goes on with it uses the same ids.
type order struct {
	id, allotment, buyer string
	quantity             int32
}

// checkout holds, lets the buyer pay, and settles. pay stores the hold's id, charges under the order's id, and stores that the order is paid; its
// error means that the buyer has given up, and that no money was taken.
func checkout(ctx context.Context, c *client.Client, o order, pay func(order, *pb.Hold) error, refund func(order) error) (*pb.Sale, error) {
	hold, err := c.Hold(ctx, client.Want{AllotmentID: o.allotment, BuyerID: o.buyer, Quantity: o.quantity, RequestID: o.id})
	if err != nil {
		return nil, err // such as client.SoldOut; after a client.Unknown, call checkout again, or let it be: a hold lapses
	}
	if hold.GetState() == pb.HoldState_HOLD_STATE_HELD { // else an earlier call has been paid for
		if err := pay(o, hold); err != nil {
			return nil, errors.Join(err, c.Cancel(ctx, hold.GetId()))
		}
	}
	return settle(context.WithoutCancel(ctx), c, o, hold.GetId(), refund) // a buyer who has paid may leave
}

// settle is for an order that is paid, also after a crash. Call it again until the error is no client.Unknown.
func settle(ctx context.Context, c *client.Client, o order, holdID string, refund func(order) error) (*pb.Sale, error) {
	sale, err := c.Confirm(ctx, holdID, o.id)
	if client.HoldLost(err) {
		return nil, errors.Join(err, refund(o))
	}
	return sale, err
}

// A checkout: hold, pay, confirm; and a refund for the buyer whose hold has lapsed while paying took too long.
func Example_checkout() {
	script := clienttest.NewScript() // in place of a server
	defer script.Close()
	hold := &pb.Hold{Id: "concert.x", State: pb.HoldState_HOLD_STATE_HELD}
	for range 2 {
		script.On("CreateHold", clienttest.Reply(&pb.CreateHoldResponse{Hold: hold}))
	}
	script.On("ConfirmHold",
		clienttest.Reply(&pb.ConfirmHoldResponse{Sale: &pb.Sale{OrderId: "order-1", Quantity: 2}}),
		clienttest.Refuse(pb.ErrorReason_ERROR_REASON_HOLD_LAPSED, "hold_id", "concert.x"))
	c := script.Client()
	defer c.Close()

	pay := func(o order, _ *pb.Hold) error {
		fmt.Println(o.buyer, "pays")
		return nil
	}
	refund := func(o order) error {
		fmt.Println(o.buyer, "is refunded")
		return nil
	}
	for _, o := range []order{{"order-1", "concert", "ann", 2}, {"order-2", "concert", "bob", 1}} {
		sale, err := checkout(context.Background(), c, o, pay, refund)
		fmt.Println(sale.GetQuantity(), "sold:", err)
	}
	// Output:
	// ann pays
	// 2 sold: <nil>
	// bob pays
	// bob is refunded
	// 0 sold: holdfast: HOLD_LAPSED: as the script says
}
