package client_test

import (
	"errors"
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
	dev.Create(t, "concert", 2)
	var paid, refunded []string
	pay := func(o order, _ *pb.Hold) error {
		paid = append(paid, o.id)
		return nil
	}
	refund := func(o order) error {
		refunded = append(refunded, o.id)
		return nil
	}
	ann := order{"order-1", "concert", "ann", 2}
	for range 2 { // the second finds what the first did
		if sale, err := checkout(t.Context(), c, ann, pay, refund); err != nil || sale.GetQuantity() != 2 {
			t.Fatalf("%v, %v", sale, err)
		}
	}
	_, err := checkout(t.Context(), c, order{"order-2", "concert", "bob", 1}, pay, refund)
	if soldOut, ok := errors.AsType[client.SoldOut](err); !ok || soldOut.Sold != 2 || soldOut.Capacity != 2 {
		t.Errorf("bob: %#v", err)
	}

	slow := func(o order, hold *pb.Hold) error {
		storetest.Eventually(t, time.Minute, func() error { // until somebody else has bought the unit
			eves, err := c.Hold(t.Context(), client.Want{AllotmentID: "short", BuyerID: "eve", Quantity: 1})
			if err == nil {
				_, err = c.Confirm(t.Context(), eves.GetId(), "eve")
			}
			return err
		})
		return pay(o, hold)
	}
	_, err = checkout(t.Context(), c, order{"order-3", "short", "cid", 1}, slow, refund)
	if _, ok := errors.AsType[client.HoldLapsed](err); !ok {
		t.Errorf("cid: %#v", err)
	}
	if len(paid) != 2 || len(refunded) != 1 || refunded[0] != "order-3" {
		t.Errorf("paid %v, refunded %v", paid, refunded)
	}
}
