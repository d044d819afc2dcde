package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-inventory/holdfast/client"
	"github.com/holdfast-inventory/holdfast/client/clienttest"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

func ExampleDial() {
	c, err := client.Dial("dns:///localhost:50051", client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	_, err = client.Dial("dns:///holdfast.example.org:50051", client.Options{}) // another machine needs TLS
	fmt.Println(err)
	// Output:
	// holdfast: dns:///holdfast.example.org:50051 is not on this machine: give CAFile or TLS, or Insecure for plain text
}

// A refusal has a type with its numbers.
func ExampleClient_Hold() {
	script := clienttest.NewScript() // in place of a server
	defer script.Close()
	script.On("CreateHold",
		clienttest.Refuse(pb.ErrorReason_ERROR_REASON_ALL_HELD, "allotment_id", "concert", "capacity", "500", "sold", "480", "held", "20",
			"requested", "2", "next_lapse_time", "2026-07-30T11:00:00Z"),
		clienttest.Refuse(pb.ErrorReason_ERROR_REASON_SOLD_OUT, "allotment_id", "concert", "capacity", "500", "sold", "500", "held", "0",
			"requested", "2"))
	c := script.Client()
	defer c.Close()

	for range 2 {
		_, err := c.Hold(context.Background(), client.Want{AllotmentID: "concert", BuyerID: "ann", RequestID: "cart-17", Quantity: 2})
		var allHeld client.AllHeld
		var soldOut client.SoldOut
		switch {
		case errors.As(err, &allHeld):
			fmt.Println("try again at", allHeld.NextLapse.Format(time.TimeOnly))
		case errors.As(err, &soldOut):
			fmt.Println("sold out:", soldOut.Sold, "of", soldOut.Capacity)
		}
	}
	// Output:
	// try again at 11:00:00
	// sold out: 500 of 500
}

// A cart, held and sold as a whole by the plain calls, which are repeated likewise.
func ExampleClient_cart() {
	script := clienttest.NewScript()
	defer script.Close()
	script.On("BatchCreateHolds", clienttest.Reply(&pb.BatchCreateHoldsResponse{Holds: []*pb.Hold{
		{Id: "stalls.x", State: pb.HoldState_HOLD_STATE_HELD}, {Id: "parking.y", State: pb.HoldState_HOLD_STATE_HELD},
	}}))
	script.On("BatchConfirmHolds", clienttest.Reply(&pb.BatchConfirmHoldsResponse{Sales: []*pb.Sale{
		{HoldId: "stalls.x", Quantity: 2}, {HoldId: "parking.y", Quantity: 1, CancelledQuantity: 1},
	}}))
	c := script.Client()
	defer c.Close()

	cart, err := c.BatchCreateHolds(context.Background(), &pb.BatchCreateHoldsRequest{
		BuyerId: "ann", RequestId: "order-17", Lines: []*pb.BatchCreateHoldsRequest_Line{
			{AllotmentId: "stalls", Quantity: 2}, {AllotmentId: "parking", Quantity: 1},
		},
	})
	var ids []string
	for _, hold := range cart.GetHolds() {
		ids = append(ids, hold.GetId())
		err = errors.Join(err, client.Ended(hold)) // a repeat may find them ended
	}
	fmt.Println(ids, err)
	sold, err := c.BatchConfirmHolds(context.Background(), &pb.BatchConfirmHoldsRequest{HoldIds: ids, OrderId: "order-17"})
	fmt.Println("refund all:", client.HoldLost(err))
	for _, sale := range sold.GetSales() {
		if err := client.Returned(sale); err != nil { // its part of the money goes back, and the others stay sold
			fmt.Println(err)
		}
	}
	// Output:
	// [stalls.x parking.y] <nil>
	// refund all: false
	// holdfast: SALE_CANCELLED: the repeat found the sale of hold parking.y cancelled as a whole
}

// The reply is lost, and the repeat, with the same request id, finds the hold that the first try made.
func ExampleClient_Hold_replyLost() {
	script := clienttest.NewScript()
	defer script.Close()
	script.On("CreateHold",
		clienttest.Lose(),
		clienttest.Reply(&pb.CreateHoldResponse{Hold: &pb.Hold{Id: "concert.x", State: pb.HoldState_HOLD_STATE_HELD}}))
	c := script.Client()
	defer c.Close()

	hold, err := c.Hold(context.Background(), client.Want{AllotmentID: "concert", BuyerID: "ann", Quantity: 2})
	fmt.Println(hold.GetId(), err)
	tries := script.Asked("CreateHold")
	first, second := tries[0].(*pb.CreateHoldRequest), tries[1].(*pb.CreateHoldRequest)
	fmt.Println(len(tries), "tries, one request id:", first.GetRequestId() == second.GetRequestId())
	// Output:
	// concert.x <nil>
	// 2 tries, one request id: true
}
