package load

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/wire"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// methods are those that a load calls, by history.Kind.
func methods(decision, confirm time.Duration) []wire.Method {
	return []wire.Method{
		history.CreateHold:  {Path: pb.InventoryService_CreateHold_FullMethodName, Timeout: decision},
		history.ConfirmHold: {Path: pb.InventoryService_ConfirmHold_FullMethodName, Timeout: confirm},
	}
}

// encoder writes requests, each into the same memory.
type encoder struct {
	create  pb.CreateHoldRequest
	confirm pb.ConfirmHoldRequest
	buffer  []byte
}

func (e *encoder) createHold(allotment string, b history.Buyer) []byte {
	e.create.AllotmentId, e.create.BuyerId, e.create.RequestId = allotment, b.ID, b.Request
	e.create.Quantity = int32(b.Quantity) //nolint:gosec // one or two
	return e.marshal(&e.create)
}

func (e *encoder) confirmHold(hold, order string) []byte {
	e.confirm.HoldId, e.confirm.OrderId = hold, order
	return e.marshal(&e.confirm)
}

func (e *encoder) marshal(m proto.Message) []byte {
	out, err := proto.MarshalOptions{}.MarshalAppend(e.buffer[:0], m)
	if err != nil {
		panic(fmt.Sprintf("a request that can not be written: %v", err)) // its texts are ours
	}
	e.buffer = out
	return out
}

// read notes in c what an answer says.
func read(c *history.Call, a *wire.Answer) {
	c.Answered, c.Code = a.At, a.Code
	if a.Code != codes.OK {
		c.Reason, c.Numbers = refusal(a)
		c.Outcome = history.Trouble
		if final(a.Code) {
			c.Outcome = history.Refused
		}
		return
	}
	c.Outcome = history.Done
	var err error
	if c.Kind == history.CreateHold {
		c.Hold, err = readHold(a.Body)
	} else {
		c.Sale, err = readSale(a.Body)
	}
	if err != nil {
		c.Outcome, c.Reason = history.Trouble, "UNREADABLE"
	}
}

// final tells whether a code says that the same call can not succeed.
func final(c codes.Code) bool {
	switch c {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated, codes.Aborted:
		return true
	default:
		return false
	}
}

func readHold(body []byte) (*history.Hold, error) {
	var m pb.CreateHoldResponse
	if err := proto.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	h := Hold(m.GetHold())
	return &h, nil
}

func readSale(body []byte) (*history.Sale, error) {
	var m pb.ConfirmHoldResponse
	if err := proto.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	s := Sale(m.GetSale())
	return &s, nil
}

// Hold is a hold as the verdict needs it.
func Hold(h *pb.Hold) history.Hold {
	return history.Hold{
		ID: h.GetId(), Buyer: h.GetBuyerId(), Request: h.GetRequestId(), Quantity: int64(h.GetQuantity()),
		State: history.State(h.GetState()), //nolint:gosec // one of six
		Token: token(h.GetFencingToken()), Remaining: h.GetRemaining().AsDuration(), Order: h.GetOrderId(),
	}
}

// Sale is a sale as the verdict needs it.
func Sale(s *pb.Sale) history.Sale {
	return history.Sale{
		HoldID: s.GetHoldId(), Order: s.GetOrderId(), Quantity: int64(s.GetQuantity()),
		Cancelled: int64(s.GetCancelledQuantity()), Token: token(s.GetFencingToken()),
	}
}

func token(t *pb.FencingToken) history.Token {
	return history.Token{Epoch: t.GetEpoch(), Sequence: t.GetSequence()}
}

// Numbers of fields: google.rpc.Status, google.protobuf.Any, google.rpc.ErrorInfo, and an entry of a map.
const (
	statusDetails = 3
	anyType       = 1
	anyValue      = 2
	infoReason    = 1
	infoMetadata  = 3
	entryKey      = 1
	entryValue    = 2
)

// refusal finds the reason and the numbers of a status. Most answers of a launch are refusals, so they are looked
// through in place: unmarshalling them would cost more than sending the requests. Without an ErrorInfo the reason is the
// name of the code.
func refusal(a *wire.Answer) (history.Reason, history.Numbers) {
	var n history.Numbers
	reason := history.Reason(code.Code(a.Code).String()) //nolint:gosec // one of seventeen
	var space [1024]byte
	details := strings.TrimRight(a.Details, "=")
	raw := space[:]
	if size := base64.RawStdEncoding.DecodedLen(len(details)); size > len(raw) {
		raw = make([]byte, size)
	}
	size, err := base64.RawStdEncoding.Decode(raw, []byte(details))
	if err != nil {
		return reason, n
	}
	each(raw[:size], func(field protowire.Number, value []byte) {
		if field != statusDetails {
			return
		}
		var info []byte
		isInfo := false
		each(value, func(field protowire.Number, value []byte) {
			switch field {
			case anyType:
				isInfo = strings.HasSuffix(string(value), "/google.rpc.ErrorInfo")
			case anyValue:
				info = value
			}
		})
		if isInfo {
			reason = errorInfo(info, &n)
		}
	})
	return reason, n
}

func errorInfo(info []byte, n *history.Numbers) (reason history.Reason) {
	each(info, func(field protowire.Number, value []byte) {
		switch field {
		case infoReason:
			reason = intern(value)
		case infoMetadata:
			var key, text []byte
			each(value, func(field protowire.Number, value []byte) {
				switch field {
				case entryKey:
					key = value
				case entryValue:
					text = value
				}
			})
			note(n, key, text)
		}
	})
	return reason
}

func note(n *history.Numbers, key, text []byte) {
	var to *int64
	switch string(key) {
	case "capacity":
		to = &n.Capacity
	case "sold":
		to = &n.Sold
	case "held":
		to = &n.Held
	case "requested":
		to = &n.Requested
	default:
		return
	}
	if number, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		*to = number
	}
}

// intern returns the reasons that come often without making a text of each.
func intern(reason []byte) history.Reason {
	switch string(reason) {
	case string(history.SoldOut):
		return history.SoldOut
	case string(history.AllHeld):
		return history.AllHeld
	default:
		return history.Reason(reason)
	}
}

// each calls f for each field that is bytes, text or a message. What is no message ends it.
func each(message []byte, f func(protowire.Number, []byte)) {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
				return
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return
		}
		f(field, value)
		message = message[n:]
	}
}
