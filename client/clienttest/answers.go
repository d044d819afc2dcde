package clienttest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// soon is when a script's answers ask to come again: tests are not to wait.
const soon = time.Millisecond

var errLost = errors.New("clienttest: the reply is lost")

// Answer answers one call.
type Answer func(ctx context.Context, request proto.Message) (proto.Message, error)

// Reply answers with a message, such as a *pb.CreateHoldResponse.
func Reply(m proto.Message) Answer {
	return func(context.Context, proto.Message) (proto.Message, error) { return m, nil }
}

// Refuse answers with a reason as the service does: with its code, its metadata and, where it asks to come again, a time to. facts are
// the metadata as key, value, key, value; what is not named is absent.
func Refuse(reason pb.ErrorReason, facts ...string) Answer {
	code, known := codeOf[reason]
	if !known || len(facts)%2 != 0 {
		panic("clienttest: Refuse needs a reason, and facts in pairs")
	}
	name := strings.TrimPrefix(reason.String(), "ERROR_REASON_")
	info := &errdetails.ErrorInfo{Reason: name, Domain: "holdfast.v1", Metadata: map[string]string{}}
	for i := 0; i < len(facts); i += 2 {
		info.Metadata[facts[i]] = facts[i+1]
	}
	details := []protoadapt.MessageV1{info}
	again := code == codes.Unavailable || code == codes.ResourceExhausted
	if again {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(soon)})
	}
	st, err := status.New(code, "as the script says").WithDetails(details...)
	if err != nil {
		panic("clienttest: " + err.Error()) // text that is not UTF-8
	}
	return func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		if again {
			_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", strconv.FormatInt(soon.Milliseconds(), 10))) // there is a call
		}
		return nil, st.Err()
	}
}

// Fail answers with a code and no reason, as gRPC itself and proxies do.
func Fail(code codes.Code) Answer {
	return func(context.Context, proto.Message) (proto.Message, error) {
		return nil, status.Error(code, "as the script says")
	}
}

// Lose ends the connection in place of an answer: the server has worked, and the caller never learns what came of it.
func Lose() Answer {
	return func(context.Context, proto.Message) (proto.Message, error) { return nil, errLost }
}

// codeOf is the code of each reason, as documented on it.
var codeOf = map[pb.ErrorReason]codes.Code{
	pb.ErrorReason_ERROR_REASON_SOLD_OUT:            codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_ALL_HELD:            codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_HOLD_CONFIRMING:     codes.Unavailable,
	pb.ErrorReason_ERROR_REASON_ORDER_EXISTS:        codes.AlreadyExists,
	pb.ErrorReason_ERROR_REASON_BUYER_LIMIT:         codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_NOT_OPEN:            codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_PAUSED:              codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_CLOSED:              codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_HOLD_LAPSED:         codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_HOLD_CANCELLED:      codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_HOLD_SOLD:           codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_SALE_CANCELLED:      codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_EXTENSION_LIMIT:     codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_REQUEST_MISMATCH:    codes.InvalidArgument,
	pb.ErrorReason_ERROR_REASON_ORDER_MISMATCH:      codes.AlreadyExists,
	pb.ErrorReason_ERROR_REASON_STALE_TOKEN:         codes.Aborted,
	pb.ErrorReason_ERROR_REASON_STALE_ETAG:          codes.Aborted,
	pb.ErrorReason_ERROR_REASON_RESULT_UNKNOWN:      codes.Unavailable,
	pb.ErrorReason_ERROR_REASON_CAPACITY_IN_USE:     codes.FailedPrecondition,
	pb.ErrorReason_ERROR_REASON_DIFFERENT_GROUPS:    codes.InvalidArgument,
	pb.ErrorReason_ERROR_REASON_ALLOTMENT_NOT_FOUND: codes.NotFound,
	pb.ErrorReason_ERROR_REASON_HOLD_NOT_FOUND:      codes.NotFound,
	pb.ErrorReason_ERROR_REASON_SALE_NOT_FOUND:      codes.NotFound,
	pb.ErrorReason_ERROR_REASON_BUYER_RATE_LIMITED:  codes.ResourceExhausted,
	pb.ErrorReason_ERROR_REASON_QUEUE_FULL:          codes.ResourceExhausted,
	pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE:   codes.Unavailable,
	pb.ErrorReason_ERROR_REASON_REBUILDING:          codes.Unavailable,
	pb.ErrorReason_ERROR_REASON_ALLOTMENT_EXISTS:    codes.AlreadyExists,
	pb.ErrorReason_ERROR_REASON_CALLER_UNKNOWN:      codes.Unauthenticated,
	pb.ErrorReason_ERROR_REASON_CALLER_NOT_ALLOWED:  codes.PermissionDenied,
}
