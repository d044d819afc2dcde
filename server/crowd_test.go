package server

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

// smallCrowd has room for so many, of whom one of an allotment works.
func smallCrowd(most int64) *crowd {
	c := newCrowd()
	c.most, c.atWork = most, 1
	return c
}

// empty fails the test unless everybody has left.
func (c *crowd) empty(t *testing.T) {
	t.Helper()
	if c.inside != 0 || len(c.of) != 0 {
		t.Errorf("%d are inside at the end, and %d allotments kept", c.inside, len(c.of))
	}
}

func isOverloaded(err error) bool {
	over, ok := errors.AsType[*overloaded](err)
	return ok && over.wait > 0
}

// Of an allotment's confirms only some work. The others wait for their turn, first come, first served, for a second.
func TestConfirmsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := smallCrowd(100)
		enter := func() error { return c.enter(t.Context(), "concert", time.Now()) }
		if err := enter(); err != nil {
			t.Fatalf("the first: %v", err)
		}
		begun := make(chan int, 2)
		for n := range 2 {
			go func() {
				if err := enter(); err != nil {
					t.Errorf("one who waits: %v", err)
				}
				begun <- n
			}()
			synctest.Wait()
		}
		start, tired := time.Now(), make(chan error)
		go func() { tired <- enter() }()
		synctest.Wait()
		for n := range 2 {
			select {
			case <-begun:
				t.Fatal("more at work than may be")
			default:
			}
			c.leave("concert")
			if got := <-begun; got != n {
				t.Errorf("number %d has its turn, want %d", got, n)
			}
		}
		if err := <-tired; !isOverloaded(err) || time.Since(start) != confirmsPatience {
			t.Errorf("%v after %v, want overloaded after %v", err, time.Since(start), confirmsPatience)
		}
		c.leave("concert")
		c.empty(t)
	})
}

// Of an allotment no more are inside than there is room left, so another finds some, and its turn.
func TestConfirmsOfOneLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := smallCrowd(8)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		refused := 0
		for range 8 {
			all.Go(func() {
				if isOverloaded(c.enter(ctx, "concert", time.Now())) {
					refused++
				}
			})
			synctest.Wait()
		}
		if refused != 4 {
			t.Errorf("%d of 8 were turned away, want 4", refused)
		}
		if err := c.enter(t.Context(), "play", time.Now()); err != nil {
			t.Errorf("another allotment: %v", err)
		}
		cancel()
		all.Wait()
		c.leave("concert")
		c.leave("play")
		c.empty(t)
	})
}

// Who has gone while it waited is not told that there were too many, and takes no time to return from others.
func TestConfirmGoneWhileItWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := smallCrowd(100)
		if err := c.enter(t.Context(), "concert", time.Now()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := c.enter(ctx, "concert", time.Now()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the end of the caller's own time", err)
		}
		if !c.returns.next.IsZero() {
			t.Error("who has gone was given a time to return")
		}
		c.leave("concert")
		c.empty(t)
	})
}

// stuckConfirms are confirms of which those of one allotment get nowhere, as while its row is locked in Postgres.
type stuckConfirms struct {
	*fake
	begun sync.WaitGroup
	block chan struct{}
}

func (f *stuckConfirms) ConfirmHold(ctx context.Context, c store.ConfirmHold) (store.Sale, error) {
	if c.ID.Allotment == "concert" {
		f.begun.Done()
		<-f.block
	}
	return f.fake.ConfirmHold(ctx, c)
}

// TestStuckConfirmsOfAnAllotment: confirms that wait for one allotment's row do not turn away those of another; of their own
// the first too many is told when to come again.
func TestStuckConfirmsOfAnAllotment(t *testing.T) {
	f := &stuckConfirms{fake: &fake{}, block: make(chan struct{})}
	b := startServer(t, f.fake, func(o *Options) { o.Checkouts = f })
	crowd := b.server.interceptors.crowd
	crowd.most, crowd.atWork = 40, 20
	confirm := func(id store.HoldID) error {
		_, err := b.holds.ConfirmHold(t.Context(), &pb.ConfirmHoldRequest{HoldId: id.String(), OrderId: "o"})
		return err
	}
	f.begun.Add(20)
	var stuck sync.WaitGroup
	for range 20 {
		stuck.Go(func() {
			if err := confirm(store.NewHoldID("concert", "ann", "1")); err != nil {
				t.Errorf("one of the first: %v", err)
			}
		})
	}
	f.begun.Wait()
	if err := confirm(store.NewHoldID("play", "bob", "1")); err != nil {
		t.Errorf("a confirm of a quiet allotment: %v", err)
	}
	err := status.Convert(confirm(store.NewHoldID("concert", "cid", "1")))
	info, retry := detail[*errdetails.ErrorInfo](err), detail[*errdetails.RetryInfo](err)
	if info.GetReason() != reasonQueueFull || retry.GetRetryDelay().AsDuration() < slotFirst {
		t.Errorf("one too many: %v, want QUEUE_FULL with the time to wait", err)
	}
	close(f.block)
	stuck.Wait()
	crowd.empty(t)
}

// A cart is counted as one of its first hold's allotment.
func TestConfirmedAllotment(t *testing.T) {
	for want, req := range map[string]any{
		"concert": &pb.ConfirmHoldRequest{HoldId: "concert.tag"},
		"play":    &pb.BatchConfirmHoldsRequest{HoldIds: []string{"play.tag", "concert.tag"}},
		"":        &pb.CreateHoldRequest{AllotmentId: "concert"},
	} {
		if got := confirmedAllotment(req); got != want {
			t.Errorf("%T: %q, want %q", req, got, want)
		}
	}
}
