package wire

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

func request(i int) *pb.CreateHoldRequest {
	return &pb.CreateHoldRequest{AllotmentId: "a", BuyerId: fmt.Sprintf("buyer-%d", i), RequestId: "r", Quantity: int32(i%9 + 1)}
}

// TestCalls makes many calls of two methods at once over two connections: each gets its own answer.
func TestCalls(t *testing.T) {
	f := &fake{create: echo, confirm: func(_ context.Context, r *pb.ConfirmHoldRequest) (*pb.ConfirmHoldResponse, error) {
		return &pb.ConfirmHoldResponse{Sale: &pb.Sale{HoldId: r.GetHoldId()}}, nil
	}}
	c := newCaller(t, func(o *Options) { o.Connections = 2 }, serve(t, f))
	const n = 5000
	for i := range n {
		if i%3 == 0 {
			c.send(confirm, uint64(i), &pb.ConfirmHoldRequest{HoldId: fmt.Sprintf("hold-%d", i)})
		} else {
			c.send(create, uint64(i), request(i))
		}
		if i%17 == 0 {
			c.client.Flush()
		}
	}
	c.client.Flush()
	answers := c.wait(n)
	for i := range n {
		if len(answers[uint64(i)]) != 1 {
			t.Fatalf("call %d has %d answers", i, len(answers[uint64(i)]))
		}
		a := answers[uint64(i)][0]
		if a.Code != codes.OK || a.At <= 0 {
			t.Fatalf("call %d: %v %q at %v", i, a.Code, a.Text, a.At)
		}
		var created pb.CreateHoldResponse
		var confirmed pb.ConfirmHoldResponse
		if i%3 == 0 {
			if err := proto.Unmarshal(a.body, &confirmed); err != nil || confirmed.GetSale().GetHoldId() != fmt.Sprintf("hold-%d", i) {
				t.Fatalf("call %d: %v %v", i, &confirmed, err)
			}
		} else if err := proto.Unmarshal(a.body, &created); err != nil || created.GetHold().GetBuyerId() != request(i).GetBuyerId() {
			t.Fatalf("call %d: %v %v", i, &created, err)
		}
	}
}

// TestErrors: code, text, details and pushback arrive as the server gave them.
func TestErrors(t *testing.T) {
	info := &errdetails.ErrorInfo{Reason: "SOLD_OUT", Domain: "holdfast.v1", Metadata: map[string]string{"capacity": "3"}}
	f := &fake{create: func(ctx context.Context, _ *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
		if err := grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "120")); err != nil {
			return nil, err
		}
		s, err := status.New(codes.FailedPrecondition, "näch 100 % weg\n").WithDetails(info)
		if err != nil {
			return nil, err
		}
		return nil, s.Err()
	}}
	f.confirm = f.UnimplementedInventoryServiceServer.ConfirmHold
	c := newCaller(t, nil, serve(t, f))
	c.send(create, 7, request(1))
	c.send(confirm, 8, &pb.ConfirmHoldRequest{})
	c.client.Flush()
	answers := c.wait(2)
	a := answers[7][0]
	if a.Code != codes.FailedPrecondition || a.Text != "näch 100 % weg\n" || a.Pushback != 120*time.Millisecond || a.NotProcessed {
		t.Errorf("answer %+v", a.Answer)
	}
	var s statuspb.Status
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(a.Details, "="))
	if err != nil || proto.Unmarshal(raw, &s) != nil {
		t.Fatalf("details %q: %v", a.Details, err)
	}
	if got := status.FromProto(&s).Details(); len(got) != 1 || !proto.Equal(got[0].(proto.Message), info) {
		t.Errorf("details %v", got)
	}
	if b := answers[8][0]; b.Code != codes.Unimplemented {
		t.Errorf("a method that is not there: %v %q", b.Code, b.Text)
	}
}

// TestTimeout: the server is told how long a call may take.
func TestTimeout(t *testing.T) {
	f := &fake{create: func(ctx context.Context, _ *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}}
	c := newCaller(t, func(o *Options) { o.Methods[create].Timeout = 50 * time.Millisecond }, serve(t, f))
	c.send(create, 1, request(1))
	c.client.Flush()
	if a := c.wait(1)[1][0]; a.Code != codes.DeadlineExceeded {
		t.Errorf("%v %q", a.Code, a.Text)
	}
}

// TestConcurrentStreams: a server is never given more calls at once than it says it takes; the others wait.
func TestConcurrentStreams(t *testing.T) {
	var now, most atomic.Int64
	f := &fake{create: func(ctx context.Context, r *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		time.Sleep(time.Millisecond)
		return echo(ctx, r)
	}}
	c := newCaller(t, nil, serve(t, f, grpc.MaxConcurrentStreams(3)))
	const n = 300
	for i := range n {
		c.send(create, uint64(i), request(i))
	}
	c.client.Flush()
	for tag, a := range c.wait(n) {
		if len(a) != 1 || a[0].Code != codes.OK {
			t.Errorf("call %d: %v", tag, a)
		}
	}
	if most.Load() > 3 {
		t.Errorf("%d at once", most.Load())
	}
}

// TestWaitingTooLong: calls that a server does not take in time are given up.
func TestWaitingTooLong(t *testing.T) {
	f := &fake{create: func(ctx context.Context, _ *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}}
	c := newCaller(t, func(o *Options) { o.Methods[create].Timeout = 50 * time.Millisecond }, serve(t, f, grpc.MaxConcurrentStreams(1)))
	const n = 10
	for i := range n {
		c.send(create, uint64(i), request(i))
	}
	c.client.Flush()
	unsent := 0
	for tag, a := range c.wait(n) {
		if len(a) != 1 || a[0].Code != codes.DeadlineExceeded || a[0].NotProcessed {
			t.Errorf("call %d: %+v", tag, a)
		}
		if strings.Contains(a[0].Text, "not sent") {
			unsent++
		}
	}
	if unsent == 0 {
		t.Error("every call was sent")
	}
}

// TestWindow: a server that reads slowly is not sent more than its window takes.
func TestWindow(t *testing.T) {
	f := &fake{create: echo}
	c := newCaller(t, nil, serve(t, f))
	const n = 200 // of 10 KB each, in one go: 30 times the window
	for i := range n {
		r := request(i)
		r.RequestId = strings.Repeat("x", 10_000)
		c.send(create, uint64(i), r)
	}
	c.client.Flush()
	for tag, a := range c.wait(n) {
		if a[0].Code != codes.OK || len(a[0].body) < 10_000 {
			t.Errorf("call %d: %v, %d bytes", tag, a[0].Code, len(a[0].body))
		}
	}
}

// TestLargeAnswers are in several frames, those of the headers included.
func TestLargeAnswers(t *testing.T) {
	large := strings.Repeat("0123456789", 10_000)
	f := &fake{create: func(_ context.Context, r *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
		if r.GetQuantity() == 1 {
			return nil, status.Error(codes.Aborted, large)
		}
		return &pb.CreateHoldResponse{Hold: &pb.Hold{Id: large}}, nil
	}}
	c := newCaller(t, nil, serve(t, f))
	for i := range 20 {
		r := request(i)
		r.Quantity = int32(i%2 + 1)
		c.send(create, uint64(i), r)
	}
	c.client.Flush()
	for tag, a := range c.wait(20) {
		if tag%2 == 0 && (a[0].Code != codes.Aborted || a[0].Text != large) {
			t.Errorf("call %d: %v and %d bytes of text", tag, a[0].Code, len(a[0].Text))
		}
		if tag%2 == 1 && !bytes.Contains(a[0].body, []byte(large)) {
			t.Errorf("call %d: %v and %d bytes", tag, a[0].Code, len(a[0].body))
		}
	}
	if err := c.client.Send(create, 99, make([]byte, maxMessage+1)); err == nil {
		t.Error("a message that does not fit into a frame was taken")
	}
}

// TestConnectionAge: a server that wants its connections to end after a while is obeyed, and no call is lost.
func TestConnectionAge(t *testing.T) {
	address := serve(t, &fake{create: echo}, grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionAge: 20 * time.Millisecond, MaxConnectionAgeGrace: time.Second,
	}))
	c := newCaller(t, func(o *Options) { o.Connections = 2 }, address)
	c.again = resend(t)
	const n = 2000
	for i := range n {
		c.send(create, uint64(i), request(i))
		c.client.Flush()
		if i%20 == 0 {
			time.Sleep(2 * time.Millisecond)
		}
	}
	for tag, a := range c.wait(n) {
		if len(a) != 1 || a[0].Code != codes.OK {
			t.Errorf("call %d: %v", tag, a[0].Answer)
		}
	}
	if c.client.Reconnects() == 0 {
		t.Error("no connection has ended")
	}
}

// resend sends again what the server has not seen.
func resend(t *testing.T) func(*Answer) bool {
	return func(a *Answer) bool {
		if !a.NotProcessed {
			return true
		}
		data, err := proto.Marshal(request(int(a.Tag)))
		if err != nil {
			t.Error(err)
		}
		tag := a.Tag
		for deadline := time.Now().Add(5 * time.Second); a.Send(create, tag, data) != nil; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Error("no connection")
				return true
			}
		}
		return false
	}
}

// TestStreamIDs: a connection whose stream ids are used up is replaced, and no call is lost.
func TestStreamIDs(t *testing.T) {
	c := newCaller(t, func(o *Options) { o.lastStream = 21 }, serve(t, &fake{create: echo}, grpc.MaxConcurrentStreams(4)))
	c.again = resend(t)
	const n = 500
	for i := range n {
		c.send(create, uint64(i), request(i))
		if i%3 == 0 {
			c.client.Flush()
		}
	}
	c.client.Flush()
	for tag, a := range c.wait(n) {
		if len(a) != 1 || a[0].Code != codes.OK {
			t.Errorf("call %d: %v", tag, a[0].Answer)
		}
	}
}

// TestRestart: calls that are lost with a connection are answered, and a server that is back is found.
func TestRestart(t *testing.T) {
	l := listen(t)
	address := l.Addr().String()
	arrived := make(chan struct{}, 10)
	stuck := &fake{create: func(ctx context.Context, _ *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
		arrived <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	first := grpc.NewServer()
	pb.RegisterInventoryServiceServer(first, stuck)
	go func() { _ = first.Serve(l) }() // ends with Stop
	c := newCaller(t, nil, address)
	c.send(create, 1, request(1))
	c.client.Flush()
	<-arrived
	first.Stop()
	if a := c.wait(1)[1][0]; a.Code != codes.Unavailable || a.NotProcessed {
		t.Errorf("lost call: %+v", a.Answer)
	}
	again := listenAt(t, address)
	second := grpc.NewServer()
	pb.RegisterInventoryServiceServer(second, &fake{create: echo})
	go func() { _ = second.Serve(again) }() // ends with Stop
	t.Cleanup(second.Stop)
	c.send(create, 2, request(2))
	c.client.Flush()
	if a := c.wait(2)[2][0]; a.Code != codes.OK {
		t.Errorf("after the restart: %v %q", a.Code, a.Text)
	}
}

// TestSeveralAddresses are used in turn.
func TestSeveralAddresses(t *testing.T) {
	var counts [2]atomic.Int64
	server := func(i int) string {
		return serve(t, &fake{create: func(ctx context.Context, r *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
			counts[i].Add(1)
			return echo(ctx, r)
		}})
	}
	c := newCaller(t, nil, server(0), server(1))
	for i := range 100 {
		c.send(create, uint64(i), request(i))
		c.client.Flush()
	}
	c.wait(100)
	if counts[0].Load() != 50 || counts[1].Load() != 50 {
		t.Errorf("calls by server: %d and %d", counts[0].Load(), counts[1].Load())
	}
}

// TestNobodyThere: an address where nobody listens is an error at once.
func TestNobodyThere(t *testing.T) {
	l := listen(t)
	address := l.Addr().String()
	_ = l.Close()
	_, err := Dial(t.Context(), Options{Addresses: []string{address}, Methods: methods(), Handle: func(*Answer) {}, Clock: func() time.Duration { return 0 }})
	if err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("error %v", err)
	}
}

// TestSendFromAnswers: a loop of calls that answers make, as in a closed loop.
func TestSendFromAnswers(t *testing.T) {
	c := newCaller(t, nil, serve(t, &fake{create: echo}))
	left := int64(500)
	c.again = func(a *Answer) bool {
		if atomic.AddInt64(&left, -1) <= 0 {
			return true
		}
		data, _ := proto.Marshal(request(1))
		if err := a.Send(create, a.Tag, data); err != nil {
			t.Error(err)
		}
		return false
	}
	c.send(create, 1, request(1))
	c.client.Flush()
	c.wait(1)
}
