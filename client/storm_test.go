package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-inventory/holdfast/client"
	"github.com/holdfast-inventory/holdfast/client/clienttest"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

const (
	stormClients = 200
	stormIntents = 2000
	stormUnits   = 500
	patience     = time.Minute // for all of it; the machine may be busy
)

// storm lets buyers buy, each of a client of its own ten one after another, and returns how many were told which outcome.
func storm(t *testing.T, buy func(client int, buyer string) string) map[string]int {
	t.Helper()
	var mu sync.Mutex
	told := map[string]int{}
	var all sync.WaitGroup
	for i := range stormClients {
		all.Go(func() {
			for n := range stormIntents / stormClients {
				outcome := buy(i, fmt.Sprintf("buyer-%d-%d", i, n))
				mu.Lock()
				told[outcome]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return told
}

// createLasting makes an allotment whose holds outlast the test, however slow the machine.
func createLasting(t *testing.T, dev *clienttest.Server, id string) {
	t.Helper()
	lasting := durationpb.New(time.Hour)
	allotment := &pb.Allotment{Id: id, Capacity: stormUnits, HoldDuration: lasting, MaxHoldDuration: lasting}
	if _, err := dev.Admin.CreateAllotment(t.Context(), &pb.CreateAllotmentRequest{Allotment: allotment}); err != nil {
		t.Fatal(err)
	}
}

// excuses counts the tries for holds that ended open because the machine was busy, as it may be in a test: the server said that it could not decide
// in its 90 ms, or the try had no answer in its time. Those whose reply was lost are none of them.
type excuses struct{ busy, late atomic.Int64 }

func (e *excuses) count(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	if method == pb.InventoryService_CreateHold_FullMethodName {
		st := status.Convert(err)
		switch {
		case st.Code() == codes.DeadlineExceeded:
			e.late.Add(1)
		case (st.Code() == codes.Unavailable || st.Code() == codes.ResourceExhausted) && len(st.Details()) > 0:
			e.busy.Add(1)
		}
	}
	return err
}

// books are what the service has in the end.
type books struct {
	capacity, sold int64
	holds          map[string]int // by buyer, in any state
	live           int64          // holds that still wait for their deadline
}

func booksOf(t *testing.T, dev *clienttest.Server, allotment string) books {
	t.Helper()
	b := books{holds: map[string]int{}}
	got, err := dev.Admin.GetAllotment(t.Context(), &pb.GetAllotmentRequest{AllotmentId: allotment})
	if err != nil {
		t.Fatal(err)
	}
	b.capacity = got.GetAllotment().GetCapacity()
	sales := &pb.ListSalesRequest{AllotmentId: allotment, PageSize: 1000}
	for page := true; page; page = sales.GetPageToken() != "" {
		got, err := dev.Admin.ListSales(t.Context(), sales)
		if err != nil {
			t.Fatal(err)
		}
		for _, sale := range got.GetSales() {
			b.sold += int64(sale.GetQuantity() - sale.GetCancelledQuantity())
		}
		sales.PageToken = got.GetNextPageToken()
	}
	seen := map[string]bool{} // a hold may be listed twice
	holds := &pb.ListHoldsRequest{AllotmentId: allotment, PageSize: 1000}
	for page := true; page; page = holds.GetPageToken() != "" {
		got, err := dev.Admin.ListHolds(t.Context(), holds)
		if err != nil {
			t.Fatal(err)
		}
		for _, hold := range got.GetHolds() {
			if !seen[hold.GetId()] {
				b.holds[hold.GetBuyerId()]++
				if hold.GetState() == pb.HoldState_HOLD_STATE_HELD {
					b.live++
				}
			}
			seen[hold.GetId()] = true
		}
		holds.PageToken = got.GetNextPageToken()
	}
	return b
}

// extra is how many holds there are beyond one for each intent.
func (b books) extra() int {
	extra := 0
	for _, n := range b.holds {
		extra += n - 1
	}
	return extra
}

// TestRetryStorm: of 2,000 intents on 500 units, over connections that end in place of every 20th reply, each comes to one definite end.
func TestRetryStorm(t *testing.T) {
	dev := clienttest.Dev(t)
	t.Run("this package", func(t *testing.T) { stormOfClients(t, dev) })
	t.Run("a naive client", func(t *testing.T) { stormOfNaive(t, dev) })
}

func stormOfClients(t *testing.T, dev *clienttest.Server) {
	const allotment = "storm"
	createLasting(t, dev, allotment)
	proxy := newLossy(t, dev.Addr)
	var e excuses
	options := client.Options{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(e.count)}}
	clients := make([]*client.Client, stormClients)
	for i := range clients {
		var err error
		if clients[i], err = client.Dial(proxy.Addr().String(), options); err != nil {
			t.Fatal(err)
		}
		defer clients[i].Close()
		if err := clients[i].Connect(t.Context()); err != nil { // before it begins
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var refusals sync.Map
	told := storm(t, func(i int, buyer string) string {
		hold, err := clients[i].Hold(ctx, client.Want{AllotmentID: allotment, BuyerID: buyer, Quantity: 1})
		if err == nil {
			_, err = clients[i].Confirm(ctx, hold.GetId(), "order-"+buyer)
		}
		var refusal client.Refusal
		switch {
		case err == nil:
			return "sold"
		case errors.As(err, &refusal):
			refusals.Store(refusal.Reason.String(), true)
			return "refused"
		default:
			t.Errorf("%s: %v", buyer, err)
			return "unknown"
		}
	})
	b := booksOf(t, dev, allotment)
	holds, confirms := proxy.count(pb.InventoryService_CreateHold_FullMethodName), proxy.count(pb.InventoryService_ConfirmHold_FullMethodName)
	excused := e.busy.Load() + e.late.Load()
	t.Logf("told %v; sold %d of %d; %d holds too many, %d left; %d confirms, %d requests for holds: %.3f of an intent, %.3f without %d that the machine was too busy for",
		told, b.sold, b.capacity, b.extra(), b.live, confirms, holds, float64(holds)/stormIntents, float64(holds-excused)/stormIntents, excused)
	refusals.Range(func(reason, _ any) bool {
		if reason != "ERROR_REASON_SOLD_OUT" && reason != "ERROR_REASON_ALL_HELD" {
			t.Errorf("refused with %v", reason)
		}
		return true
	})
	switch {
	case b.sold != stormUnits || told["sold"] != stormUnits || told["sold"]+told["refused"] != stormIntents:
		t.Errorf("sold %d, told %v", b.sold, told)
	case b.extra() != 0 || b.live != 0:
		t.Errorf("%d holds beyond one of each intent, %d that nobody knows of", b.extra(), b.live)
	case float64(holds-excused) >= 1.3*stormIntents:
		t.Errorf("%d requests for holds, %d of them excused", holds, excused)
	case proxy.granted.Load() == 0:
		t.Error("no reply with a hold was lost")
	}
}

// naive buys as people write it first: whatever fails is asked for again at once, under a new id.
func naive(ctx context.Context, api pb.InventoryServiceClient, allotment, buyer string) string {
	const most = 10
	var hold *pb.CreateHoldResponse
	err := errors.New("not tried")
	for n := 0; n < most && err != nil && status.Code(err) != codes.FailedPrecondition; n++ {
		hold, err = api.CreateHold(ctx, &pb.CreateHoldRequest{
			AllotmentId: allotment, BuyerId: buyer, RequestId: client.NewRequestID(), Quantity: 1,
		})
	}
	switch status.Code(err) {
	case codes.OK:
	case codes.FailedPrecondition:
		return "refused"
	default:
		return "gave up"
	}
	for range most {
		_, err = api.ConfirmHold(ctx, &pb.ConfirmHoldRequest{HoldId: hold.GetHold().GetId(), OrderId: client.NewRequestID()})
		switch status.Code(err) {
		case codes.OK:
			return "sold"
		case codes.AlreadyExists:
			return "told no, and sold"
		}
	}
	return "gave up"
}

func stormOfNaive(t *testing.T, dev *clienttest.Server) {
	const allotment = "naive"
	createLasting(t, dev, allotment)
	proxy := newLossy(t, dev.Addr)
	clients := make([]pb.InventoryServiceClient, stormClients)
	for i := range clients {
		conn, err := grpc.NewClient(proxy.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.Connect()
		clients[i] = pb.NewInventoryServiceClient(conn)
	}
	told := storm(t, func(i int, buyer string) string { return naive(t.Context(), clients[i], allotment, buyer) })
	b := booksOf(t, dev, allotment)
	holds, confirms := proxy.count(pb.InventoryService_CreateHold_FullMethodName), proxy.count(pb.InventoryService_ConfirmHold_FullMethodName)
	t.Logf("told %v; sold %d of %d; %d holds too many, %d left until they lapse; %d requests for holds, %d confirms",
		told, b.sold, b.capacity, b.extra(), b.live, holds, confirms)
	lost := proxy.granted.Load()
	// What follows with certainty: a hold whose reply was lost is known to nobody, so it is neither sold nor given back.
	if lost == 0 || b.live < lost || b.sold > stormUnits-lost {
		t.Errorf("%d holds whose reply was lost; %d are left, %d are sold", lost, b.live, b.sold)
	}
}
