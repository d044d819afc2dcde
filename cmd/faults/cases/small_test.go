package cases

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-inventory/holdfast/cmd/faults/linear"
)

// TestOutcomes: whatever is final is an outcome: a server that does not know an acknowledged hold any more is not merely in trouble.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]linear.Outcome{
		codes.OK: linear.Done, codes.FailedPrecondition: linear.Refused, codes.NotFound: linear.Refused, codes.AlreadyExists: linear.Refused,
		codes.InvalidArgument: linear.Refused, codes.Aborted: linear.Refused,
		codes.Unavailable: linear.Unknown, codes.ResourceExhausted: linear.Unknown, codes.DeadlineExceeded: linear.Unknown,
		codes.Canceled: linear.Unknown, codes.Unknown: linear.Unknown, codes.Internal: linear.Unknown,
	} {
		if got := outcomeOf(status.Error(code, "")); got != want {
			t.Errorf("%v is outcome %d, want %d", code, got, want)
		}
	}
	if got := outcomeOf(errors.Join(context.Canceled)); got != linear.Unknown {
		t.Errorf("no answer is outcome %d", got)
	}
}
