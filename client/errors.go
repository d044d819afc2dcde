package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// Refusal is a no: the server has decided, and the same call gets the same answer until something else changes. Reasons that a checkout acts on
// have types of their own, in which it is found by errors.As like any other.
type Refusal struct {
	// Reason is why. UNSPECIFIED for field errors ([InvalidRequest]), and for one that is newer than this package.
	Reason pb.ErrorReason
	// Metadata is what the server says beside, as documented on the reason.
	Metadata map[string]string

	status *status.Status
}

// Error is for people.
func (r Refusal) Error() string { return text(r.Reason, r.status) }

// As lets errors.As find the Refusal in the types that have one inside.
func (r Refusal) As(target any) bool {
	into, ok := target.(*Refusal)
	if ok {
		*into = r
	}
	return ok
}

// GRPCStatus is the status as the server sent it.
func (r Refusal) GRPCStatus() *status.Status { return r.status }

// Unknown is neither yes nor no: the time is over, and the call may have been done. The same call with the same ids tells.
type Unknown struct {
	// RequestID is that of the request, if it has one: keep it for the repeat.
	RequestID string
	// Tries is how often it was tried.
	Tries int
	// Reason is the last that the server gave. UNSPECIFIED: no answer came, or one without a reason.
	Reason pb.ErrorReason
	// RetryAfter is how long the server asked to wait. 0: it did not.
	RetryAfter time.Duration

	status *status.Status
	ended  error // the context's
}

// Error is for people.
func (u Unknown) Error() string {
	times := "1 try"
	if u.Tries > 1 {
		times = strconv.Itoa(u.Tries) + " tries"
	}
	return fmt.Sprintf("%s (not known whether it was done, after %s: repeat with the same ids)", text(u.Reason, u.status), times)
}

// GRPCStatus is that of the last try.
func (u Unknown) GRPCStatus() *status.Status { return u.status }

// Unwrap is the end of the context, if that was the end of the tries.
func (u Unknown) Unwrap() error { return u.ended }

func unknown(ctx context.Context, a *answer, request any, tries int) error {
	u := Unknown{Tries: tries, Reason: a.reason, RetryAfter: a.after, status: a.status, ended: ctx.Err()}
	if named, ok := request.(interface{ GetRequestId() string }); ok {
		u.RequestID = named.GetRequestId()
	}
	return u
}

// text is the reason or the code, as the documents spell them, and what the server says.
func text(reason pb.ErrorReason, st *status.Status) string {
	name := strings.TrimPrefix(reason.String(), reasonPrefix)
	if reason == pb.ErrorReason_ERROR_REASON_UNSPECIFIED {
		name = rpccode.Code(st.Proto().GetCode()).String()
	}
	return "holdfast: " + name + ": " + st.Message()
}

// HoldLost tells of an error of Confirm that the buyer does not get the units, and is to be refunded if the order is paid: the hold has lapsed and
// could not be taken again, or it was cancelled, or the sale was, as a whole.
//
// A lapsed hold is not gone for good: a later confirm sells it if its units have come back meanwhile. So store that the order is to be
// refunded before the money goes back, and never confirm it after that.
//
// Of a cart it is to be asked of the error of BatchConfirmHolds alone: one that is joined with those of its sales ([Returned]) is of a part.
//
// HOLD_NOT_FOUND is none of these. It is said of a hold that ended more than 24 h ago, but of every hold by a service that is not the one that
// holds it: a person has to look.
func HoldLost(err error) bool {
	var r Refusal
	if !errors.As(err, &r) {
		return false
	}
	switch r.Reason {
	case pb.ErrorReason_ERROR_REASON_HOLD_LAPSED, pb.ErrorReason_ERROR_REASON_HOLD_CANCELLED, pb.ErrorReason_ERROR_REASON_SALE_CANCELLED:
		return true
	default:
		return false
	}
}

// Ended is the error of a hold that a repeat found LAPSED or CANCELLED: [HoldLapsed] or [HoldCancelled]. Else nil. Hold looks by itself; ask for
// the holds of a cart (BatchCreateHolds).
func Ended(hold *pb.Hold) error {
	var reason pb.ErrorReason
	switch hold.GetState() {
	case pb.HoldState_HOLD_STATE_LAPSED:
		reason = pb.ErrorReason_ERROR_REASON_HOLD_LAPSED
	case pb.HoldState_HOLD_STATE_CANCELLED:
		reason = pb.ErrorReason_ERROR_REASON_HOLD_CANCELLED
	default:
		return nil
	}
	return refusalOf(&answer{
		status:   status.New(codes.FailedPrecondition, "the repeat found the hold "+hold.GetId()+" ended: a new intent needs a new request id"),
		reason:   reason,
		metadata: map[string]string{"hold_id": hold.GetId(), "allotment_id": hold.GetAllotmentId()},
	})
}

// Returned is the error, a [Refusal] with SALE_CANCELLED, of a sale of which nothing is left, since all of it has been cancelled. Else nil. Confirm
// looks by itself; ask for the sales of a cart (BatchConfirmHolds).
func Returned(sale *pb.Sale) error {
	if sale.GetQuantity() == 0 || sale.GetCancelledQuantity() < sale.GetQuantity() {
		return nil
	}
	return refusalOf(&answer{
		status: status.New(codes.FailedPrecondition, "the repeat found the sale of hold "+sale.GetHoldId()+" cancelled as a whole"),
		reason: pb.ErrorReason_ERROR_REASON_SALE_CANCELLED,
		metadata: map[string]string{
			"hold_id": sale.GetHoldId(), "allotment_id": sale.GetAllotmentId(), "order_id": sale.GetOrderId(),
		},
	})
}
