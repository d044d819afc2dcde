package load

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/wire"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

func TestRequests(t *testing.T) {
	var e encoder
	for range 2 { // the memory is used again
		var create pb.CreateHoldRequest
		if err := proto.Unmarshal(e.createHold("a", history.Buyer{ID: "b", Request: "r", Quantity: 2}), &create); err != nil {
			t.Fatal(err)
		}
		if create.GetAllotmentId() != "a" || create.GetBuyerId() != "b" || create.GetRequestId() != "r" || create.GetQuantity() != 2 {
			t.Errorf("%v", &create)
		}
		var confirm pb.ConfirmHoldRequest
		if err := proto.Unmarshal(e.confirmHold("h", "o"), &confirm); err != nil {
			t.Fatal(err)
		}
		if confirm.GetHoldId() != "h" || confirm.GetOrderId() != "o" || confirm.Quantity != nil {
			t.Errorf("%v", &confirm)
		}
	}
}

// refusedWith is the answer of a status with details.
func refusedWith(t *testing.T, code codes.Code, details ...proto.Message) *wire.Answer {
	t.Helper()
	s := status.New(code, "text").Proto()
	for _, d := range details {
		with, err := status.FromProto(s).WithDetails(protoadapt.MessageV1Of(d))
		if err != nil {
			t.Fatal(err)
		}
		s = with.Proto()
	}
	raw, err := proto.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return &wire.Answer{At: time.Second, Code: code, Details: base64.RawStdEncoding.EncodeToString(raw)}
}

func TestRefusal(t *testing.T) {
	info := &errdetails.ErrorInfo{Reason: "SOLD_OUT", Domain: "holdfast.v1", Metadata: map[string]string{
		"allotment_id": "a", "capacity": "5000", "sold": "4999", "held": "1", "requested": "2", "version": "9", "next_lapse_time": "2026",
	}}
	numbers := history.Numbers{Capacity: 5000, Sold: 4999, Held: 1, Requested: 2}
	other := &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}
	padded := refusedWith(t, codes.FailedPrecondition, info)
	padded.Details += "==="[:(4-len(padded.Details)%4)%4]
	large := proto.Clone(info).(*errdetails.ErrorInfo)
	large.Metadata["allotment_id"] = strings.Repeat("x", 3000)
	for name, test := range map[string]struct {
		answer  *wire.Answer
		outcome history.Outcome
		reason  history.Reason
		numbers history.Numbers
	}{
		"sold out":                 {refusedWith(t, codes.FailedPrecondition, info), history.Refused, history.SoldOut, numbers},
		"with padding":             {padded, history.Refused, history.SoldOut, numbers},
		"behind another detail":    {refusedWith(t, codes.FailedPrecondition, other, info, other), history.Refused, history.SoldOut, numbers},
		"a large one":              {refusedWith(t, codes.FailedPrecondition, large), history.Refused, history.SoldOut, numbers},
		"another reason":           {refusedWith(t, codes.Unavailable, &errdetails.ErrorInfo{Reason: "REBUILDING"}), history.Trouble, "REBUILDING", history.Numbers{}},
		"no reason":                {refusedWith(t, codes.ResourceExhausted, other), history.Trouble, "RESOURCE_EXHAUSTED", history.Numbers{}},
		"no details":               {&wire.Answer{Code: codes.DeadlineExceeded}, history.Trouble, "DEADLINE_EXCEEDED", history.Numbers{}},
		"details that are no text": {&wire.Answer{Code: codes.Internal, Details: "?"}, history.Trouble, "INTERNAL", history.Numbers{}},
		"details cut off":          {&wire.Answer{Code: codes.NotFound, Details: padded.Details[:40]}, history.Refused, "NOT_FOUND", history.Numbers{}},
	} {
		t.Run(name, func(t *testing.T) {
			c := history.Call{Kind: history.CreateHold}
			read(&c, test.answer)
			if c.Outcome != test.outcome || c.Reason != test.reason || c.Numbers != test.numbers || c.Code != test.answer.Code {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	body, err := proto.Marshal(&pb.CreateHoldResponse{Hold: &pb.Hold{
		Id: "h", BuyerId: "b", RequestId: "r", Quantity: 2, State: pb.HoldState_HOLD_STATE_SOLD, OrderId: "o",
		FencingToken: &pb.FencingToken{Epoch: 3, Sequence: 4}, Remaining: durationpb.New(time.Minute),
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := history.Call{Kind: history.CreateHold}
	read(&c, &wire.Answer{At: time.Second, Body: body})
	want := history.Hold{
		ID: "h", Buyer: "b", Request: "r", Quantity: 2, State: history.Sold, Token: history.Token{Epoch: 3, Sequence: 4},
		Remaining: time.Minute, Order: "o",
	}
	if c.Outcome != history.Done || *c.Hold != want || c.Answered != time.Second {
		t.Errorf("%+v, hold %+v", c, c.Hold)
	}
	body, err = proto.Marshal(&pb.ConfirmHoldResponse{Sale: &pb.Sale{HoldId: "h", OrderId: "o", Quantity: 2, CancelledQuantity: 1}})
	if err != nil {
		t.Fatal(err)
	}
	c = history.Call{Kind: history.ConfirmHold}
	read(&c, &wire.Answer{Body: body})
	if (c.Outcome != history.Done || *c.Sale != history.Sale{HoldID: "h", Order: "o", Quantity: 2, Cancelled: 1}) {
		t.Errorf("%+v, sale %+v", c, c.Sale)
	}
	c = history.Call{Kind: history.CreateHold}
	read(&c, &wire.Answer{Body: []byte("\xff")})
	if c.Outcome != history.Trouble || c.Reason != "UNREADABLE" {
		t.Errorf("%+v", c)
	}
}

// TestStates: the states are numbered as the API numbers them.
func TestStates(t *testing.T) {
	for number, name := range pb.HoldState_name {
		if number == 0 {
			continue
		}
		if got := "HOLD_STATE_" + history.State(number).String(); got != name {
			t.Errorf("state %d is %s, want %s", number, got, name)
		}
	}
}
