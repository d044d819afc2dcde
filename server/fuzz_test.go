package server

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

// line is what a request goes through on its way to the use cases, without a connection: decoded, validated and converted.
type line struct {
	cases     *fake
	validator *validator
	checkouts *checkouts
	operators *operators
}

// handle answers bytes that came as a request of a method.
func (l *line) handle(ctx context.Context, name string, data []byte) error {
	decode := func(into any) error { return newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, into) }
	if name == "WatchAvailability" {
		watch := &stream{ServerStream: &oneRequest{decode: decode}, ctx: ctx, validator: l.validator}
		return pb.InventoryService_ServiceDesc.Streams[0].Handler(l.checkouts, watch)
	}
	validated := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if err := l.validator.check(request); err != nil {
			return nil, err
		}
		return handler(ctx, request)
	}
	for service, of := range map[*grpc.ServiceDesc]any{&pb.InventoryService_ServiceDesc: l.checkouts, &pb.AdminService_ServiceDesc: l.operators} {
		for _, method := range service.Methods {
			if method.MethodName == name {
				_, err := method.Handler(of, ctx, func(v any) error { return receive(decode, v) }, validated)
				return err
			}
		}
	}
	panic("no method " + name)
}

// oneRequest is a stream of one request.
type oneRequest struct {
	grpc.ServerStream
	decode func(any) error
}

func (s *oneRequest) RecvMsg(into any) error { return s.decode(into) }

// FuzzRequests: whatever bytes come as a request of any method, they are refused as INVALID_ARGUMENT, with words for people, or
// reach the use cases once, as what these take for granted.
func FuzzRequests(f *testing.F) {
	names := slices.Sorted(maps.Keys(validRequests()))
	for n, name := range names {
		data, err := proto.Marshal(requestOf(f, name, validRequests()[name]))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(n), data)
		f.Add(uint8(n), data[:len(data)/2])
	}
	rules, err := newValidator()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, number uint8, data []byte) {
		name := names[int(number)%len(names)]
		cases := &fake{row: store.Allotment{Rules: store.Rules{
			State: store.StateOpen, LateConfirm: store.LateAccept, HoldDuration: store.DefaultHoldDuration,
			MaxHoldDuration: store.DefaultMaxHoldDuration, MaxPerHold: store.DefaultMaxPerHold,
		}}}
		l := &line{
			cases: cases, validator: rules, checkouts: &checkouts{stock: cases, holds: cases, sales: cases},
			operators: &operators{allotments: cases, audits: cases},
		}
		err := l.handle(t.Context(), name, data)
		calls := cases.taken()
		if err != nil {
			wantInvalid(t, err)
			if len(calls) > 0 {
				t.Errorf("%s: refused (%v) after a call: %v", name, err, calls)
			}
			return
		}
		if len(calls) != 1 {
			t.Fatalf("%s: %d calls of the use cases", name, len(calls))
		}
		for _, argument := range calls[0].args {
			wantSound(t, argument)
		}
		wantPlain(t, rules, name, data)
	})
}

func wantInvalid(t *testing.T, err error) {
	t.Helper()
	st := failureOf(err).status
	violations := detail[*errdetails.BadRequest](st).GetFieldViolations()
	if st.Code() != codes.InvalidArgument || len(violations) == 0 || !utf8.ValidString(st.Message()) {
		t.Fatalf("refused with %v", st)
	}
	for _, v := range violations {
		if v.GetDescription() == "" || strings.HasPrefix(v.GetDescription(), "breaks rule") {
			t.Errorf("%s: %q is not for people", v.GetField(), v.GetDescription())
		}
	}
}

// wantSound checks what the use cases take for granted of their arguments.
func wantSound(t *testing.T, argument any) {
	t.Helper()
	switch a := argument.(type) {
	case string: // an id, or a position in a list
		if !utf8.ValidString(a) || strings.ContainsRune(a, 0) {
			t.Errorf("the text %q", a)
		}
	case []string:
		for _, id := range a {
			wantAllotment(t, id)
		}
	case store.Line:
		wantLine(t, a)
	case []store.Line:
		for _, line := range a {
			wantLine(t, line)
		}
	case store.HoldID:
		wantHold(t, a)
	case []store.HoldID:
		for _, id := range a {
			wantHold(t, id)
		}
	case store.ConfirmHold:
		wantHold(t, a.ID)
		if a.OrderID == "" || a.Quantity < 0 || a.Quantity > 1000 || a.Token != nil && (a.Token.Epoch < 1 || a.Token.Sequence < 1) {
			t.Errorf("%+v", a)
		}
	case store.CancelSale:
		wantHold(t, a.ID)
		if a.RequestID == "" || a.Quantity < 0 || a.Quantity > 1000 {
			t.Errorf("%+v", a)
		}
	case store.AdjustCapacity:
		wantAllotment(t, a.Allotment)
		if a.Delta == 0 || max(a.Delta, -a.Delta) > store.MaxCapacity || a.RequestID == "" {
			t.Errorf("%+v", a)
		}
	case store.Allotment:
		wantAllotment(t, a.Allotment)
		wantAllotment(t, a.Group)
		wantRules(t, a.Rules)
		if a.Capacity < 0 || a.Capacity > store.MaxCapacity {
			t.Errorf("%+v", a)
		}
	case store.Rules:
		wantRules(t, a)
	case store.HoldFilter:
		wantAllotment(t, a.Allotment)
	case store.SaleFilter:
		if a.Allotment != "" {
			wantAllotment(t, a.Allotment)
		}
	case int:
		if a < 1 || a > 1001 {
			t.Errorf("a page of %d", a)
		}
	case int64: // an etag's version
	case bool:
	default:
		t.Errorf("nothing is known of %T", argument)
	}
}

func wantAllotment(t *testing.T, id string) {
	t.Helper()
	if !store.ValidAllotmentID(id) {
		t.Errorf("the allotment %q", id)
	}
}

func wantLine(t *testing.T, l store.Line) {
	t.Helper()
	wantAllotment(t, l.Allotment)
	if l.Quantity < 1 || l.Quantity > 1000 {
		t.Errorf("%+v", l)
	}
}

func wantHold(t *testing.T, id store.HoldID) {
	t.Helper()
	if got, err := store.ParseHoldID(id.String()); err != nil || got != id {
		t.Errorf("the hold %q", id)
	}
}

func wantRules(t *testing.T, r store.Rules) {
	t.Helper()
	if r.State < store.StateOpen || r.State > store.StateClosed || r.HoldDuration <= 0 || r.MaxHoldDuration < r.HoldDuration ||
		r.MaxPerHold < 1 || r.MaxPerHold > 1000 || r.MaxPerBuyer < 0 || !r.ClosesAt.IsZero() && !r.ClosesAt.After(r.OpensAt) {
		t.Errorf("the rules %+v", r)
	}
}

// wantPlain checks that the short way of validating a CreateHold lets nothing pass that the rules would not.
func wantPlain(t *testing.T, rules *validator, name string, data []byte) {
	t.Helper()
	if name != "CreateHold" {
		return
	}
	request := &pb.CreateHoldRequest{}
	if err := proto.Unmarshal(data, request); err != nil {
		t.Fatal(err)
	}
	if err := rules.rules.Validate(request); err != nil {
		t.Errorf("plain: %v is, but %v", request, err)
	}
}
