package cases

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/holdfast-inventory/holdfast/cmd/faults/linear"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// The small history beside the load. More calls, and longer ones, are more than a checker can put in order.
const (
	smallClients  = 5
	smallBuyers   = 25 // of each client, one after the other
	smallCapacity = 20
	smallPause    = 100 * time.Millisecond
	smallWindow   = 10 * time.Minute // no hold lapses
	linearLimit   = 10 * time.Second
)

// small is clients of an allotment with little stock, each of whom asks until it is answered.
type small struct {
	allotment string
	now       func() time.Duration
	conns     []*grpc.ClientConn
	done      sync.WaitGroup

	mu    sync.Mutex
	calls []linear.Call
}

// beginSmall lets them call until ctx ends.
func (s *Stage) beginSmall(ctx context.Context) (*small, error) {
	other := s.books.Of(s.books.Allotment + "-small")
	if err := other.Create(ctx, smallCapacity, smallWindow); err != nil {
		return nil, err
	}
	m := &small{allotment: other.Allotment, now: s.now}
	for _, address := range s.World.Addresses() {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		m.conns = append(m.conns, conn)
	}
	for client := range smallClients {
		m.done.Go(func() { m.client(ctx, client) })
	}
	return m, nil
}

func (m *small) client(ctx context.Context, client int) {
	for n := range smallBuyers {
		buyer, hold := client*smallBuyers+n, ""
		c := linear.Call{Client: client, Buyer: buyer, Quantity: 1 + buyer%2}
		outcome := m.insist(ctx, c, func(ctx context.Context, to pb.InventoryServiceClient) error {
			got, err := to.CreateHold(ctx, &pb.CreateHoldRequest{
				AllotmentId: m.allotment, BuyerId: fmt.Sprint("buyer-", buyer), RequestId: "request", Quantity: int32(c.Quantity), //nolint:gosec // 1 or 2
			})
			hold = got.GetHold().GetId()
			return err
		})
		if outcome == linear.Done {
			m.endHold(ctx, c, hold)
		}
		if pause(ctx, smallPause) != nil {
			return
		}
	}
}

// endHold confirms one hold in three, and cancels the others, so that there is stock again.
func (m *small) endHold(ctx context.Context, c linear.Call, hold string) {
	if c.Kind = linear.Cancel; c.Buyer%3 == 0 {
		c.Kind = linear.Confirm
	}
	if pause(ctx, smallPause) != nil {
		return
	}
	m.insist(ctx, c, func(ctx context.Context, to pb.InventoryServiceClient) (err error) {
		if c.Kind == linear.Confirm {
			_, err = to.ConfirmHold(ctx, &pb.ConfirmHoldRequest{HoldId: hold, OrderId: fmt.Sprint("order-", c.Buyer)})
		} else {
			_, err = to.CancelHold(ctx, &pb.CancelHoldRequest{HoldId: hold})
		}
		return err
	})
}

// insist repeats a call at one server after the other until it is answered, and notes it.
func (m *small) insist(ctx context.Context, c linear.Call, call func(context.Context, pb.InventoryServiceClient) error) linear.Outcome {
	c.Sent = m.now()
	for try := c.Client; ; try++ {
		trying, cancel := context.WithTimeout(ctx, time.Second)
		err := call(trying, pb.NewInventoryServiceClient(m.conns[try%len(m.conns)]))
		cancel()
		if c.Outcome = outcomeOf(err); c.Outcome != linear.Unknown || pause(ctx, smallPause) != nil {
			break
		}
	}
	c.Answered = m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, c)
	return c.Outcome
}

// outcomeOf is what the answer to a call says. Trouble, for which a caller asks again, says nothing.
func outcomeOf(err error) linear.Outcome {
	switch status.Code(err) {
	case codes.OK:
		return linear.Done
	case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Canceled, codes.Unknown, codes.Internal:
		return linear.Unknown
	default:
		return linear.Refused
	}
}

// check waits for the clients, whose context is done, and checks their history.
func (m *small) check() linear.Verdict {
	m.done.Wait()
	for _, conn := range m.conns {
		_ = conn.Close() // nothing is left to be lost
	}
	slices.SortFunc(m.calls, func(a, b linear.Call) int { return int(a.Sent - b.Sent) })
	return linear.Check(smallCapacity, smallClients*smallBuyers, m.calls, linearLimit)
}

// judgeSmall takes the verdict into account, unless the fault may bring about what the checker's counter does not do: forget.
func (s *Stage) judgeSmall(p *Played) {
	forgets := func(f history.Fault) bool { return f.Loses || f.Rewinds }
	if len(s.Case.Forgive) > 0 || slices.ContainsFunc(s.history.Faults, forgets) {
		return
	}
	p.Result.Linear = string(s.small)
	if s.small == linear.Not {
		p.fail("the small history beside is not linearizable")
	}
}
