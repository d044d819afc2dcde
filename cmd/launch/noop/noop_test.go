package noop

import (
	"context"
	"net"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// TestServe: the first calls get holds, the others refusals, until the server is told to stop.
func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, 2) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := pb.NewInventoryServiceClient(conn)
	for i := range 3 {
		r, err := client.CreateHold(t.Context(), &pb.CreateHoldRequest{AllotmentId: "a", BuyerId: "b", RequestId: "r", Quantity: 2})
		if i < 2 {
			if h := r.GetHold(); err != nil || h.GetBuyerId() != "b" || h.GetQuantity() != 2 || h.GetFencingToken().GetSequence() != int64(i+1) {
				t.Errorf("call %d: %v, %v", i, r, err)
			}
			continue
		}
		details := status.Convert(err).Details()
		if status.Code(err) != codes.FailedPrecondition || len(details) != 1 || details[0].(*errdetails.ErrorInfo).GetReason() != "ALL_HELD" {
			t.Errorf("call %d: %v", i, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
