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
	l := newLimiter(BuyerLimit{PerSecond: 10, Burst: 3}, 100)
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
	l := newLimiter(BuyerLimit{PerSecond: 10, Burst: 5}, 100)
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
	l := newLimiter(BuyerLimit{PerSecond: 1, Burst: 1}, most)
	now := time.Now()
	l.take("storm", now)
	for i := range 10 * most {
		l.take(fmt.Sprint("buyer-", i), now)
		if i%10 == 0 && l.take("storm", now) == 0 {
			t.Fatalf("forgotten after %d others", i)
		}
	}
	if n := len(l.recent) + len(l.older); n > most || n < most/2 {
		t.Errorf("%d buyers are kept, want up to %d", n, most)
	}
}

// TestLimiterTurns: who comes back after a while finds what it left, and what is full again takes no memory.
func TestLimiterTurns(t *testing.T) {
	l := newLimiter(BuyerLimit{PerSecond: 1, Burst: 4}, 1000)
	now := time.Now()
	for range 4 {
		l.take("ann", now)
	}
	for _, second := range []int{1, 2, 3, 4, 5, 6, 7, 8} { // one token each
		now := now.Add(time.Duration(second) * time.Second)
		l.take("bob", now) // turns pages meanwhile
		if wait := l.take("ann", now); wait != 0 {
			t.Errorf("after %d s: wait %v", second, wait)
		}
		if wait := l.take("ann", now); wait != time.Second {
			t.Errorf("after %d s: another one waits %v, want 1s", second, wait)
		}
	}
	for i := range 400 {
		l.take(fmt.Sprint("buyer-", i), now.Add(time.Duration(10+i)*time.Second))
	}
	if n := len(l.recent) + len(l.older); n > 8 {
		t.Errorf("%d buyers are kept, all but 4 of them with full buckets", n)
	}
}

func BenchmarkLimiter(b *testing.B) {
	l := newLimiter(BuyerLimit{PerSecond: 20, Burst: 40}, mostBuyers)
	ids := make([]string, 1<<20)
	for i := range ids {
		ids[i] = fmt.Sprint("0195c2f1-7d8e-7a31-9f6e-", i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.take(ids[i%len(ids)], time.Now())
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
	l := newLimiter(BuyerLimit{}, 1)
	for range 1000 {
		if wait := l.take("ann", time.Now()); wait != 0 {
			t.Fatalf("wait %v without a limit", wait)
		}
	}
}
