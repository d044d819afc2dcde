package server

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

// TestLimiter: a buyer has its burst, then its rate; another has its own; who waits as told gets through.
func TestLimiter(t *testing.T) {
	l, err := newLimiter(BuyerLimit{PerSecond: 10, Burst: 3}, 100)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i := range 3 {
		if wait := l.take("ann", now); wait != 0 {
			t.Errorf("request %d of the burst waits %v", i, wait)
		}
	}
	wait := l.take("ann", now)
	if wait <= 0 || wait > 100*time.Millisecond {
		t.Errorf("after the burst: wait %v, want up to 100ms", wait)
	}
	for range 1000 { // refused ones take nothing
		l.take("ann", now)
	}
	if again := l.take("bob", now); again != 0 {
		t.Errorf("another buyer waits %v", again)
	}
	if again := l.take("ann", now.Add(wait)); again != 0 {
		t.Errorf("after waiting as told: wait %v", again)
	}
	if again := l.take("ann", now.Add(wait)); again == 0 {
		t.Error("two for one token")
	}
}

// TestLimiterInParallel: a storm gets the burst and the rate, however many callers it has and in whatever order their times
// arrive, and who stops can go on after the time it was told.
func TestLimiterInParallel(t *testing.T) {
	l, err := newLimiter(BuyerLimit{PerSecond: 10, Burst: 5}, 100)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	const callers, seconds = 50, 10
	var granted atomic.Int64
	var all sync.WaitGroup
	for k := range callers {
		all.Go(func() {
			for step := range 200 * seconds { // of 5 ms each, some callers behind others
				now := start.Add(time.Duration(step)*5*time.Millisecond - time.Duration(k)*time.Millisecond)
				if l.take("storm", now) == 0 {
					granted.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := granted.Load(); n > 5+10*seconds {
		t.Errorf("%d granted in %d s, want at most %d", n, seconds, 5+10*seconds)
	}
	if wait := l.take("storm", start.Add(seconds*time.Second)); wait > 100*time.Millisecond {
		t.Errorf("afterwards: wait %v for one token of ten a second", wait)
	}
}

// TestLimiterForgets: memory is bounded by the buyers that came last; a storm is not forgotten while it lasts.
func TestLimiterForgets(t *testing.T) {
	const most = 50
	l, err := newLimiter(BuyerLimit{PerSecond: 1, Burst: 1}, most)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	l.take("storm", now)
	for i := range 10 * most {
		l.take(fmt.Sprint("buyer-", i), now)
		if i%10 == 0 && l.take("storm", now) == 0 {
			t.Fatalf("forgotten after %d others", i)
		}
	}
	if n := l.buckets.Len(); n != most {
		t.Errorf("%d buyers are kept, want %d", n, most)
	}
}

// TestBuyersStorm: one buyer's storm ends before the use cases, with the time to wait; others get through, and so
// does what a buyer does with the holds it has.
func TestBuyersStorm(t *testing.T) {
	var calls atomic.Int64
	f := &fake{hold: store.Hold{ID: concertHold, State: store.Held}, before: func(context.Context, string) error { calls.Add(1); return nil }}
	b := startServer(t, f, func(o *Options) { o.BuyerLimit = BuyerLimit{PerSecond: 0.001, Burst: 5} })
	create := func(buyer string, n int) error {
		_, err := b.holds.CreateHold(t.Context(), &pb.CreateHoldRequest{
			AllotmentId: "concert", BuyerId: buyer, RequestId: fmt.Sprint(n), Quantity: 1,
		})
		return err
	}
	limited := 0
	for n := range 50 {
		if err := create("storm", n); err != nil {
			limited++
			st := status.Convert(err)
			info, retry := detail[*errdetails.ErrorInfo](st), detail[*errdetails.RetryInfo](st)
			if st.Code() != codes.ResourceExhausted || info.GetReason() != "BUYER_RATE_LIMITED" || retry.GetRetryDelay().AsDuration() < time.Second {
				t.Fatalf("request %d: %v", n, err)
			}
		}
	}
	if limited != 45 || calls.Load() != 5 {
		t.Errorf("%d of 50 were limited and %d reached the use cases, want 45 and 5", limited, calls.Load())
	}
	if err := create("another", 1); err != nil {
		t.Errorf("another buyer: %v", err)
	}
	if _, err := b.holds.GetHold(t.Context(), &pb.GetHoldRequest{HoldId: concertHold.String()}); err != nil {
		t.Errorf("a hold that the buyer has: %v", err)
	}
}

// TestNoLimiter: 0 switches it off.
func TestNoLimiter(t *testing.T) {
	l, err := newLimiter(BuyerLimit{}, 1)
	if err != nil || l != nil {
		t.Fatalf("newLimiter: %v, %v", l, err)
	}
	for range 1000 {
		if wait := l.take("ann", time.Now()); wait != 0 {
			t.Fatalf("wait %v without a limit", wait)
		}
	}
}
