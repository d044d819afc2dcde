package compare

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-inventory/holdfast/cmd/launch/wire"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// pump puts a demand to a Holdfast server as play does, over launch's own lean client: the callers share the processors
// with the server, and those of grpc-go would take more of them than it does. For the same reason answers are only kept
// while it runs, and taken apart afterwards.
type pump struct {
	clock    clock
	client   *wire.Client
	requests []request
	messages [][]byte

	next    atomic.Int64 // request that nobody has asked for yet
	open    atomic.Int64 // requests without an answer
	repeats atomic.Int64
	starts  []atomic.Int64
	replies []reply // each written once, by whoever reads its answer

	over   chan struct{} // closed when all are answered
	failed chan error    // the first failure
}

// reply is an answer as it came.
type reply struct {
	end     time.Duration
	code    codes.Code
	payload string // the message, or the details of a refusal
}

func newPump(c clock, stock string, requests []request) (*pump, error) {
	p := &pump{
		clock: c, requests: requests, messages: make([][]byte, len(requests)),
		starts: make([]atomic.Int64, len(requests)), replies: make([]reply, len(requests)),
		over: make(chan struct{}), failed: make(chan error, 1),
	}
	p.open.Store(int64(len(requests)))
	for i, r := range requests {
		var err error
		if p.messages[i], err = proto.Marshal(holdCall(stock, r)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// run returns when every request has been answered, or the first failure.
func (p *pump) run(ctx context.Context, addr string, callers int) error {
	client, err := wire.Dial(ctx, wire.Options{
		Addresses: []string{addr}, Connections: pumpConns, Clock: p.clock.now, Handle: func(a *wire.Answer) { p.handle(ctx, a) },
		Methods: []wire.Method{{Path: pb.InventoryService_CreateHold_FullMethodName}},
	})
	if err != nil {
		return err
	}
	defer client.Close()
	p.client = client
	for range min(callers, len(p.requests)) {
		p.ask(func(tag uint64, message []byte) error {
			err := client.Send(0, tag, message)
			client.Flush()
			return err
		})
	}
	select {
	case <-p.over:
		return nil
	case err := <-p.failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ask makes a caller's next request, if there is one left.
func (p *pump) ask(send func(tag uint64, message []byte) error) {
	i := int(p.next.Add(1)) - 1
	if i >= len(p.requests) {
		return
	}
	p.starts[i].Store(int64(p.clock.now()))
	if err := send(uint64(i), p.messages[i]); err != nil { //nolint:gosec // not below 0
		p.fail(i, err)
	}
}

// handle is told of each answer. It runs where answers are read, so it does little.
func (p *pump) handle(ctx context.Context, a *wire.Answer) {
	i := int(a.Tag) //nolint:gosec // as it was sent
	r := reply{end: a.At, code: a.Code}
	switch {
	case a.Code == codes.OK:
		r.payload = string(a.Body)
	case a.Code == codes.FailedPrecondition:
		r.payload = strings.Clone(a.Details)
	case isTrouble(a.Code) && a.At-time.Duration(p.starts[i].Load()) < repeatAtMost:
		p.repeat(ctx, i, max(a.Pushback, repeatPause))
		return
	default:
		p.fail(i, status.Error(a.Code, a.Text))
		return
	}
	p.replies[i] = r
	if p.open.Add(-1) == 0 {
		close(p.over)
		return
	}
	p.ask(func(tag uint64, message []byte) error { return a.Send(0, tag, message) })
}

// repeat makes the same request again: the caller still waits for its answer.
func (p *pump) repeat(ctx context.Context, i int, pause time.Duration) {
	p.repeats.Add(1)
	time.AfterFunc(pause, func() {
		if ctx.Err() != nil {
			return
		}
		err := p.client.Send(0, uint64(i), p.messages[i]) //nolint:gosec // not below 0
		p.client.Flush()
		switch {
		case err == nil:
		case errors.Is(err, wire.ErrNotConnected) && p.clock.now()-time.Duration(p.starts[i].Load()) < repeatAtMost:
			p.repeat(ctx, i, pause)
		default:
			p.fail(i, err)
		}
	})
}

func (p *pump) fail(i int, err error) {
	select {
	case p.failed <- fmt.Errorf("request %d: %w", p.requests[i].number, err):
	default: // not the first
	}
}

// answers takes the replies apart. The ids of holds are by request, as the requests are numbered from 0 in order.
func (p *pump) answers() (all []answer, holds []string, err error) {
	all, holds = make([]answer, len(p.replies)), make([]string, len(p.replies))
	for i, r := range p.replies {
		if r.code == codes.OK {
			holds[i], err = readHoldID(r.payload)
		} else {
			err = checkRefusal(r)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("request %d: %w", p.requests[i].number, err)
		}
		all[i] = answer{
			Request: p.requests[i].number, Quantity: p.requests[i].quantity,
			Start: time.Duration(p.starts[i].Load()), End: r.end, Got: r.code == codes.OK,
		}
	}
	return all, holds, nil
}

func readHoldID(message string) (string, error) {
	var m pb.CreateHoldResponse
	err := proto.Unmarshal([]byte(message), &m)
	return m.GetHold().GetId(), err
}

// checkRefusal is an error unless the reply says that too little was free.
func checkRefusal(r reply) error {
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(r.payload, "="))
	var s statuspb.Status
	if err == nil {
		err = proto.Unmarshal(raw, &s)
	}
	if err != nil {
		return fmt.Errorf("an answer that cannot be read: %w", err)
	}
	refusal := status.ErrorProto(&s)
	if reason := reasonOf(refusal); reason != "SOLD_OUT" && reason != "ALL_HELD" {
		return refusal
	}
	return nil
}
