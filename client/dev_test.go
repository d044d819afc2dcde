package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-inventory/holdfast/client"
	"github.com/holdfast-inventory/holdfast/client/clienttest"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestCheckout plays the example's checkout on the real service.
func TestCheckout(t *testing.T) {
	dev := clienttest.Dev(t)
	c := dev.Client(t)
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	short := &pb.Allotment{Id: "short", Capacity: 1, HoldDuration: durationpb.New(time.Second)}
	if _, err := dev.Admin.CreateAllotment(t.Context(), &pb.CreateAllotmentRequest{Allotment: short}); err != nil {
		t.Fatal(err)
	}
	dev.Create(t, "concert", 3)
	nameless := order{Want: client.Want{AllotmentID: "concert", BuyerID: "dan", Quantity: 1}, State: "HOLDING"}
	if o, err := checkout(t.Context(), c, &till{}, nameless); err != nil || o.State != "SOLD" || o.RequestID == "" {
		t.Errorf("an order without an id: %+v, %v", o, err)
	}
	ann := order{Want: client.Want{AllotmentID: "concert", BuyerID: "ann", Quantity: 2, RequestID: "order-1"}, State: "HOLDING"}
	for range 2 { // the second, as of a shop that lost what it had stored, finds what the first did
		if o, err := checkout(t.Context(), c, &till{}, ann); err != nil || o.State != "SOLD" {
			t.Fatalf("%s, %v", o.State, err)
		}
	}
	bob := order{Want: client.Want{AllotmentID: "concert", BuyerID: "bob", Quantity: 1, RequestID: "order-2"}, State: "HOLDING"}
	o, err := checkout(t.Context(), c, &till{}, bob)
	if soldOut, ok := errors.AsType[client.SoldOut](err); !ok || soldOut.Sold != 3 || soldOut.Capacity != 3 || o.State != "HOLDING" {
		t.Errorf("bob: %s, %#v", o.State, err)
	}
	t.Run("a refunded order is never a sale", func(t *testing.T) { refundedIsNeverSold(t, c) })
}

// refundedIsNeverSold: the hold lapses and somebody else has the unit; the shop crashes while it refunds; the unit comes back, so that a
// confirm would sell it; and the shop goes on.
func refundedIsNeverSold(t *testing.T, c *client.Client) {
	var eves string
	slow := func() {
		storetest.Eventually(t, time.Minute, func() error { // until somebody else has bought the unit
			hold, err := c.Hold(t.Context(), client.Want{AllotmentID: "short", BuyerID: "eve", Quantity: 1})
			if err == nil {
				_, err = c.Confirm(t.Context(), hold.GetId(), "eve")
			}
			eves = hold.GetId()
			return err
		})
	}
	cid := order{Want: client.Want{AllotmentID: "short", BuyerID: "cid", Quantity: 1, RequestID: "order-3"}, State: "HOLDING"}
	s := &till{during: slow, fails: map[string]error{"refund": context.Canceled}}
	if o, err := checkout(t.Context(), c, s, cid); !errors.Is(err, context.Canceled) || o.State != "REFUNDING" {
		t.Fatalf("cid: %s, %v", o.State, err)
	}
	if _, err := c.CancelSale(t.Context(), &pb.CancelSaleRequest{HoldId: eves, RequestId: "return-1"}); err != nil {
		t.Fatal(err)
	}
	s.fails = nil
	if o, err := checkout(t.Context(), c, s, s.kept); err != nil || o.State != "REFUNDED" {
		t.Errorf("cid: %s, %v", o.State, err)
	}
	if !slices.Equal(s.did, []string{"PAYING", "pay", "PAID", "REFUNDING", "refund", "refund", "REFUNDED"}) {
		t.Errorf("did %v", s.did)
	}
	if sale, err := c.GetSale(t.Context(), &pb.GetSaleRequest{HoldId: s.kept.Hold}); err == nil {
		t.Errorf("refunded and sold: %v", sale)
	}
}
