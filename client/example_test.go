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
