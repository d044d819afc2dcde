package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-inventory/holdfast/docs/model"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// TestReferenceWorkload is the published contention workload, which the model of docs/model plays
// through three kinds of locking: 20,000 requests for 5,000 units by 16 writers. Here it runs on three
// server processes: everything is sold or held, nothing is oversold, nothing is refused while enough is free,
// and every request gets the same answer again from another server.
func TestReferenceWorkload(t *testing.T) {
	c := startCluster(t, 3)
	admin := pb.NewAdminServiceClient(c.conns[0])
	err := repeated(t.Context(), func() error {
		_, err := admin.CreateAllotment(t.Context(), &pb.CreateAllotmentRequest{
			Allotment: &pb.Allotment{Id: "drop", Capacity: model.Capacity, HoldDuration: durationpb.New(time.Hour)}, // longer than any machine takes for it
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	quantities := model.Quantities()
	answers := make([]answer, len(quantities))
	c.each(len(quantities), func(ctx context.Context, i int) {
		answers[i] = c.request(ctx, t, i, i, quantities[i])
	})

	var held int64
	granted, invalid := 0, 0
	for i, a := range answers {
		switch {
		case a.hold != "":
			granted++
			held += quantities[i]
		case a.free >= quantities[i]:
			invalid++
		}
	}
	t.Logf("%d holds of %d units, %d refusals, %d of them while enough was free", granted, held, len(answers)-granted, invalid)
	if held != model.Capacity || invalid != 0 {
		t.Errorf("held %d units, want %d; %d valid requests were refused", held, model.Capacity, invalid)
	}

	c.each(len(quantities), func(ctx context.Context, i int) {
		if again := c.request(ctx, t, i+1, i, quantities[i]); again.hold != answers[i].hold || again.token != answers[i].token {
			t.Errorf("request %d got hold %q first and %q when repeated", i, answers[i].hold, again.hold)
		}
	})
	c.sellSome(t, answers)
	var a *pb.GetAvailabilityResponse
	err = repeated(t.Context(), func() (err error) {
		a, err = pb.NewInventoryServiceClient(c.conns[1]).GetAvailability(t.Context(), &pb.GetAvailabilityRequest{AllotmentId: "drop"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := a.GetAvailability(); got.GetSold()+got.GetHeld() != model.Capacity || got.GetAvailable() != 0 || got.GetSold() == 0 {
		t.Errorf("in the end %v", got)
	}
}

// answer is what a request was told: a hold, or how many units were free by the refusal's own numbers.
type answer struct {
	hold, token string
	free        int64
}

// each runs f for 0..n-1 by 16 writers, each in the order of its turn.
func (c *cluster) each(n int, f func(ctx context.Context, i int)) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	next := make(chan int)
	var writers sync.WaitGroup
	for range model.Workers {
		writers.Go(func() {
			for i := range next {
				f(ctx, i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	writers.Wait()
}

// request asks server number s, again as long as it is told to repeat.
func (c *cluster) request(ctx context.Context, t *testing.T, s, i int, quantity int64) answer {
	client := pb.NewInventoryServiceClient(c.conns[s%len(c.conns)])
	var r *pb.CreateHoldResponse
	err := repeated(ctx, func() (err error) {
		r, err = client.CreateHold(ctx, &pb.CreateHoldRequest{
			AllotmentId: "drop", BuyerId: fmt.Sprintf("buyer-%d", i), RequestId: fmt.Sprintf("request-%d", i), Quantity: int32(quantity),
		})
		return err
	})
	if err == nil {
		return answer{hold: r.GetHold().GetId(), token: fmt.Sprint(r.GetHold().GetFencingToken().GetSequence())}
	}
	reason, facts := reasonOf(err)
	if reason != "SOLD_OUT" && reason != "ALL_HELD" {
		t.Errorf("request %d: %v", i, err)
		return answer{}
	}
	return answer{free: facts["capacity"] - facts["sold"] - facts["held"]}
}

// repeated calls again, with the same ids, as long as it meets trouble.
func repeated(ctx context.Context, call func() error) error {
	for {
		err := call()
		if !undecided(err) || ctx.Err() != nil {
			return err
		}
	}
}

// undecided: of a call that it was to repeat, gRPC's client now and then returns io.EOF instead of what the server said.
func undecided(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded:
		return true
	default:
		return errors.Is(err, io.EOF)
	}
}

// reasonOf returns an error's reason with its numbers.
func reasonOf(err error) (string, map[string]int64) {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			facts := map[string]int64{}
			for key, text := range info.GetMetadata() {
				if n, err := strconv.ParseInt(text, 10, 64); err == nil {
					facts[key] = n
				}
			}
			return info.GetReason(), facts
		}
	}
	return "", nil
}

// sellSome confirms the first 1,000 holds, on whichever server.
func (c *cluster) sellSome(t *testing.T, answers []answer) {
	var holds []string
	for _, a := range answers {
		if a.hold != "" && len(holds) < 1000 {
			holds = append(holds, a.hold)
		}
	}
	c.each(len(holds), func(ctx context.Context, i int) {
		client := pb.NewInventoryServiceClient(c.conns[i%len(c.conns)])
		err := repeated(ctx, func() error {
			_, err := client.ConfirmHold(ctx, &pb.ConfirmHoldRequest{HoldId: holds[i], OrderId: fmt.Sprintf("order-%d", i)})
			return err
		})
		if err != nil {
			t.Errorf("confirm %s: %v", holds[i], err)
		}
	})
}
