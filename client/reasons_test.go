package client_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-inventory/holdfast/client"
	"github.com/holdfast-inventory/holdfast/client/clienttest"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// again is what is tried again, by reason. All other reasons are final.
var again = map[string]bool{
	"SOLD_OUT": false, "ALL_HELD": false, "HOLD_CONFIRMING": true, "ORDER_EXISTS": false, "BUYER_LIMIT": false, "NOT_OPEN": false,
	"PAUSED": false, "CLOSED": false, "HOLD_LAPSED": false, "HOLD_CANCELLED": false, "HOLD_SOLD": false, "SALE_CANCELLED": false,
	"EXTENSION_LIMIT": false, "REQUEST_MISMATCH": false, "ORDER_MISMATCH": false, "STALE_TOKEN": false, "STALE_ETAG": false,
	"RESULT_UNKNOWN": true, "CAPACITY_IN_USE": false, "DIFFERENT_GROUPS": false, "ALLOTMENT_NOT_FOUND": false, "HOLD_NOT_FOUND": false,
	"SALE_NOT_FOUND": false, "BUYER_RATE_LIMITED": true, "QUEUE_FULL": true, "STORE_UNAVAILABLE": true, "REBUILDING": true,
	"ALLOTMENT_EXISTS": false, "CALLER_UNKNOWN": false, "CALLER_NOT_ALLOWED": false,
}

// documented is the code of a reason and whether it is tried again, as error_reason.proto says.
func documented(t *testing.T) map[string][2]string {
	t.Helper()
	source, err := os.ReadFile("../proto/holdfast/v1/error_reason.proto")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][2]string{}
	value := regexp.MustCompile(`((?: {2}//[^\n]*\n)+) {2}ERROR_REASON_([A-Z_]+) = [1-9]`)
	head := regexp.MustCompile(`^ {2}// ([A-Z_]+), (final|retry)`)
	for _, match := range value.FindAllStringSubmatch(string(source), -1) {
		says := head.FindStringSubmatch(match[1])
		if says == nil {
			t.Fatalf("%s: its comment does not begin with its code, and final or retry", match[2])
		}
		found[match[2]] = [2]string{says[1], says[2]}
	}
	return found
}

// TestEveryReason: a final answer is never tried again; others are, with the same request id.
func TestEveryReason(t *testing.T) {
	says := documented(t)
	for number, name := range pb.ErrorReason_name {
		reason := strings.TrimPrefix(name, "ERROR_REASON_")
		if number == 0 {
			continue
		}
		t.Run(reason, func(t *testing.T) {
			wanted, known := again[reason]
			if !known {
				t.Fatal("has no row")
			}
			if (says[reason][1] == "retry") != wanted {
				t.Errorf("is documented as %q", says[reason][1])
			}
			script := clienttest.NewScript()
			defer script.Close()
			script.On("CreateHold", clienttest.Refuse(pb.ErrorReason(number)), clienttest.Reply(held("r-1")))
			c := script.Client()
			defer c.Close()
			_, err := c.Hold(t.Context(), client.Want{AllotmentID: "concert", BuyerID: "ann", Quantity: 1})
			asked := script.Asked("CreateHold")
			if wanted {
				if err != nil || len(asked) != 2 {
					t.Fatalf("%d tries, %v", len(asked), err)
				}
				first, second := asked[0].(*pb.CreateHoldRequest).GetRequestId(), asked[1].(*pb.CreateHoldRequest).GetRequestId()
				if first == "" || first != second {
					t.Errorf("request ids %q and %q", first, second)
				}
				return
			}
			var refusal client.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != pb.ErrorReason(number) || len(asked) != 1 {
				t.Fatalf("%d tries, %#v", len(asked), err)
			}
			if got := strings.ToUpper(status.Code(err).String()); got != strings.ReplaceAll(says[reason][0], "_", "") {
				t.Errorf("code %s, documented %s", got, says[reason][0])
			}
		})
	}
	if len(again) != len(pb.ErrorReason_name)-1 || len(says) != len(again) {
		t.Errorf("%d rows and %d documented, of %d reasons", len(again), len(says), len(pb.ErrorReason_name)-1)
	}
}

// TestEveryCode is for answers without a reason: of gRPC itself, and of what is between.
func TestEveryCode(t *testing.T) {
	open := []codes.Code{codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.Internal, codes.Unavailable, codes.DataLoss}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		t.Run(code.String(), func(t *testing.T) {
			script := clienttest.NewScript()
			defer script.Close()
			script.On("ConfirmHold", clienttest.Fail(code), clienttest.Reply(&pb.ConfirmHoldResponse{Sale: &pb.Sale{OrderId: "o-1"}}))
			c := script.Client()
			defer c.Close()
			_, err := c.Confirm(t.Context(), "concert.x", "o-1")
			want := 1
			if slices.Contains(open, code) {
				want = 2
			}
			if got := len(script.Asked("ConfirmHold")); got != want || (err == nil) != (want == 2) {
				t.Errorf("%d tries, want %d; %v", got, want, err)
			}
		})
	}
}

// TestLostReply: the connection ends in place of an answer.
func TestLostReply(t *testing.T) {
	script := clienttest.NewScript()
	defer script.Close()
	script.On("CreateHold", clienttest.Lose()).On("CreateHold", clienttest.Lose(), clienttest.Reply(held("r-1")))
	c := script.Client()
	defer c.Close()
	hold, err := c.Hold(t.Context(), client.Want{AllotmentID: "concert", BuyerID: "ann", RequestID: "r-1", Quantity: 1})
	if err != nil || hold.GetId() != "concert.x" {
		t.Fatalf("%v, %v", hold, err)
	}
	for n, request := range script.Asked("CreateHold") {
		if id := request.(*pb.CreateHoldRequest).GetRequestId(); id != "r-1" {
			t.Errorf("try %d has request id %q", n+1, id)
		}
	}
}

func held(requestID string) *pb.CreateHoldResponse {
	return state(requestID, pb.HoldState_HOLD_STATE_HELD)
}

func state(requestID string, s pb.HoldState) *pb.CreateHoldResponse {
	return &pb.CreateHoldResponse{Hold: &pb.Hold{Id: "concert.x", AllotmentId: "concert", RequestId: requestID, State: s}}
}

// TestRepeatFindsHold: what a repeat finds is a hold while it is one, or a sale; else an error.
func TestRepeatFindsHold(t *testing.T) {
	tests := map[pb.HoldState]error{
		pb.HoldState_HOLD_STATE_HELD:       nil,
		pb.HoldState_HOLD_STATE_CONFIRMING: nil,
		pb.HoldState_HOLD_STATE_SOLD:       nil,
		pb.HoldState_HOLD_STATE_CANCELLED:  client.HoldCancelled{AllotmentID: "concert", HoldID: "concert.x"},
		pb.HoldState_HOLD_STATE_LAPSED:     client.HoldLapsed{AllotmentID: "concert", HoldID: "concert.x"},
	}
	for number := range pb.HoldState_name {
		found := pb.HoldState(number)
		if found == pb.HoldState_HOLD_STATE_UNSPECIFIED {
			continue
		}
		t.Run(found.String(), func(t *testing.T) {
			want, known := tests[found]
			if !known {
				t.Fatal("has no row")
			}
			script := clienttest.NewScript()
			defer script.Close()
			script.On("CreateHold", clienttest.Reply(state("r-1", found)))
			c := script.Client()
			defer c.Close()
			hold, err := c.Hold(t.Context(), client.Want{AllotmentID: "concert", BuyerID: "ann", RequestID: "r-1", Quantity: 1})
			if (hold == nil) != (want != nil) {
				t.Errorf("hold %v", hold)
			}
			if diff := cmp.Diff(want, err, cmpopts.IgnoreTypes(client.Refusal{})); diff != "" {
				t.Errorf("error differs (-want +got):\n%s", diff)
			}
			if client.HoldLost(err) != (want != nil) {
				t.Error("is not lost")
			}
		})
	}
}

// TestHoldLost: whose money goes back by itself. Of a hold that is not found that is for a person to say: the service may be the wrong one.
func TestHoldLost(t *testing.T) {
	lost := []pb.ErrorReason{
		pb.ErrorReason_ERROR_REASON_HOLD_LAPSED, pb.ErrorReason_ERROR_REASON_HOLD_CANCELLED, pb.ErrorReason_ERROR_REASON_SALE_CANCELLED,
	}
	for number, name := range pb.ErrorReason_name {
		reason := pb.ErrorReason(number)
		if want := slices.Contains(lost, reason); client.HoldLost(client.Refusal{Reason: reason}) != want {
			t.Errorf("%s: want %v", name, want)
		}
	}
	if client.HoldLost(client.Unknown{}) || client.HoldLost(nil) {
		t.Error("what is not known is lost")
	}
}

// TestRepeatFindsSale: one of which nothing is left is an error; one of which a part was cancelled is a sale.
func TestRepeatFindsSale(t *testing.T) {
	script := clienttest.NewScript().On("ConfirmHold", soldOf(0), soldOf(1), soldOf(2))
	defer script.Close()
	c := script.Client()
	defer c.Close()
	for cancelled := range int32(3) {
		sale, err := c.Confirm(t.Context(), "concert.x", "o-1")
		var refusal client.Refusal
		no := errors.As(err, &refusal) && refusal.Reason == pb.ErrorReason_ERROR_REASON_SALE_CANCELLED && refusal.Metadata["hold_id"] == "concert.x"
		if no != (cancelled == 2) || !no && (err != nil || sale.GetCancelledQuantity() != cancelled) {
			t.Errorf("%d of 2 cancelled: %v, %v", cancelled, sale, err)
		}
	}
}

// TestNumbers: the types carry what the service says.
func TestNumbers(t *testing.T) {
	lapse := time.Date(2026, 7, 30, 11, 0, 0, 123e6, time.UTC)
	stock := []string{
		"allotment_id", "concert", "capacity", "500", "sold", "499", "held", "1", "version", "7", "requested", "2",
		"next_lapse_time", "2026-07-30T11:00:00.123Z", "hold_id", "concert.y", "hold_remaining_seconds", "93.412",
	}
	window := []string{"allotment_id", "concert", "opens_at", "2026-07-30T11:00:00.123Z"}
	named := []string{"allotment_id", "concert", "hold_id", "concert.y", "order_id", "o-2", "field", "quantity"}
	limit := []string{
		"allotment_id", "concert", "limit", "4", "buyer_held", "3", "buyer_sold", "1", "requested", "2", "hold_id", "concert.y",
		"hold_remaining_seconds", "93.412",
	}
	tests := map[pb.ErrorReason]struct {
		facts []string
		want  error
	}{
		pb.ErrorReason_ERROR_REASON_SOLD_OUT: {stock, client.SoldOut{
			AllotmentID: "concert", Capacity: 500, Sold: 499, Held: 1, Requested: 2, Version: 7, NextLapse: lapse,
		}},
		pb.ErrorReason_ERROR_REASON_ALL_HELD: {stock, client.AllHeld{
			AllotmentID: "concert", Capacity: 500, Sold: 499, Held: 1, Requested: 2, Version: 7, NextLapse: lapse,
			HoldID: "concert.y", HoldRemaining: 93412 * time.Millisecond,
		}},
		pb.ErrorReason_ERROR_REASON_BUYER_LIMIT: {limit, client.BuyerLimit{
			AllotmentID: "concert", Limit: 4, BuyerHeld: 3, BuyerSold: 1, Requested: 2, HoldID: "concert.y", HoldRemaining: 93412 * time.Millisecond,
		}},
		pb.ErrorReason_ERROR_REASON_NOT_OPEN:         {window, client.NotOpen{AllotmentID: "concert", OpensAt: lapse}},
		pb.ErrorReason_ERROR_REASON_PAUSED:           {window, client.Paused{AllotmentID: "concert", OpensAt: lapse}},
		pb.ErrorReason_ERROR_REASON_CLOSED:           {window, client.Closed{AllotmentID: "concert", OpensAt: lapse}},
		pb.ErrorReason_ERROR_REASON_HOLD_LAPSED:      {named, client.HoldLapsed{AllotmentID: "concert", HoldID: "concert.y"}},
		pb.ErrorReason_ERROR_REASON_HOLD_CANCELLED:   {named, client.HoldCancelled{AllotmentID: "concert", HoldID: "concert.y"}},
		pb.ErrorReason_ERROR_REASON_HOLD_SOLD:        {named, client.HoldSold{AllotmentID: "concert", HoldID: "concert.y", OrderID: "o-2"}},
		pb.ErrorReason_ERROR_REASON_ORDER_EXISTS:     {named, client.OrderExists{AllotmentID: "concert", OrderID: "o-2", HoldID: "concert.y"}},
		pb.ErrorReason_ERROR_REASON_ORDER_MISMATCH:   {named, client.OrderMismatch{AllotmentID: "concert", HoldID: "concert.y", OrderID: "o-2"}},
		pb.ErrorReason_ERROR_REASON_REQUEST_MISMATCH: {named, client.RequestMismatch{Field: "quantity"}},
	}
	for reason, test := range tests {
		t.Run(reason.String(), func(t *testing.T) {
			script := clienttest.NewScript()
			defer script.Close()
			script.On("CancelHold", clienttest.Refuse(reason, test.facts...))
			c := script.Client()
			defer c.Close()
			err := c.Cancel(t.Context(), "concert.y")
			if diff := cmp.Diff(test.want, err, cmpopts.IgnoreTypes(client.Refusal{})); diff != "" {
				t.Errorf("error differs (-want +got):\n%s", diff)
			}
			var refusal client.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != reason || refusal.Metadata["allotment_id"] != "concert" {
				t.Errorf("refusal %#v", refusal)
			}
		})
	}
}

// TestUnknown: what is open when the tries end is no refusal, and the request id is there.
func TestUnknown(t *testing.T) {
	script := clienttest.NewScript()
	defer script.Close()
	full := clienttest.Refuse(pb.ErrorReason_ERROR_REASON_QUEUE_FULL)
	for range 11 {
		script.On("CreateHold", full)
	}
	script.On("CreateHold", func(ctx context.Context, request proto.Message) (proto.Message, error) {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "-1")) // not to come again
		return full(ctx, request)
	})
	c := script.Client()
	defer c.Close()
	_, err := c.Hold(t.Context(), client.Want{AllotmentID: "concert", BuyerID: "ann", Quantity: 1})
	var unknown client.Unknown
	var refusal client.Refusal
	if !errors.As(err, &unknown) || errors.As(err, &refusal) || client.HoldLost(err) {
		t.Fatalf("%#v", err)
	}
	asked := script.Asked("CreateHold")
	if unknown.Tries != 12 || len(asked) != 12 || unknown.Reason != pb.ErrorReason_ERROR_REASON_QUEUE_FULL ||
		unknown.RequestID != asked[0].(*pb.CreateHoldRequest).GetRequestId() {
		t.Errorf("%#v after %d tries", unknown, len(asked))
	}
}
