package admin

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// fake answers as it is told, and keeps what it was asked.
type fake struct {
	pb.UnimplementedAdminServiceServer
	pb.UnimplementedInventoryServiceServer

	fail  func(call int) error // before anything else; nil: never
	delay time.Duration        // until a repeat; 0: a moment
	watch func(stream grpc.ServerStreamingServer[pb.WatchAvailabilityResponse]) error

	mu       sync.Mutex
	requests []proto.Message
}

func (f *fake) asked(request proto.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, request)
	if f.fail == nil {
		return nil
	}
	return f.fail(len(f.requests))
}

// all are the requests so far.
func (f *fake) all() []proto.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

func at(second int) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, 11, 30, 12, 0, second, 0, time.UTC))
}

func concert() *pb.Allotment {
	limit := int32(4)
	return &pb.Allotment{
		Id: "concert", Group: "night", Capacity: 5000, HoldDuration: durationpb.New(2 * time.Minute),
		MaxHoldDuration: durationpb.New(6 * time.Minute), MaxQuantityPerHold: 10, MaxQuantityPerBuyer: &limit, OpensAt: at(30),
		State: pb.AllotmentState_ALLOTMENT_STATE_PAUSED, LateConfirm: pb.LateConfirm_LATE_CONFIRM_ACCEPT_IF_AVAILABLE, Etag: "ZQI",
		CreateTime: at(0), UpdateTime: at(1),
	}
}

func plain() *pb.Allotment {
	return &pb.Allotment{
		Id: "a", Group: "a", HoldDuration: durationpb.New(1500 * time.Millisecond), MaxHoldDuration: durationpb.New(time.Hour),
		MaxQuantityPerHold: 1, ClosesAt: at(59), State: pb.AllotmentState_ALLOTMENT_STATE_OPEN,
		LateConfirm: pb.LateConfirm_LATE_CONFIRM_REJECT, Etag: "ZQQ", CreateTime: at(0), UpdateTime: at(0),
	}
}

func (f *fake) CreateAllotment(_ context.Context, r *pb.CreateAllotmentRequest) (*pb.CreateAllotmentResponse, error) {
	return &pb.CreateAllotmentResponse{Allotment: concert()}, f.asked(r)
}

func (f *fake) GetAllotment(_ context.Context, r *pb.GetAllotmentRequest) (*pb.GetAllotmentResponse, error) {
	return &pb.GetAllotmentResponse{Allotment: concert()}, f.asked(r)
}

func (f *fake) UpdateAllotment(_ context.Context, r *pb.UpdateAllotmentRequest) (*pb.UpdateAllotmentResponse, error) {
	return &pb.UpdateAllotmentResponse{Allotment: concert()}, f.asked(r)
}

func (f *fake) AdjustCapacity(_ context.Context, r *pb.AdjustCapacityRequest) (*pb.AdjustCapacityResponse, error) {
	return &pb.AdjustCapacityResponse{Allotment: concert()}, f.asked(r)
}

func (f *fake) ListAllotments(_ context.Context, r *pb.ListAllotmentsRequest) (*pb.ListAllotmentsResponse, error) {
	if r.GetPageToken() == "" {
		return &pb.ListAllotmentsResponse{Allotments: []*pb.Allotment{plain()}, NextPageToken: "more"}, f.asked(r)
	}
	return &pb.ListAllotmentsResponse{Allotments: []*pb.Allotment{concert()}}, f.asked(r)
}

// ListHolds has pages of which one is empty, and one has a hold that came before.
func (f *fake) ListHolds(_ context.Context, r *pb.ListHoldsRequest) (*pb.ListHoldsResponse, error) {
	held := &pb.Hold{
		Id: "concert.a", AllotmentId: "concert", BuyerId: "Zoë", RequestId: "r-1", Quantity: 2, State: pb.HoldState_HOLD_STATE_HELD,
		CreateTime: at(0), ExpireTime: at(30), Remaining: durationpb.New(12345 * time.Millisecond),
	}
	sold := &pb.Hold{
		Id: "concert.b", AllotmentId: "concert", BuyerId: "bob", RequestId: "r-2", Quantity: 1, State: pb.HoldState_HOLD_STATE_SOLD,
		CreateTime: at(0), ExpireTime: at(31), OrderId: "o-1",
	}
	pages := map[string]*pb.ListHoldsResponse{
		"": {NextPageToken: "2"}, "2": {Holds: []*pb.Hold{held}, NextPageToken: "3"}, "3": {Holds: []*pb.Hold{held, sold}},
	}
	return pages[r.GetPageToken()], f.asked(r)
}

func (f *fake) ListSales(_ context.Context, r *pb.ListSalesRequest) (*pb.ListSalesResponse, error) {
	return &pb.ListSalesResponse{Sales: []*pb.Sale{
		{HoldId: "concert.a", AllotmentId: "concert", BuyerId: "ann", OrderId: "order-1", Quantity: 2, SoldTime: at(2)},
		{HoldId: "concert.b", AllotmentId: "concert", BuyerId: "bob", OrderId: "o-2", Quantity: 3, CancelledQuantity: 1, SoldTime: at(3), CancelTime: at(4)},
	}}, f.asked(r)
}

func (f *fake) ReconcileAllotment(_ context.Context, r *pb.ReconcileAllotmentRequest) (*pb.ReconcileAllotmentResponse, error) {
	if r.GetAllotmentId() == "sound" {
		return &pb.ReconcileAllotmentResponse{}, f.asked(r)
	}
	return &pb.ReconcileAllotmentResponse{Applied: r.GetApply(), Findings: []*pb.Finding{{
		Kind: pb.FindingKind_FINDING_KIND_SOLD, AllotmentId: "concert", What: "Redis counts too many units as sold", Difference: 2,
		Action: "count them anew", Expected: "3", Actual: "5",
	}}}, f.asked(r)
}

func numbers(id string, available, sold int64) *pb.Availability {
	return &pb.Availability{
		AllotmentId: id, Capacity: 10, Available: available, Held: 10 - available - sold, Sold: sold, Version: 10 - available,
		State: pb.AllotmentState_ALLOTMENT_STATE_OPEN, NextLapseTime: at(42), ReadTime: at(0),
	}
}

func (f *fake) BatchGetAvailability(_ context.Context, r *pb.BatchGetAvailabilityRequest) (*pb.BatchGetAvailabilityResponse, error) {
	response := &pb.BatchGetAvailabilityResponse{}
	for _, id := range r.GetAllotmentIds() {
		response.Availabilities = append(response.Availabilities, numbers(id, 5, 3))
	}
	return response, f.asked(r)
}

func (f *fake) WatchAvailability(r *pb.WatchAvailabilityRequest, stream grpc.ServerStreamingServer[pb.WatchAvailabilityResponse]) error {
	if err := f.asked(r); err != nil {
		return err
	}
	return f.watch(stream)
}

// pushback asks for a repeat after a moment, as the service does.
func (f *fake) pushback(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	response, err := handler(ctx, request)
	if err != nil {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", strconv.FormatInt(max(f.delay, time.Millisecond).Milliseconds(), 10))) // a fake call has a stream
	}
	return response, err
}

// serve serves on loopback, and returns the address.
func (f *fake) serve(t *testing.T, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(append(options, grpc.ChainUnaryInterceptor(f.pushback))...)
	pb.RegisterAdminServiceServer(server, f)
	pb.RegisterInventoryServiceServer(server, f)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// parse makes a command of a command line, as package main does.
func parse(t *testing.T, address, line string) Command {
	t.Helper()
	parser, err := kong.New(&Commands{})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(append(strings.Fields(line), "--addr="+address))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return parsed.Selected().Target.Addr().Interface().(Command)
}

// run runs a command line as package main does.
func run(t *testing.T, address, line string) (out, errOut string, err error) {
	t.Helper()
	command := parse(t, address, line)
	if problems := command.Problems(); len(problems) > 0 {
		return "", "", &UsageError{Problems: problems}
	}
	var printed, told strings.Builder
	err = command.Run(t.Context(), &printed, &told)
	return printed.String(), told.String(), err
}

// until waits for a text in what a command that goes on writes.
func until(t *testing.T, written *storetest.Log, text string) {
	t.Helper()
	storetest.Eventually(t, 30*time.Second, func() error {
		if !strings.Contains(written.String(), text) {
			return errors.New("not written: " + text)
		}
		return nil
	})
}
