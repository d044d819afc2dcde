package clienttest_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-inventory/holdfast/client"
	"github.com/holdfast-inventory/holdfast/client/clienttest"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

func TestScriptEnds(t *testing.T) {
	script := clienttest.NewScript().On("CancelHold", clienttest.Reply(&pb.CancelHoldResponse{}))
	defer script.Close()
	c := script.Client()
	defer c.Close()
	if err := c.Cancel(t.Context(), "concert.x"); err != nil {
		t.Error(err)
	}
	if err := c.Cancel(t.Context(), "concert.y"); status.Code(err) != codes.Unimplemented {
		t.Errorf("a call for which no answer is left: %v", err)
	}
	if asked := script.Asked("CancelHold"); len(asked) != 2 || asked[1].(*pb.CancelHoldRequest).GetHoldId() != "concert.y" {
		t.Errorf("asked %v", asked)
	}
}

// TestAnswerOfAnotherMethod: bytes of one message are often another, too.
func TestAnswerOfAnotherMethod(t *testing.T) {
	hold := &pb.Hold{Id: "concert.x"}
	for _, answer := range []proto.Message{&pb.GetHoldResponse{Hold: hold}, nil} {
		script := clienttest.NewScript().On("CreateHold", clienttest.Reply(answer))
		defer script.Close()
		c := script.Client()
		defer c.Close()
		if hold, err := c.Hold(t.Context(), client.Want{RequestID: "cart-17"}); status.Code(err) != codes.Unimplemented {
			t.Errorf("CreateHold, answered with %T: %v, %v", answer, hold, err)
		}
	}
}

func TestScriptIsWrong(t *testing.T) {
	script := clienttest.NewScript()
	defer script.Close()
	half := []string{"capacity"}
	wrong := map[string]func(){
		"a stream":       func() { script.On("WatchAvailability") },
		"no such method": func() { script.On("Hold") },
		"no reason":      func() { clienttest.Refuse(pb.ErrorReason_ERROR_REASON_UNSPECIFIED) },
		"half of a fact": func() { clienttest.Refuse(pb.ErrorReason_ERROR_REASON_SOLD_OUT, half...) },
		"text not UTF-8": func() { clienttest.Refuse(pb.ErrorReason_ERROR_REASON_SOLD_OUT, "capacity", "\xff") },
		"unknown to all": func() { clienttest.Refuse(999) },
	}
	for name, call := range wrong {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("does not panic")
				}
			}()
			call()
		})
	}
}
