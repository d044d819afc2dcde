package wire

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// The methods that the tests call.
const (
	create = iota
	confirm
)

func methods() []Method {
	return []Method{
		{Path: pb.InventoryService_CreateHold_FullMethodName, Timeout: 5 * time.Second},
		{Path: pb.InventoryService_ConfirmHold_FullMethodName},
	}
}

// fake is a service whose methods are functions.
type fake struct {
	pb.UnimplementedInventoryServiceServer

	create  func(context.Context, *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error)
	confirm func(context.Context, *pb.ConfirmHoldRequest) (*pb.ConfirmHoldResponse, error)
}

func (f *fake) CreateHold(ctx context.Context, r *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
	return f.create(ctx, r)
}

func (f *fake) ConfirmHold(ctx context.Context, r *pb.ConfirmHoldRequest) (*pb.ConfirmHoldResponse, error) {
	return f.confirm(ctx, r)
}

// echo answers with what was asked.
func echo(_ context.Context, r *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
	return &pb.CreateHoldResponse{Hold: &pb.Hold{BuyerId: r.GetBuyerId(), RequestId: r.GetRequestId(), Quantity: r.GetQuantity()}}, nil
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve starts a grpc-go server and returns its address.
func serve(t testing.TB, f *fake, options ...grpc.ServerOption) string {
	t.Helper()
	l := listen(t)
	server := grpc.NewServer(options...)
	pb.RegisterInventoryServiceServer(server, f)
	go func() { _ = server.Serve(l) }() // ends with Stop
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

// got is an answer that is kept.
type got struct {
	Answer
	body []byte
}

// caller makes calls and gathers their answers.
type caller struct {
	t      testing.TB
	client *Client
	start  time.Time

	mu      sync.Mutex
	answers map[uint64][]got
	count   atomic.Int64
	came    chan struct{}
	// again is called for each answer, before it is kept. It returns false for an answer that is not the last.
	again func(*Answer) bool
}

func newCaller(t testing.TB, change func(*Options), addresses ...string) *caller {
	t.Helper()
	c := &caller{t: t, start: time.Now(), answers: map[uint64][]got{}, came: make(chan struct{}, 1)}
	o := Options{
		Addresses: addresses, Connections: 1, Methods: methods(), Handle: c.handle,
		Clock: func() time.Duration { return time.Since(c.start) },
	}
	if change != nil {
		change(&o)
	}
	client, err := Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c.client = client
	t.Cleanup(client.Close)
	return c
}

func (c *caller) handle(a *Answer) {
	if c.again != nil && !c.again(a) {
		return
	}
	c.mu.Lock()
	c.answers[a.Tag] = append(c.answers[a.Tag], got{Answer: *a, body: append([]byte(nil), a.Body...)})
	c.mu.Unlock()
	c.count.Add(1)
	select {
	case c.came <- struct{}{}:
	default:
	}
}

// send makes a call, and waits for a connection if there is none.
func (c *caller) send(method int, tag uint64, message proto.Message) {
	c.t.Helper()
	data, err := proto.Marshal(message)
	if err != nil {
		c.t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if err = c.client.Send(method, tag, data); err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatal(err)
		}
	}
}

// wait waits for so many answers in all, and returns them by tag.
func (c *caller) wait(n int64) map[uint64][]got {
	c.t.Helper()
	deadline := time.After(20 * time.Second)
	for c.count.Load() < n {
		select {
		case <-c.came:
		case <-deadline:
			c.t.Fatalf("%d of %d answers came", c.count.Load(), n)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers
}

// listenAt listens where somebody listened before.
func listenAt(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
