package admin

import (
	"errors"
	"slices"
	"strings"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// callError is a call that failed, told for people: what the server said, the facts that it gave, and what to do.
type callError struct {
	status *status.Status
	reason string // a name of ErrorReason without its prefix; empty: none
	facts  []string
}

// explain turns a call's error into a *UsageError if the server names fields of the request, else into a *callError.
func explain(err error) error {
	e := &callError{status: statusOf(err)}
	for _, detail := range e.status.Details() {
		switch d := detail.(type) {
		case *errdetails.BadRequest:
			usage := &UsageError{}
			for _, v := range d.GetFieldViolations() {
				usage.Problems = append(usage.Problems, printable(v.GetField()+": "+v.GetDescription()))
			}
			return usage
		case *errdetails.ErrorInfo:
			e.reason = printable(d.GetReason())
			for key, value := range d.GetMetadata() {
				e.facts = append(e.facts, printable(key+"="+value))
			}
			slices.Sort(e.facts)
		}
	}
	return e
}

// statusOf is the status as the server sent it, without what the client says of its own repeats.
func statusOf(err error) *status.Status {
	var sent interface{ GRPCStatus() *status.Status }
	if errors.As(err, &sent) {
		return sent.GRPCStatus()
	}
	return status.Convert(err)
}

func (e *callError) Error() string {
	name := e.reason
	if name == "" {
		name = rpccode.Code(e.status.Proto().GetCode()).String() // as the documents spell it
	}
	lines := []string{name + ": " + printable(e.status.Message())}
	if len(e.facts) > 0 {
		lines = append(lines, strings.Join(e.facts, " "))
	}
	if advice := e.advice(); advice != "" {
		lines = append(lines, "what to do: "+advice)
	}
	return strings.Join(lines, "\n  ")
}

// unknown says that the call may have done its work all the same.
func (e *callError) unknown() bool {
	switch e.status.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unknown, codes.Internal:
		return true
	default:
		return false
	}
}

// advice is what to do about each reason that an operator's call can meet.
func (e *callError) advice() string {
	switch pb.ErrorReason(pb.ErrorReason_value["ERROR_REASON_"+e.reason]) {
	case pb.ErrorReason_ERROR_REASON_ALLOTMENT_EXISTS:
		return "take another id, or change the one that is there: holdfast admin update, holdfast admin adjust"
	case pb.ErrorReason_ERROR_REASON_ALLOTMENT_NOT_FOUND:
		return "see which there are: holdfast admin list"
	case pb.ErrorReason_ERROR_REASON_STALE_ETAG:
		return "it has changed since it was read: look at it (holdfast admin get) and, if you still want to, say it again with its etag"
	case pb.ErrorReason_ERROR_REASON_CAPACITY_IN_USE:
		return "remove so much that smallest_capacity is left, or wait until holds have lapsed or sales are cancelled"
	case pb.ErrorReason_ERROR_REASON_REQUEST_MISMATCH:
		return "this request id was used for another change, which stands: leave --request-id out for a new change"
	case pb.ErrorReason_ERROR_REASON_RESULT_UNKNOWN:
		return "it began, and is not undone: see how it ended (holdfast admin get), or repeat it"
	case pb.ErrorReason_ERROR_REASON_QUEUE_FULL:
		return "the server has more to do than it can: repeat it in some seconds"
	case pb.ErrorReason_ERROR_REASON_REBUILDING, pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE:
		return "repeat it; if it goes on, see which store is away or refuses: holdfast_store_up and holdfast_redis_rejections_total at /metrics, and the server's log"
	default:
		return adviceOn(e.status.Code())
	}
}

// adviceOn is what to do about a status that has no reason.
func adviceOn(code codes.Code) string {
	switch code {
	case codes.Unavailable:
		return "see whether a server listens there, and whether it wants TLS (--addr, --tls, --ca-file)"
	case codes.Unauthenticated:
		return "say who you are: --token-file, or --cert-file and --key-file"
	case codes.PermissionDenied:
		return "ask for a role that may do this"
	case codes.DeadlineExceeded:
		return "see whether the server at --addr answers other calls and, of a change, whether it was made (holdfast admin get); repeat it, with more --timeout"
	case codes.Unimplemented:
		return "the server does not offer this at --addr: operators' calls may be at its --admin-addr, and what watch shows at its --grpc-addr"
	default:
		return ""
	}
}
