package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

const (
	crowdRate  = 2000 // requests a second
	crowdEvery = 5 * time.Millisecond
	crowdMost  = 1000            // undecided at once: only a machine that is too slow for the rate gets there
	crowdTime  = 3 * time.Minute // for all of it
	scarce     = 1000            // units of one of the two allotments
	plenty     = 1_000_000       // and of the other: every request gets a hold
	confirmed  = 20              // each so manyth request for plenty is confirmed
)

// crowd asks for holds in an open loop: requests come whether or not others have been answered. Each is repeated, with its ids,
// until it is decided.
type crowd struct {
	clients  []*caller
	done     chan struct{} // closed: no more requests
	calls    sync.WaitGroup
	began    time.Time
	lasted   time.Duration
	due      int // of the loop: to be read when it has ended
	asked    int // fewer than were due, if the machine was too slow
	granted  [2]atomic.Int64
	refused  atomic.Int64
	sold     atomic.Int64
	failures atomic.Int64
	first    error
}

var crowdAllotments = [2]string{"plenty", "scarce"}

func newCrowd(clients ...*caller) *crowd { return &crowd{clients: clients, done: make(chan struct{})} }

// arrive begins the loop.
func (c *crowd) arrive(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, crowdTime)
	c.began = time.Now()
	c.calls.Go(func() {
		defer cancel()
		var calls errgroup.Group
		calls.SetLimit(crowdMost)
		defer func() { c.first = calls.Wait() }()
		tick := time.NewTicker(crowdEvery)
		defer tick.Stop()
		for {
			select {
			case <-c.done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for due := int(time.Since(c.began).Seconds() * crowdRate); c.due < due; c.due++ {
				i := c.asked
				if calls.TryGo(func() error { return c.ask(ctx, i) }) {
					c.asked++
				}
			}
		}
	})
}

// leave ends the loop, and waits until every request has been decided.
func (c *crowd) leave() {
	c.lasted = time.Since(c.began)
	close(c.done)
	c.calls.Wait()
}

// ask makes request i: half of them for plenty, half for what is scarce, each half by all clients.
func (c *crowd) ask(ctx context.Context, i int) error {
	which, by := i%2, c.clients[i/2%len(c.clients)]
	var hold *pb.CreateHoldResponse
	err := repeated(ctx, func() (err error) {
		hold, err = by.CreateHold(ctx, &pb.CreateHoldRequest{
			AllotmentId: crowdAllotments[which], BuyerId: fmt.Sprintf("buyer-%d", i), RequestId: "request", Quantity: 1,
		})
		return err
	})
	if err == nil {
		c.granted[which].Add(1)
		if i%(2*confirmed) == 0 {
			return c.buy(ctx, by, hold.GetHold().GetId())
		}
		return nil
	}
	reason, facts := reasonOf(err)
	if (reason == "SOLD_OUT" || reason == "ALL_HELD") && facts["capacity"]-facts["sold"]-facts["held"] < 1 {
		c.refused.Add(1)
		return nil
	}
	return c.fail(fmt.Errorf("request %d: %w", i, err))
}

func (c *crowd) buy(ctx context.Context, by *caller, hold string) error {
	err := repeated(ctx, func() error {
		_, err := by.ConfirmHold(ctx, &pb.ConfirmHoldRequest{HoldId: hold, OrderId: "order-" + hold})
		return err
	})
	if err != nil {
		return c.fail(fmt.Errorf("confirm %s: %w", hold, err))
	}
	c.sold.Add(1)
	return nil
}

func (c *crowd) fail(err error) error {
	c.failures.Add(1)
	return err
}

// judge says what was found.
func (c *crowd) judge(t *testing.T) {
	t.Helper()
	all := &caller{}
	for _, one := range c.clients {
		all.transparent.Add(one.transparent.Load())
		all.told.Add(one.told.Load())
		all.cut.Add(one.cut.Load())
		all.late.Add(one.late.Load())
	}
	t.Logf("%d requests, of %d due, in %v: %d granted, %d refused, %d of the holds sold; %d calls were repeated because a server said so, "+
		"%d because their time was over, %d by gRPC because no server had begun them", c.asked, c.due, c.lasted.Round(time.Millisecond), c.granted[0].Load()+c.granted[1].Load(),
		c.refused.Load(), c.sold.Load(), all.told.Load(), all.late.Load(), all.transparent.Load())
	if failed := c.failures.Load(); failed > 0 {
		t.Errorf("%d requests were not decided; the first: %v", failed, c.first)
	}
	if cut := all.cut.Load() - all.transparent.Load(); cut != 0 {
		t.Errorf("%d calls were cut off", cut)
	}
	// Of an even and an odd number each.
	if granted := c.granted[0].Load(); granted != int64(c.asked+1)/2 {
		t.Errorf("%d of %d requests for plenty were granted", granted, (c.asked+1)/2)
	}
	if granted := c.granted[1].Load(); granted != scarce {
		t.Errorf("%d requests for %d units were granted", granted, scarce)
	}
	c.audit(t)
}

// audit compares what the service has with what callers were told.
func (c *crowd) audit(t *testing.T) {
	t.Helper()
	for i, allotment := range crowdAllotments {
		var has *pb.GetAvailabilityResponse
		err := repeated(t.Context(), func() (err error) {
			has, err = c.clients[0].GetAvailability(t.Context(), &pb.GetAvailabilityRequest{AllotmentId: allotment})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		sold := []int64{c.sold.Load(), 0}[i]
		if a := has.GetAvailability(); a.GetSold() != sold || a.GetHeld() != c.granted[i].Load()-sold {
			t.Errorf("%s has %d sold and %d held, callers were told of %d and %d", allotment, a.GetSold(), a.GetHeld(), sold, c.granted[i].Load()-sold)
		}
	}
}

// offer makes the two allotments.
func (c *cluster) offer(t *testing.T) {
	t.Helper()
	admin := pb.NewAdminServiceClient(c.conns[0])
	for i, units := range []int64{plenty, scarce} {
		err := repeated(t.Context(), func() error {
			_, err := admin.CreateAllotment(t.Context(), &pb.CreateAllotmentRequest{Allotment: &pb.Allotment{
				Id: crowdAllotments[i], Capacity: units, HoldDuration: durationpb.New(time.Hour), // longer than any machine takes for it
			}})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// caller is gRPC's client, with a count of what it does below its calls.
type caller struct {
	pb.InventoryServiceClient

	transparent atomic.Int64 // attempts that were begun because no server had seen the one before
	told        atomic.Int64 // that met trouble, by a server's word
	cut         atomic.Int64 // that ended without any server's word
	late        atomic.Int64 // whose time was over before
}

// HandleRPC implements stats.Handler.
func (c *caller) HandleRPC(_ context.Context, event stats.RPCStats) {
	switch e := event.(type) {
	case *stats.Begin:
		if e.IsTransparentRetryAttempt {
			c.transparent.Add(1)
		}
	case *stats.End:
		reason, _ := reasonOf(e.Error)
		switch status.Code(e.Error) {
		case codes.Unavailable, codes.ResourceExhausted:
			if reason == "" {
				c.cut.Add(1)
			} else {
				c.told.Add(1)
			}
		case codes.DeadlineExceeded:
			c.late.Add(1)
		default:
		}
	}
}

// TagRPC implements stats.Handler.
func (c *caller) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (c *caller) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (c *caller) HandleConn(context.Context, stats.ConnStats) {}
