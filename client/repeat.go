package client

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// pace is how long a call may take.
type pace struct {
	try time.Duration // the first try: many times what the server gives itself
	all time.Duration // all of them, unless the context says. serviceconfig.json says the same
}

// paceOf knows the methods in which Postgres takes part: the server gives these 2 s, all others 90 ms.
func paceOf(method string) pace {
	switch method {
	case pb.InventoryService_ConfirmHold_FullMethodName, pb.InventoryService_BatchConfirmHolds_FullMethodName,
		pb.InventoryService_GetSale_FullMethodName, pb.InventoryService_CancelSale_FullMethodName:
		return pace{try: 5 * time.Second, all: 15 * time.Second}
	default:
		return pace{try: 2 * time.Second, all: 5 * time.Second}
	}
}

// repeat makes a call, and makes it again with the same request while its outcome is open.
func repeat(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	p := paceOf(method)
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.all)
		defer cancel()
	}
	for try := 1; ; try++ {
		var trailer metadata.MD
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, p.try)
			defer cancel()
			return invoke(ctx, method, request, reply, conn, slices.Concat(options, []grpc.CallOption{grpc.Trailer(&trailer)})...)
		}()
		if status.Code(err) == codes.DeadlineExceeded {
			p.try *= 2 // it may be that all is slow: who asks again and again makes it slower
		}
		if err == nil {
			return nil
		}
		a := readAnswer(err, trailer)
		if !a.open() && (try == 1 || !a.turnedAway()) {
			return refusalOf(a)
		}
		if !a.open() || a.never || !pause(ctx, a.delay(try)) {
			return unknown(ctx, a, request, try)
		}
	}
}

// pause waits, unless the context ends before that.
func pause(ctx context.Context, d time.Duration) bool {
	if deadline, limited := ctx.Deadline(); limited && time.Until(deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
