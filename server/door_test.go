package server

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

// turnedAway is how long the door tells a caller to wait; 0 if it was let in.
func turnedAway(t *testing.T, d *door, arrived time.Time) time.Duration {
	t.Helper()
	err := d.enter(arrived)
	if err == nil {
		return 0
	}
	over, ok := errors.AsType[*overloaded](err)
	if !ok || over.wait <= 0 {
		t.Fatalf("%v, want overloaded with a time to wait", err)
	}
	return over.wait
}

func TestDoorCounts(t *testing.T) {
	d := newDoor()
	d.most = 3
	for range 3 {
		if wait := turnedAway(t, d, time.Now()); wait != 0 {
			t.Fatal("turned away with room inside")
		}
	}
	for range 10 { // those turned away do not count
		if wait := turnedAway(t, d, time.Now()); wait == 0 {
			t.Fatal("let in above the bound")
		}
	}
	d.leave()
	if wait := turnedAway(t, d, time.Now()); wait != 0 {
		t.Error("turned away after another had left")
	}
}

func TestDoorTurnsLateOnesAway(t *testing.T) {
	d := newDoor()
	if wait := turnedAway(t, d, time.Now().Add(-doorPatience-time.Millisecond)); wait == 0 {
		t.Error("let in with little of its time left")
	}
	if n := d.inside.Load(); n != 0 {
		t.Errorf("%d inside", n)
	}
}

// Those turned away return one after another, at a quarter of the rate at which others are decided, and within 5 s.
func TestDoorSpreadsReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		d.most = 1
		if turnedAway(t, d, time.Now()) != 0 {
			t.Fatal("turned away at an empty door")
		}
		first := turnedAway(t, d, time.Now())
		second := turnedAway(t, d, time.Now())
		if first != slotFirst || second != slotFirst+slotWidth {
			t.Errorf("told to wait %v and %v, want %v and %v more", first, second, slotFirst, slotWidth)
		}
		for range 150 { // 1,000 are decided a second
			time.Sleep(time.Millisecond)
			d.returns.left.Add(1)
		}
		before := turnedAway(t, d, time.Now())
		for range 100 {
			if wait := turnedAway(t, d, time.Now()); wait-before < 3*time.Millisecond || wait-before > 5*time.Millisecond {
				t.Fatalf("%v after the one before, want about 4ms", wait-before)
			} else {
				before = wait
			}
		}
		for range 10_000 {
			if wait := turnedAway(t, d, time.Now()); wait > doorLatest {
				t.Fatalf("told to wait %v", wait)
			}
		}
		time.Sleep(time.Minute)
		if wait := turnedAway(t, d, time.Now()); wait != slotFirst {
			t.Errorf("told to wait %v after a calm minute, want %v", wait, slotFirst)
		}
	})
}

// TestCrowd: while more wait for a decision than can get one, further requests for holds are refused at once, with the time
// to wait, and what buyers do with the holds they have is not.
func TestCrowd(t *testing.T) {
	block := make(chan struct{})
	var inside sync.WaitGroup
	f := &fake{hold: store.Hold{ID: concertHold, State: store.Held}, before: func(_ context.Context, method string) error {
		if method == "CreateHold" {
			inside.Done()
			<-block
		}
		return nil
	}}
	b := startServer(t, f, nil)
	const most = 20
	b.server.interceptors.door.most = most
	inside.Add(most)
	ask := func(trailer *metadata.MD) error {
		request := &pb.CreateHoldRequest{AllotmentId: "concert", BuyerId: "ann", RequestId: "1", Quantity: 1}
		_, err := b.holds.CreateHold(t.Context(), request, grpc.Trailer(trailer))
		return err
	}
	var all sync.WaitGroup
	for range most {
		all.Go(func() {
			if err := ask(&metadata.MD{}); status.Code(err) == codes.ResourceExhausted {
				t.Errorf("one of the first: %v", err)
			}
		})
	}
	inside.Wait()
	var trailer metadata.MD
	err := ask(&trailer)
	info, retry := detail[*errdetails.ErrorInfo](status.Convert(err)), detail[*errdetails.RetryInfo](status.Convert(err))
	if status.Code(err) != codes.ResourceExhausted || info.GetReason() != reasonQueueFull ||
		retry.GetRetryDelay().AsDuration() < slotFirst || len(trailer.Get(pushbackTrailer)) != 1 {
		t.Errorf("got %v with trailer %v, want QUEUE_FULL with the time to wait", err, trailer)
	}
	if _, err := b.holds.GetHold(t.Context(), &pb.GetHoldRequest{HoldId: concertHold.String()}); err != nil {
		t.Errorf("a hold that a buyer has: %v", err)
	}
	close(block)
	all.Wait()
	if n := b.server.interceptors.door.inside.Load(); n != 0 {
		t.Errorf("%d inside at the end", n)
	}
}
