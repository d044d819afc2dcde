package server

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-inventory/holdfast/server/auth"
	"github.com/holdfast-inventory/holdfast/store"
)

const (
	errorDomain     = "holdfast.v1"
	pushbackTrailer = "grpc-retry-pushback-ms" // what gRPC's own retries obey; they do not read RetryInfo
	internalText    = "internal error; the server's log has the cause"
)

// The reasons that come from trouble and not from a store.Refusal.
const (
	reasonResultUnknown    = "RESULT_UNKNOWN"
	reasonRateLimited      = "BUYER_RATE_LIMITED"
	reasonQueueFull        = "QUEUE_FULL"
	reasonStoreUnavailable = "STORE_UNAVAILABLE"
	reasonRebuilding       = "REBUILDING"
	reasonCallerUnknown    = "CALLER_UNKNOWN"
	reasonNotAllowed       = "CALLER_NOT_ALLOWED"
)

const outcomeDeadline = "DEADLINE_EXCEEDED"

// How long a caller is asked to wait before it repeats. Up to as much again is added at random, so
// that those who were refused together do not come back together.
const (
	retryConfirming = 100 * time.Millisecond
	retryUnknown    = 500 * time.Millisecond // a supervisor ends the step within 2 s
	retryQueueFull  = 50 * time.Millisecond
	retryStore      = 100 * time.Millisecond
	retryRebuilding = 50 * time.Millisecond
	retryStopping   = 100 * time.Millisecond
)

var (
	// errStopping ends streams when the server stops.
	errStopping = errors.New("server is stopping")
	// errPanic is what a recovered panic becomes; its stack has been logged.
	errPanic = errors.New("panic")
)

// failure is an error on its way to the caller. It keeps what the interceptors need to know.
type failure struct {
	status  *status.Status
	outcome string        // the label in metrics: the reason, or the code
	retry   time.Duration // when to repeat; 0: never
	cause   error         // what is to be logged; nil: nothing
}

// Error is the text for people.
func (f *failure) Error() string { return f.status.String() }

// GRPCStatus makes gRPC send the status as it is.
func (f *failure) GRPCStatus() *status.Status { return f.status }

// failureOf is the mapping of errors to statuses. There is no other.
func failureOf(err error) *failure {
	if refusal, ok := err.(*store.Refusal); ok { //nolint:errorlint // nearly every answer of a launch: no need to look inside
		return refused(refusal)
	}
	if known, ok := errors.AsType[*failure](err); ok {
		return known
	}
	switch {
	case errors.Is(err, store.ErrConstraint):
		return internal(err)
	case errors.Is(err, store.ErrResultUnknown): // whatever the step met on its way
		return retryable(codes.Unavailable, reasonResultUnknown, retryUnknown, nil)
	case errors.Is(err, errPanic):
		return newFailure(codes.Internal, internalText, "INTERNAL", 0)
	case errors.Is(err, errStopping):
		return newFailure(codes.Unavailable, "the server is stopping: open the stream again", "STOPPING", jittered(retryStopping))
	}
	if refusal, ok := errors.AsType[*store.Refusal](err); ok {
		return refused(refusal)
	}
	if field, ok := errors.AsType[*store.InvalidField](err); ok {
		return invalid(violation(field.Field, field.Problem))
	}
	if often, ok := errors.AsType[*tooOften](err); ok {
		return retryable(codes.ResourceExhausted, reasonRateLimited, often.wait,
			facts{{"limit", strconv.FormatFloat(often.limit, 'f', -1, 64)}})
	}
	if who, ok := errors.AsType[*auth.Unknown](err); ok {
		return newFailure(codes.Unauthenticated, who.Why, reasonCallerUnknown, 0, errorInfo(reasonCallerUnknown, nil))
	}
	if not, ok := errors.AsType[*notAllowed](err); ok {
		return newFailure(codes.PermissionDenied, not.Error(), reasonNotAllowed, 0, errorInfo(reasonNotAllowed, facts{{"caller", not.caller}}))
	}
	if over, ok := errors.AsType[*overloaded](err); ok {
		return comeAgain(codes.ResourceExhausted, reasonQueueFull, over.wait, nil)
	}
	if adopt, ok := errors.AsType[*store.AdoptNeeded](err); ok {
		return retryable(codes.Unavailable, reasonRebuilding, retryRebuilding, facts{{"allotment_id", adopt.Places[0].Allotment}})
	}
	return troubleOf(err)
}

func troubleOf(err error) *failure {
	switch {
	case errors.Is(err, store.ErrQueueFull):
		return retryable(codes.ResourceExhausted, reasonQueueFull, retryQueueFull, nil)
	case errors.Is(err, store.ErrRebuilding), errors.Is(err, store.ErrStale):
		return retryable(codes.Unavailable, reasonRebuilding, retryRebuilding, nil)
	case errors.Is(err, store.ErrUnavailable):
		return storeUnavailable(err)
	case errors.Is(err, context.DeadlineExceeded):
		return newFailure(codes.DeadlineExceeded, "the caller's deadline has passed", outcomeDeadline, 0)
	case errors.Is(err, context.Canceled):
		return newFailure(codes.Canceled, "the caller has gone", "CANCELLED", 0)
	}
	if st, ok := status.FromError(err); ok && st.Code() != codes.OK && st.Code() != codes.Unknown {
		return &failure{status: st, outcome: codeName(st.Code())}
	}
	return internal(err)
}

// storeUnavailable tells a store that refuses to work from one that does not answer.
func storeUnavailable(err error) *failure {
	text := troubleText(reasonStoreUnavailable)
	if no, ok := errors.AsType[*store.Rejection](err); ok {
		text = no.Store + " is up but refuses to work (" + no.Kind + "): repeat with the same ids"
	}
	return newFailure(codes.Unavailable, text, reasonStoreUnavailable, jittered(retryStore), errorInfo(reasonStoreUnavailable, nil))
}

// internal hides the cause from the caller.
func internal(err error) *failure {
	f := newFailure(codes.Internal, internalText, "INTERNAL", 0)
	f.cause = err
	return f
}

func refused(r *store.Refusal) *failure {
	code, text := refusalText(r)
	if code == codes.Unknown {
		return internal(r)
	}
	var retry time.Duration
	if code == codes.Unavailable {
		retry = jittered(retryConfirming)
	}
	return newFailure(code, text, string(r.Reason), retry, errorInfo(string(r.Reason), refusalMetadata(r)))
}

func retryable(code codes.Code, reason string, delay time.Duration, f facts) *failure {
	return comeAgain(code, reason, jittered(delay), f)
}

// comeAgain is trouble that is to be over after exactly so long.
func comeAgain(code codes.Code, reason string, delay time.Duration, f facts) *failure {
	return newFailure(code, troubleText(reason), reason, delay, errorInfo(reason, f))
}

func troubleText(reason string) string {
	switch reason {
	case reasonResultUnknown:
		return "it began, and how it ends is not known yet: repeat with the same ids"
	case reasonRateLimited:
		return "this buyer asks too often, nothing was decided: repeat later"
	case reasonQueueFull:
		return "too many requests wait, nothing was decided: repeat later"
	case reasonRebuilding:
		return "the allotment is being rebuilt, nothing was decided: repeat with the same ids"
	default:
		return "a store could not be reached in time: repeat with the same ids"
	}
}

// invalid is a request that breaks rules of its fields.
func invalid(violations ...*errdetails.BadRequest_FieldViolation) *failure {
	text := violations[0].GetField() + ": " + violations[0].GetDescription()
	if more := len(violations) - 1; more > 0 {
		text += " (and " + strconv.Itoa(more) + " more)"
	}
	return newFailure(codes.InvalidArgument, text, "INVALID_ARGUMENT", 0,
		packed(&errdetails.BadRequest{FieldViolations: violations}))
}

func violation(field, problem string) *errdetails.BadRequest_FieldViolation {
	return &errdetails.BadRequest_FieldViolation{Field: field, Description: problem}
}

// The fields of google.rpc.ErrorInfo, and of an entry of its map.
const (
	infoType     = "type.googleapis.com/google.rpc.ErrorInfo"
	infoReason   = 1
	infoDomain   = 2
	infoMetadata = 3
	entryKey     = 1
	entryValue   = 2
)

// errorInfo is a google.rpc.ErrorInfo, encoded. It is written by hand, since nearly every answer of a launch is a
// refusal: the generated code takes several times as long, most of it for the map.
func errorInfo(reason string, f facts) *anypb.Any {
	value := make([]byte, 0, 256)
	value = appendField(value, infoReason, reason)
	value = appendField(value, infoDomain, errorDomain)
	for _, fact := range f {
		size := protowire.SizeTag(entryKey) + protowire.SizeBytes(len(fact.key)) +
			protowire.SizeTag(entryValue) + protowire.SizeBytes(len(fact.value))
		value = protowire.AppendTag(value, infoMetadata, protowire.BytesType)
		value = protowire.AppendVarint(value, uint64(size)) //nolint:gosec // a size
		value = appendField(value, entryKey, fact.key)
		value = appendField(value, entryValue, fact.value)
	}
	return &anypb.Any{TypeUrl: infoType, Value: value}
}

func appendField(to []byte, number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(to, number, protowire.BytesType), text)
}

// packed is a detail of a status; nil if it has text that is not UTF-8.
func packed(m proto.Message) *anypb.Any {
	detail, err := anypb.New(m)
	if err != nil {
		return nil
	}
	return detail
}

func newFailure(code codes.Code, text, outcome string, retry time.Duration, details ...*anypb.Any) *failure {
	if retry > 0 {
		details = append(details, packed(&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)}))
	}
	st := &statuspb.Status{Code: int32(code), Message: text} //nolint:gosec // one of seventeen
	for _, d := range details {
		if d != nil {
			st.Details = append(st.Details, d)
		}
	}
	return &failure{status: status.FromProto(st), outcome: outcome, retry: retry}
}

func jittered(d time.Duration) time.Duration {
	d = min(d, time.Hour)
	return max(time.Millisecond, (d + rand.N(d)).Round(time.Millisecond)) //nolint:gosec // jitter, not a secret
}

// send does what goes with a failure beside its status: the trailer, and the log line of what nobody expected.
func (f *failure) send(ctx context.Context, log *slog.Logger, method string) {
	if f.retry > 0 {
		millis := strconv.FormatInt(f.retry.Milliseconds(), 10)
		// It fails only where there is no call, as in a test of the interceptors alone.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(pushbackTrailer, millis))
	}
	if f.cause != nil {
		log.ErrorContext(ctx, "call failed", "method", method, "error", f.cause)
	}
}

// codeName is a code as the gRPC specification spells it.
func codeName(c codes.Code) string {
	names := [...]string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
		"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
		"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
	}
	if int(c) < len(names) {
		return names[c]
	}
	return "UNKNOWN"
}
