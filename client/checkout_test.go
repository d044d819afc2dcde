package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-inventory/holdfast/client"
	"github.com/holdfast-inventory/holdfast/client/clienttest"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// till is a shop that remembers what it did. Calls and stores that fail are those for which fails has an error.
type till struct {
	did    []string // "pay", "refund", and the states stored
	kept   order    // as stored last
	answer string   // pay's; empty: PAID
	fails  map[string]error
	during func() // while the buyer pays
}

func (s *till) do(what string) error {
	s.did = append(s.did, what)
	return s.fails[what]
}

func (s *till) store(o order) error {
	err := s.do(o.State)
	if err == nil {
		s.kept = o
	}
	return err
}

func (s *till) pay(context.Context, order) (string, error) {
	if s.during != nil {
		s.during()
	}
	if s.answer == "" {
		s.answer = "PAID"
	}
	return s.answer, s.do("pay")
}

func (s *till) refund(context.Context, order) error { return s.do("refund") }

func orderIn(state string) order {
	return order{Want: client.Want{AllotmentID: "concert", BuyerID: "ann", Quantity: 2, RequestID: "o-1"}, State: state, Hold: "concert.x"}
}

// soldOf is the answer to a confirm whose sale has 2 units, and so many of them cancelled.
func soldOf(cancelled int32) clienttest.Answer {
	return clienttest.Reply(&pb.ConfirmHoldResponse{Sale: &pb.Sale{HoldId: "concert.x", Quantity: 2, CancelledQuantity: cancelled}})
}

// TestCheckoutGoesOn is what a checkout does from each state, whatever comes. Examples in other languages have the same table.
func TestCheckoutGoesOn(t *testing.T) {
	away := errors.New("away")
	hold, refuse := clienttest.Reply(held("o-1")), clienttest.Refuse
	lapsed := refuse(pb.ErrorReason_ERROR_REASON_HOLD_LAPSED)
	tests := map[string]struct {
		from      string
		hold      clienttest.Answer // CreateHold's; nil: not to be asked for
		confirm   clienttest.Answer // ConfirmHold's
		shop      till
		did, ends string
		fails     bool
	}{
		"sold":                           {from: "HOLDING", hold: hold, confirm: soldOf(0), did: "PAYING pay PAID SOLD", ends: "SOLD"},
		"sold out":                       {from: "HOLDING", hold: refuse(pb.ErrorReason_ERROR_REASON_SOLD_OUT), ends: "HOLDING", fails: true},
		"its hold has lapsed":            {from: "HOLDING", hold: clienttest.Reply(state("o-1", pb.HoldState_HOLD_STATE_LAPSED)), ends: "HOLDING", fails: true},
		"declined":                       {from: "HOLDING", hold: hold, shop: till{answer: "GIVEN_UP"}, did: "PAYING pay GIVEN_UP", ends: "GIVEN_UP"},
		"not stored, not charged":        {from: "HOLDING", hold: hold, shop: till{fails: map[string]error{"PAYING": away}}, did: "PAYING", ends: "HOLDING", fails: true},
		"not known whether paid":         {from: "PAYING", shop: till{fails: map[string]error{"pay": away}}, did: "pay", ends: "PAYING", fails: true},
		"payment is pending":             {from: "PAYING", shop: till{answer: "pending"}, did: "pay", ends: "PAYING"},
		"payment sells nothing":          {from: "PAYING", shop: till{answer: "SOLD"}, did: "pay", ends: "PAYING"},
		"crashed while paying":           {from: "PAYING", confirm: soldOf(0), did: "pay PAID SOLD", ends: "SOLD"},
		"paid is not charged again":      {from: "PAID", confirm: soldOf(0), did: "SOLD", ends: "SOLD"},
		"paid, and lapsed":               {from: "PAID", confirm: lapsed, did: "REFUNDING refund REFUNDED", ends: "REFUNDED"},
		"paid, and cancelled":            {from: "PAID", confirm: refuse(pb.ErrorReason_ERROR_REASON_HOLD_CANCELLED), did: "REFUNDING refund REFUNDED", ends: "REFUNDED"},
		"paid, and the sale cancelled":   {from: "PAID", confirm: soldOf(2), did: "REFUNDING refund REFUNDED", ends: "REFUNDED"},
		"paid, and a part cancelled":     {from: "PAID", confirm: soldOf(1), did: "SOLD", ends: "SOLD"},
		"paid, and no such hold":         {from: "PAID", confirm: refuse(pb.ErrorReason_ERROR_REASON_HOLD_NOT_FOUND), ends: "PAID", fails: true},
		"paid, and another no":           {from: "PAID", confirm: refuse(pb.ErrorReason_ERROR_REASON_ORDER_MISMATCH), ends: "PAID", fails: true},
		"no refund before it is stored":  {from: "PAID", confirm: lapsed, shop: till{fails: map[string]error{"REFUNDING": away}}, did: "REFUNDING", ends: "PAID", fails: true},
		"refund fails":                   {from: "REFUNDING", shop: till{fails: map[string]error{"refund": away}}, did: "refund", ends: "REFUNDING", fails: true},
		"a refund is never a sale again": {from: "REFUNDING", did: "refund REFUNDED", ends: "REFUNDED"},
		"sold before":                    {from: "SOLD", ends: "SOLD"},
		"refunded before":                {from: "REFUNDED", ends: "REFUNDED"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			script := clienttest.NewScript().On("CancelHold", clienttest.Reply(&pb.CancelHoldResponse{}))
			defer script.Close()
			if test.hold != nil {
				script.On("CreateHold", test.hold)
			}
			if test.confirm != nil {
				script.On("ConfirmHold", test.confirm)
			}
			c := script.Client()
			defer c.Close()
			s := &test.shop
			s.kept = orderIn(test.from)
			o, err := checkout(t.Context(), c, s, s.kept)
			if (err != nil) != test.fails || o != s.kept || o.State != test.ends {
				t.Errorf("ends %s, stored %s, %v; want %s", o.State, s.kept.State, err, test.ends)
			}
			if did := strings.Join(s.did, " "); did != test.did {
				t.Errorf("did %q, want %q", did, test.did)
			}
			if gaveBack := len(script.Asked("CancelHold")) == 1; gaveBack != (test.ends == "GIVEN_UP") {
				t.Errorf("gave the hold back: %v", gaveBack)
			}
			if test.confirm == nil && len(script.Asked("ConfirmHold")) > 0 {
				t.Error("confirmed")
			}
		})
	}
}

// TestBuyerLeaves while paying: the hold is given back all the same, and nothing is left open.
func TestBuyerLeaves(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	script := clienttest.NewScript().On("CreateHold", clienttest.Reply(held("o-1"))).On("CancelHold", clienttest.Reply(&pb.CancelHoldResponse{}))
	defer script.Close()
	c := script.Client()
	defer c.Close()
	o, err := checkout(ctx, c, &till{answer: "GIVEN_UP", during: leave}, orderIn("HOLDING"))
	if err != nil || o.State != "GIVEN_UP" || len(script.Asked("CancelHold")) != 1 {
		t.Errorf("ends %s, %v; %d cancels", o.State, err, len(script.Asked("CancelHold")))
	}
}

// TestBuyerLeavesPaid: it is sold all the same.
func TestBuyerLeavesPaid(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	script := clienttest.NewScript().On("CreateHold", clienttest.Reply(held("o-1"))).On("ConfirmHold", soldOf(0))
	defer script.Close()
	c := script.Client()
	defer c.Close()
	if o, err := checkout(ctx, c, &till{during: leave}, orderIn("HOLDING")); err != nil || o.State != "SOLD" {
		t.Errorf("ends %s, %v", o.State, err)
	}
}

// TestConfirmUnknownThenLate: the network is gone between payment and confirm, for longer than the hold lasts. The paid order goes on with its
// confirm, is neither held nor charged again, and ends sold or refunded.
func TestConfirmUnknownThenLate(t *testing.T) {
	for ends, answer := range map[string]clienttest.Answer{
		"SOLD": soldOf(0), "REFUNDED": clienttest.Refuse(pb.ErrorReason_ERROR_REASON_HOLD_LAPSED),
	} {
		script := clienttest.NewScript().On("CreateHold", clienttest.Reply(held("o-1"))).On("ConfirmHold", clienttest.Lose())
		defer script.Close()
		c := script.Client()
		defer c.Close()
		s := &till{}
		o, err := checkout(t.Context(), c, s, orderIn("HOLDING")) // its second try is turned away
		if _, unknown := errors.AsType[client.Unknown](err); !unknown || o.State != "PAID" {
			t.Fatalf("ends %s, %v; want PAID, and unknown", o.State, err)
		}
		script.On("ConfirmHold", answer)
		o, err = checkout(t.Context(), c, s, s.kept)
		paid := slices.DeleteFunc(slices.Clone(s.did), func(did string) bool { return did != "pay" })
		if err != nil || o.State != ends || len(paid) != 1 || len(script.Asked("CreateHold")) != 1 {
			t.Errorf("ends %s, %v, did %v; want %s", o.State, err, s.did, ends)
		}
	}
}
