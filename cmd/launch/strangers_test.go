package main

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// stranger has other stores: it knows none of our allotments.
type stranger struct {
	pb.UnimplementedInventoryServiceServer

	asked bool
}

func (s *stranger) GetAvailability(context.Context, *pb.GetAvailabilityRequest) (*pb.GetAvailabilityResponse, error) {
	return nil, status.Error(codes.NotFound, "no such allotment")
}

func (s *stranger) CreateHold(context.Context, *pb.CreateHoldRequest) (*pb.CreateHoldResponse, error) {
	s.asked = true
	return nil, status.Error(codes.NotFound, "no such allotment")
}

// TestStrangers: servers that do not share stores are found out before the load begins, and the allotment is closed.
func TestStrangers(t *testing.T) {
	t.Setenv(asLaunch, "1")
	for name, test := range map[string]struct {
		command        string
		otherOperators bool
	}{
		"a launch": {"onsale", false}, "the highest rate": {"closed", false}, "operators elsewhere": {"onsale", true},
	} {
		t.Run(name, func(t *testing.T) {
			ours, address := startCareless(t)
			other := &stranger{}
			elsewhere := serveFake(t, func(to grpc.ServiceRegistrar) { pb.RegisterInventoryServiceServer(to, other) })
			args := []string{test.command, "--addr=" + address + "," + elsewhere}
			if test.otherOperators {
				args = []string{test.command, "--addr=" + elsewhere, "--admin-addr=" + address}
			}
			var out, errOut strings.Builder
			if code := run(t.Context(), args, &out, &errOut); code != exitError {
				t.Errorf("exit code %d", code)
			}
			mustSay(t, errOut.String(), "just after it was created: these addresses do not serve the same stores")
			if other.asked || !ours.closed() {
				t.Errorf("the load began: %t, the allotment is closed: %t", other.asked, ours.closed())
			}
		})
	}
}
