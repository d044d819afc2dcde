package client

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// tries plays calls against what each try is to come to, by the clock of a synctest bubble.
type tries struct {
	began []time.Duration // of each, since the start
	limit []time.Duration // that each was given
	start time.Time
}

// call makes a call; try says what comes of the nth try, and what the trailer has.
func (c *tries) call(ctx context.Context, method string, try func(ctx context.Context, n int) (metadata.MD, error)) error {
	c.start = time.Now()
	request := &pb.CreateHoldRequest{RequestId: "r-1"}
	return repeat(ctx, method, request, nil, nil, func(
		ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, options ...grpc.CallOption,
	) error {
		c.began = append(c.began, time.Since(c.start))
		deadline, _ := ctx.Deadline()
		c.limit = append(c.limit, time.Until(deadline))
		trailer, err := try(ctx, len(c.began))
		for _, o := range options {
			if into, ok := o.(grpc.TrailerCallOption); ok {
				*into.TrailerAddr = trailer
			}
		}
		return err
	})
}

const (
	decides  = pb.InventoryService_CreateHold_FullMethodName
	confirms = pb.InventoryService_ConfirmHold_FullMethodName
)

func unavailable() error { return status.Error(codes.Unavailable, "away") }

func pushback(millis string) metadata.MD { return metadata.Pairs("grpc-retry-pushback-ms", millis) }

func retryInfo(d time.Duration) error {
	st, err := status.New(codes.Unavailable, "away").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		panic(err)
	}
	return st.Err()
}

func TestTriesWaitAsAsked(t *testing.T) {
	tests := map[string]struct {
		err     error
		trailer metadata.MD
		want    time.Duration
	}{
		"pushback":                {unavailable(), pushback("700"), 700 * time.Millisecond},
		"RetryInfo":               {retryInfo(300 * time.Millisecond), nil, 300 * time.Millisecond},
		"pushback over RetryInfo": {retryInfo(300 * time.Millisecond), pushback("700"), 700 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c tries
				err := c.call(t.Context(), decides, func(_ context.Context, n int) (metadata.MD, error) {
					if n == 2 {
						return nil, nil
					}
					return test.trailer, test.err
				})
				if err != nil || len(c.began) != 2 || c.began[1] != test.want {
					t.Errorf("tries at %v, %v; want the second after %v", c.began, err, test.want)
				}
			})
		})
	}
}

// TestTriesGoOnForTheirTime: a call outlasts a store that is away for less than the call's time, which alone ends the tries. Who is told to come
// again after no time at all does not do so at once.
func TestTriesGoOnForTheirTime(t *testing.T) {
	for method, all := range map[string]time.Duration{decides: 5 * time.Second, confirms: 15 * time.Second} {
		for name, trailer := range map[string]metadata.MD{"no pushback": nil, "pushback of 0": pushback("0")} {
			t.Run(method+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var c tries
					err := c.call(t.Context(), method, func(_ context.Context, n int) (metadata.MD, error) {
						if n > 1000 {
							return nil, status.Error(codes.FailedPrecondition, "the tries do not end")
						}
						return trailer, unavailable()
					})
					var unknown Unknown
					if !errors.As(err, &unknown) || unknown.Tries != len(c.began) || unknown.RequestID != "r-1" || status.Code(err) != codes.Unavailable {
						t.Errorf("ends with %#v (%v)", err, err)
					}
					if took := time.Since(c.start); took > all || took < all-longestBackoff {
						t.Errorf("ends after %v, want %v", took, all)
					}
					for n := range c.began[1:] {
						waited, most := c.began[n+1]-c.began[n], min(longestBackoff, firstBackoff<<min(n, mostDoublings))
						if waited < 0 || waited >= most {
							t.Errorf("try %d came %v after the one before, want less than %v", n+2, waited, most)
						}
					}
				})
			})
		}
	}
}

// TestNoStatus: gRPC's retries have been seen to let an io.EOF through. It does not say that nothing was done.
func TestNoStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tries
		err := c.call(t.Context(), confirms, func(_ context.Context, n int) (metadata.MD, error) {
			if n == 1 {
				return nil, io.EOF
			}
			return nil, nil
		})
		if err != nil || len(c.began) != 2 {
			t.Errorf("%d tries, %v", len(c.began), err)
		}
	})
}

// TestBackoffHasFullJitter: waits spread over the whole of their range.
func TestBackoffHasFullJitter(t *testing.T) {
	a := &answer{status: status.New(codes.Unavailable, "")}
	for _, try := range []int{1, 2, 6, 7, 100} {
		most := min(longestBackoff, firstBackoff<<min(try-1, mostDoublings))
		var quarters [4]int
		for range 400 {
			quarters[min(3, int(4*a.delay(try)/most))]++
		}
		for quarter, n := range quarters {
			if n < 50 { // 100 are expected: 5.8 standard deviations
				t.Errorf("of 400 waits before try %d %d are in quarter %d of %v", try+1, n, quarter+1, most)
			}
		}
	}
}

func TestServerSaysNever(t *testing.T) {
	for _, pushed := range []string{"-1", "soon", ""} {
		var c tries
		err := c.call(t.Context(), decides, func(context.Context, int) (metadata.MD, error) { return pushback(pushed), unavailable() })
		var unknown Unknown
		if len(c.began) != 1 || !errors.As(err, &unknown) {
			t.Errorf("pushback %q: %d tries, %v", pushed, len(c.began), err)
		}
	}
}

// TestTimes: a try that gets no answer ends, and the call with its time, which is the context's if that has any.
func TestTimes(t *testing.T) {
	tests := map[string]struct {
		method   string
		given    time.Duration // 0: none
		try, all time.Duration
	}{
		"a decision":            {method: decides, try: 2 * time.Second, all: 5 * time.Second},
		"a confirm":             {method: confirms, try: 5 * time.Second, all: 15 * time.Second},
		"with less time":        {method: confirms, given: 300 * time.Millisecond, try: 300 * time.Millisecond, all: 300 * time.Millisecond},
		"with more than it has": {method: decides, given: time.Minute, try: 2 * time.Second, all: time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.given > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.given)
					defer cancel()
				}
				var c tries
				err := c.call(ctx, test.method, func(ctx context.Context, _ int) (metadata.MD, error) {
					<-ctx.Done()
					return nil, status.FromContextError(ctx.Err()).Err()
				})
				var unknown Unknown
				if !errors.As(err, &unknown) || unknown.Tries != len(c.began) {
					t.Fatalf("ends with %v after %d tries", err, len(c.began))
				}
				for n, limit := range c.limit[:len(c.limit)-1] {
					if want := test.try << n; limit != want {
						t.Errorf("try %d has %v, want %v", n+1, limit, want)
					}
				}
				if took := time.Since(c.start); c.limit[0] != test.try || took > test.all || took < test.all-longestBackoff {
					t.Errorf("tries of %v, ends after %v; want tries of %v, and the end after %v", c.limit[0], took, test.try, test.all)
				}
			})
		})
	}
}

// TestCallerLeaves: the wait for the next try ends with the context, whose error is found.
func TestCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		var c tries
		err := c.call(ctx, decides, func(context.Context, int) (metadata.MD, error) { return pushback("3000"), unavailable() })
		if !errors.Is(err, context.Canceled) || len(c.began) != 1 || time.Since(c.start) != time.Second {
			t.Errorf("%d tries, ends after %v with %v", len(c.began), time.Since(c.start), err)
		}
	})
}

// TestNoUseToWait: a wait that would end after the deadline is not begun, and told.
func TestNoUseToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tries
		err := c.call(t.Context(), decides, func(context.Context, int) (metadata.MD, error) { return pushback("60000"), unavailable() })
		var unknown Unknown
		if !errors.As(err, &unknown) || unknown.RetryAfter != time.Minute || time.Since(c.start) != 0 {
			t.Errorf("ends after %v with %#v", time.Since(c.start), err)
		}
	})
}

// TestTurnedAwayAfterUnknown: who is not let in any more is not told no: the try before may have been done.
func TestTurnedAwayAfterUnknown(t *testing.T) {
	for _, code := range []codes.Code{codes.Unauthenticated, codes.PermissionDenied} {
		for lost := range 2 {
			var c tries
			err := c.call(t.Context(), confirms, func(_ context.Context, n int) (metadata.MD, error) {
				if n <= lost {
					return pushback("1"), unavailable()
				}
				return nil, status.Error(code, "no")
			})
			var unknown Unknown
			if got := errors.As(err, &unknown); got != (lost > 0) || len(c.began) != lost+1 {
				t.Errorf("%v after %d lost tries: %#v after %d tries", code, lost, err, len(c.began))
			}
		}
	}
}
