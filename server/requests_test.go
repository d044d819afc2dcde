package server

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

func TestNewAllotment(t *testing.T) {
	defaults := store.Rules{
		State: store.StateOpen, LateConfirm: store.LateAccept, HoldDuration: 120 * time.Second,
		MaxHoldDuration: 360 * time.Second, MaxPerHold: 10,
	}
	with := func(change func(*store.Rules)) store.Rules {
		rules := defaults
		change(&rules)
		return rules
	}
	limit := int32(4)
	tests := []struct {
		name  string
		in    *pb.Allotment
		group string
		want  store.Rules
	}{
		{"defaults", &pb.Allotment{Id: "concert"}, "concert", defaults},
		{"group", &pb.Allotment{Id: "concert", Group: "night"}, "night", defaults},
		{
			"a long hold raises the maximum", &pb.Allotment{Id: "concert", HoldDuration: durationpb.New(time.Hour)}, "concert",
			with(func(r *store.Rules) { r.HoldDuration, r.MaxHoldDuration = time.Hour, time.Hour }),
		},
		{
			"a short hold keeps the maximum", &pb.Allotment{Id: "concert", HoldDuration: durationpb.New(time.Second)}, "concert",
			with(func(r *store.Rules) { r.HoldDuration = time.Second }),
		},
		{
			"everything", &pb.Allotment{
				Id: "concert", HoldDuration: durationpb.New(1500*time.Millisecond + 1), MaxHoldDuration: durationpb.New(time.Minute),
				MaxQuantityPerHold: 1000, MaxQuantityPerBuyer: &limit, OpensAt: timestamppb.New(noon.Add(1)),
				ClosesAt: timestamppb.New(night), State: pb.AllotmentState_ALLOTMENT_STATE_CLOSED,
				LateConfirm: pb.LateConfirm_LATE_CONFIRM_REJECT, Etag: "ignored",
			}, "concert",
			store.Rules{
				State: store.StateClosed, LateConfirm: store.LateReject, HoldDuration: 1500 * time.Millisecond,
				MaxHoldDuration: time.Minute, MaxPerHold: 1000, MaxPerBuyer: 4, OpensAt: noon, ClosesAt: night,
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := allotmentIn(test.in)
			if err != nil {
				t.Fatal(err)
			}
			want := store.Allotment{Place: store.Place{Allotment: "concert", Group: test.group}, Rules: test.want}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	old := store.Rules{
		State: store.StateOpen, LateConfirm: store.LateReject, HoldDuration: time.Minute, MaxHoldDuration: time.Hour,
		MaxPerHold: 5, MaxPerBuyer: 7, OpensAt: noon, ClosesAt: night,
	}
	tests := []struct {
		name   string
		mask   string
		in     *pb.Allotment
		change func(*store.Rules) // from old
		field  string             // refused
	}{
		{
			"only what the mask names", "state", &pb.Allotment{
				State: pb.AllotmentState_ALLOTMENT_STATE_PAUSED, MaxQuantityPerHold: 9, Capacity: -1, Group: "Other",
				OpensAt: timestamppb.New(night.Add(time.Hour)), HoldDuration: durationpb.New(0),
			}, func(r *store.Rules) { r.State = store.StatePaused }, "",
		},
		{
			"unset fields go back to their defaults",
			"hold_duration,max_hold_duration,max_quantity_per_hold,max_quantity_per_buyer,opens_at,closes_at,late_confirm",
			&pb.Allotment{}, func(r *store.Rules) {
				*r = store.Rules{
					State: store.StateOpen, LateConfirm: store.LateAccept, HoldDuration: 120 * time.Second,
					MaxHoldDuration: 360 * time.Second, MaxPerHold: 10,
				}
			}, "",
		},
		{
			"hold duration above the old maximum", "hold_duration", &pb.Allotment{HoldDuration: durationpb.New(2 * time.Hour)},
			nil, "allotment.max_hold_duration",
		},
		{
			"maximum below the old hold duration", "max_hold_duration",
			&pb.Allotment{MaxHoldDuration: durationpb.New(time.Second)}, nil, "allotment.max_hold_duration",
		},
		{
			"both durations", "hold_duration,max_hold_duration",
			&pb.Allotment{HoldDuration: durationpb.New(2 * time.Hour), MaxHoldDuration: durationpb.New(2 * time.Hour)},
			func(r *store.Rules) { r.HoldDuration, r.MaxHoldDuration = 2*time.Hour, 2*time.Hour }, "",
		},
		{
			"opens after the old closing", "opens_at", &pb.Allotment{OpensAt: timestamppb.New(night)}, nil, "allotment.closes_at",
		},
		{
			"closes before the old opening", "closes_at", &pb.Allotment{ClosesAt: timestamppb.New(noon)}, nil, "allotment.closes_at",
		},
		{"never closes", "closes_at", &pb.Allotment{}, func(r *store.Rules) { r.ClosesAt = time.Time{} }, ""},
	}
	f := &fake{}
	b := startServer(t, f, nil)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f.row = store.Allotment{Place: store.Place{Allotment: "concert"}, Rules: old, Version: 8}
			f.taken()
			test.in.Id, test.in.Etag = "concert", formatEtag(7)
			got, err := b.admin.UpdateAllotment(t.Context(), &pb.UpdateAllotmentRequest{
				Allotment: test.in, UpdateMask: &fieldmaskpb.FieldMask{Paths: strings.Split(test.mask, ",")},
			})
			if test.field != "" {
				wantField(t, err, test.field)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := old
			test.change(&want)
			if diff := cmp.Diff([]any{"concert", int64(7), want}, f.taken()[0].args); diff != "" {
				t.Errorf("called otherwise (-want +got):\n%s", diff)
			}
			if got.GetAllotment().GetEtag() != formatEtag(8) {
				t.Errorf("etag %q is not that of version 8", got.GetAllotment().GetEtag())
			}
		})
	}
}

func TestCapacityIsNotUpdated(t *testing.T) {
	b := startServer(t, &fake{}, nil)
	_, err := b.admin.UpdateAllotment(t.Context(), &pb.UpdateAllotmentRequest{
		Allotment:  &pb.Allotment{Id: "concert", Etag: formatEtag(1), State: pb.AllotmentState_ALLOTMENT_STATE_OPEN},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"state", "capacity"}},
	})
	wantField(t, err, "update_mask")
	if text := status.Convert(err).Message(); !strings.Contains(text, "capacity") || !strings.Contains(text, "AdjustCapacity") {
		t.Errorf("%q does not say what to do instead", text)
	}
}
