package client_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-inventory/holdfast/client"
	"github.com/holdfast-inventory/holdfast/client/clienttest"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// order is a row of the shop's database. Store it as HOLDING, with a RequestID that is the order's id, before the first call.
type order struct {
	client.Want
	State, Hold string
	PayBefore   time.Time
}

// shop is what is yours.
type shop interface {
	// store keeps the order as it is now. What it did not keep safely is an error.
	store(o order) error
	// pay asks the payment provider for what became of the order, and charges under the order's id if it is neither paid nor PayBefore over. It
	// answers PAID; or GIVEN_UP if no money was taken and none will be. All else, and an error, is not known yet: the order stays PAYING.
	pay(ctx context.Context, o order) (state string, err error)
	// refund gives back what was paid, under the order's id: once, however often it is called.
	refund(ctx context.Context, o order) error
}

// follows is what may come after a state.
var follows = map[string][]string{"HOLDING": {"PAYING"}, "PAYING": {"PAID", "GIVEN_UP"}, "PAID": {"SOLD", "REFUNDING"}, "REFUNDING": {"REFUNDED"}}

// checkout goes on with an order from where it is, to SOLD, REFUNDED or GIVEN_UP, to PAYING if that is not known yet, or to an error. It returns the
// order as stored; the same call goes on from there.
func checkout(ctx context.Context, c *client.Client, s shop, o order) (order, error) {
	next, err := step(ctx, c, s, o)
	if err == nil && slices.Contains(follows[o.State], next.State) {
		if err = s.store(next); err == nil {
			return checkout(ctx, c, s, next)
		}
	}
	return o, err
}

func step(ctx context.Context, c *client.Client, s shop, o order) (_ order, err error) {
	switch alone := context.WithoutCancel(ctx); o.State { // the buyer may leave
	case "HOLDING":
		hold, failed := c.Hold(ctx, o.Want)
		o.State, o.Hold, o.RequestID, o.PayBefore, err = "PAYING", hold.GetId(), hold.GetRequestId(), time.Now().Add(hold.GetRemaining().AsDuration()), failed
	case "PAYING":
		o.State, err = s.pay(ctx, o)
	case "PAID":
		o.State = "SOLD"
		if _, err = c.Confirm(alone, o.Hold, o.RequestID); client.HoldLost(err) {
			o.State, err = "REFUNDING", nil // and never a confirm after that
		}
	case "REFUNDING":
		o.State, err = "REFUNDED", s.refund(alone, o)
	case "GIVEN_UP":
		_ = c.Cancel(alone, o.Hold) // the next one has the units at once; else the hold lapses
	}
	return o, err
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

	for _, want := range []client.Want{
		{AllotmentID: "concert", BuyerID: "ann", Quantity: 2, RequestID: "order-1"},
		{AllotmentID: "concert", BuyerID: "bob", Quantity: 1, RequestID: "order-2"},
	} {
		o, err := checkout(context.Background(), c, printing{}, order{Want: want, State: "HOLDING"})
		fmt.Println(o.State, err)
	}
	// Output:
	// PAYING
	// ann pays
	// PAID
	// SOLD
	// SOLD <nil>
	// PAYING
	// bob pays
	// PAID
	// REFUNDING
	// bob is refunded
	// REFUNDED
	// REFUNDED <nil>
}

// printing is a shop that says what it does.
type printing struct{}

func (printing) store(o order) error {
	fmt.Println(o.State)
	return nil
}

func (printing) pay(_ context.Context, o order) (string, error) {
	fmt.Println(o.BuyerID, "pays")
	return "PAID", nil
}

func (printing) refund(_ context.Context, o order) error {
	fmt.Println(o.BuyerID, "is refunded")
	return nil
}
