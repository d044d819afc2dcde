package client

import (
	"math/rand/v2"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

const (
	domain         = "holdfast.v1"
	reasonPrefix   = "ERROR_REASON_"
	pushbackKey    = "grpc-retry-pushback-ms"
	firstBackoff   = 50 * time.Millisecond
	longestBackoff = 2 * time.Second
	mostDoublings  = 6 // by then it is the longest
)

// answer is what came of a try that did not go well.
type answer struct {
	status   *status.Status
	reason   pb.ErrorReason // UNSPECIFIED: none, or one that is newer than this package
	metadata map[string]string
	fields   []*errdetails.BadRequest_FieldViolation

	asked bool          // the server said when to come again:
	after time.Duration // so much later
	never bool          // the server said not to
}

// readAnswer takes an error of gRPC's apart. Of RetryInfo and the pushback trailer, which say the same here, the trailer counts.
func readAnswer(err error, trailer metadata.MD) *answer {
	a := &answer{status: status.Convert(err)}
	for _, detail := range a.status.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == domain {
				a.reason = pb.ErrorReason(pb.ErrorReason_value[reasonPrefix+d.GetReason()])
				a.metadata = d.GetMetadata()
			}
		case *errdetails.BadRequest:
			a.fields = d.GetFieldViolations()
		case *errdetails.RetryInfo:
			a.asked, a.after = true, max(0, d.GetRetryDelay().AsDuration())
		}
	}
	if pushback := trailer.Get(pushbackKey); len(pushback) > 0 {
		millis, err := strconv.ParseUint(pushback[0], 10, 31)
		a.never = err != nil // also below 0, as gRPC's own retries take it
		a.asked, a.after = !a.never, time.Duration(millis)*time.Millisecond
	}
	return a
}

// open tells whether it is left open how the call ends. There is no other place that decides what is tried again.
func (a *answer) open() bool {
	switch a.reason {
	case pb.ErrorReason_ERROR_REASON_UNSPECIFIED:
		return a.openByCode()
	case pb.ErrorReason_ERROR_REASON_HOLD_CONFIRMING,
		pb.ErrorReason_ERROR_REASON_RESULT_UNKNOWN,
		pb.ErrorReason_ERROR_REASON_BUYER_RATE_LIMITED,
		pb.ErrorReason_ERROR_REASON_QUEUE_FULL,
		pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE,
		pb.ErrorReason_ERROR_REASON_REBUILDING:
		return true
	default:
		return false
	}
}

// openByCode is for answers that do not come from a decision: of gRPC itself, of what is between, or of a bug.
func (a *answer) openByCode() bool {
	switch a.status.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unknown, codes.Internal, codes.DataLoss:
		return true
	case codes.ResourceExhausted: // else the request or its answer is too large for gRPC
		return a.asked
	default:
		return false
	}
}

// turnedAway tells whether the try was refused before anybody looked at what it asks for, so that it tells nothing of tries before it.
func (a *answer) turnedAway() bool {
	switch a.status.Code() {
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented, codes.ResourceExhausted:
		return true
	default:
		return false
	}
}

// delay is how long to wait before the try that follows the nth: as the server asks, which has spread its callers, else with full jitter. Nobody
// is to come again at once and for ever: a server that asks for no time has asked for nothing.
func (a *answer) delay(try int) time.Duration {
	if a.asked && a.after > 0 {
		return a.after
	}
	return rand.N(min(longestBackoff, firstBackoff<<min(try-1, mostDoublings))) //nolint:gosec // jitter, not a secret
}
