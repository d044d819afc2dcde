package admin

import (
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

var update = flag.Bool("update", false, "write what the commands print into testdata")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want (%s) +got:\n%s", file, diff)
	}
}

// TestPrinted: what each command prints, for people and for scripts.
func TestPrinted(t *testing.T) {
	f := &fake{}
	address := f.serve(t)
	for name, line := range map[string]string{
		"get": "get concert", "list": "list", "holds": "holds concert", "sales": "sales", "reconcile": "reconcile concert",
		"reconcile-apply": "reconcile concert --apply", "reconcile-sound": "reconcile sound", "watch-once": "watch --once a b",
	} {
		for suffix, flags := range map[string]string{"": "", "-json": " --json"} {
			t.Run(name+suffix, func(t *testing.T) {
				out, errOut, err := run(t, address, line+flags)
				if err != nil || errOut != "" {
					t.Fatalf("%v, %s", err, errOut)
				}
				golden(t, name+suffix, out)
			})
		}
	}
	for _, line := range []string{"create concert", "update concert --state paused", "adjust concert --add 1"} {
		for suffix, flags := range map[string]string{"": "", "-json": " --json"} {
			out, _, err := run(t, address, line+flags)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "get"+suffix, out)
		}
	}
}

// TestAsked: what each command asks the server for.
func TestAsked(t *testing.T) {
	four := int32(4)
	tests := map[string]proto.Message{
		"create concert": &pb.CreateAllotmentRequest{Allotment: &pb.Allotment{Id: "concert"}},
		"create concert --capacity 5 --group g --hold-duration 1m --max-hold-duration 2m --max-quantity-per-hold 3 --max-quantity-per-buyer 4 " +
			"--opens-at 2026-11-30T12:00:00Z --closes-at 2026-11-30T13:00:01+01:00 --state closed --late-confirm accept-if-available": &pb.CreateAllotmentRequest{Allotment: &pb.Allotment{
			Id: "concert", Capacity: 5, Group: "g", HoldDuration: durationpb.New(time.Minute), MaxHoldDuration: durationpb.New(2 * time.Minute),
			MaxQuantityPerHold: 3, MaxQuantityPerBuyer: &four, OpensAt: at(0), ClosesAt: at(1),
			State: pb.AllotmentState_ALLOTMENT_STATE_CLOSED, LateConfirm: pb.LateConfirm_LATE_CONFIRM_ACCEPT_IF_AVAILABLE,
		}},
		"update concert --state open": &pb.UpdateAllotmentRequest{
			Allotment:  &pb.Allotment{Id: "concert", Etag: "ZQI", State: pb.AllotmentState_ALLOTMENT_STATE_OPEN},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"state"}},
		},
		"update concert --etag mine --reset closes-at,max-quantity-per-buyer --late-confirm reject": &pb.UpdateAllotmentRequest{
			Allotment:  &pb.Allotment{Id: "concert", Etag: "mine", LateConfirm: pb.LateConfirm_LATE_CONFIRM_REJECT},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"late_confirm", "closes_at", "max_quantity_per_buyer"}},
		},
		"adjust concert --add 5 --request-id r":              &pb.AdjustCapacityRequest{AllotmentId: "concert", Delta: 5, RequestId: "r"},
		"adjust concert --remove 5 --request-id r --dry-run": &pb.AdjustCapacityRequest{AllotmentId: "concert", Delta: -5, RequestId: "r", DryRun: true},
		"holds concert --buyer ann --state held,lapsed": &pb.ListHoldsRequest{
			AllotmentId: "concert", BuyerId: "ann", States: []pb.HoldState{pb.HoldState_HOLD_STATE_HELD, pb.HoldState_HOLD_STATE_LAPSED},
			PageSize: pageSize, PageToken: "3",
		},
		"sales --allotment a --buyer b --order c": &pb.ListSalesRequest{AllotmentId: "a", BuyerId: "b", OrderId: "c", PageSize: pageSize},
		"reconcile concert":                       &pb.ReconcileAllotmentRequest{AllotmentId: "concert"},
		"reconcile concert --apply":               &pb.ReconcileAllotmentRequest{AllotmentId: "concert", Apply: true},
	}
	for line, want := range tests {
		t.Run(line, func(t *testing.T) {
			f := &fake{}
			if _, _, err := run(t, f.serve(t), line); err != nil {
				t.Fatal(err)
			}
			asked := f.all()
			if diff := cmp.Diff(want, asked[len(asked)-1], protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestMistakes: what can be seen without a server is told without one.
func TestMistakes(t *testing.T) {
	tests := map[string]string{
		"update x": "at least one rule",
		"update x --late-confirm reject --reset late-confirm": "--reset: late-confirm is given a value too",
		"create x --max-quantity-per-hold 0":                  "--max-quantity-per-hold",
		"adjust x --add=-5":                                   "--add, --remove: must be above 0",
		"adjust x --remove 0":                                 "--add, --remove: must be above 0",
		"get x --cert-file=c":                                 "--key-file",
		"get x --timeout=0s":                                  "--timeout",
	}
	for line, want := range tests {
		_, _, err := run(t, "127.0.0.1:1", line)
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	for address, token := range map[string]bool{"10.0.0.1:1": false, "h:1": false, "127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true} {
		problems := parse(t, address, "get x --token-file=f").Problems()
		if (len(problems) == 0) != token {
			t.Errorf("a token in the clear to %s: %v", address, problems)
		}
		if problems := parse(t, address, "get x --token-file=f --ca-file=c").Problems(); len(problems) > 0 {
			t.Errorf("a token by TLS to %s: %v", address, problems)
		}
	}
	if problems := parse(t, "nowhere", "get x").Problems(); len(problems) != 1 {
		t.Errorf("an address without a port: %v", problems)
	}
}

// refused is a status as the service sends it.
func refused(code codes.Code, message, details string) error {
	st := status.New(code, message)
	for _, text := range strings.Fields(details) {
		var d protoadapt.MessageV1
		if field, problem, ok := strings.Cut(text, ":"); ok {
			d = &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: problem}}}
		} else {
			d = &errdetails.ErrorInfo{Reason: text, Domain: "holdfast.v1", Metadata: map[string]string{"b": "2", "a": "1"}}
		}
		st, _ = st.WithDetails(d)
	}
	return st.Err()
}

// TestFailures: reason, facts and what to do.
func TestFailures(t *testing.T) {
	tests := []struct {
		err   error
		want  string
		usage bool
	}{
		{refused(codes.InvalidArgument, "m", "allotment.id:wrong"), "allotment.id: wrong", true},
		{refused(codes.FailedPrecondition, "in use", "CAPACITY_IN_USE"), "CAPACITY_IN_USE: in use\n  a=1 b=2\n  what to do: remove so much", false},
		{refused(codes.AlreadyExists, "m", "ALLOTMENT_EXISTS"), "what to do: take another id", false},
		{refused(codes.NotFound, "m", "ALLOTMENT_NOT_FOUND"), "holdfast admin list", false},
		{refused(codes.Aborted, "m", "STALE_ETAG"), "holdfast admin get", false},
		{refused(codes.InvalidArgument, "m", "REQUEST_MISMATCH"), "leave --request-id out", false},
		{refused(codes.Unauthenticated, "m", ""), "UNAUTHENTICATED: m\n  what to do: say who you are: --token-file", false},
		{refused(codes.PermissionDenied, "m", ""), "PERMISSION_DENIED: m\n  what to do: ask for a role", false},
		{refused(codes.Unimplemented, "m", ""), "--admin-addr", false},
		{refused(codes.Unavailable, "m", "STORE_UNAVAILABLE"), "STORE_UNAVAILABLE: m\n", false},
		{refused(codes.Unavailable, "m", "REBUILDING"), "holdfast_store_up", false},
		{refused(codes.Unavailable, "m", "RESULT_UNKNOWN"), "see how it ended", false},
		{refused(codes.ResourceExhausted, "m", "QUEUE_FULL"), "repeat it in some seconds", false},
		{refused(codes.Internal, "m", ""), "INTERNAL: m", false},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			f := &fake{fail: func(int) error { return test.err }}
			out, _, err := run(t, f.serve(t), "get concert")
			var usage *UsageError
			if err == nil || !strings.Contains(err.Error(), test.want) || errors.As(err, &usage) != test.usage || out != "" {
				t.Errorf("printed %q; %v", out, err)
			}
		})
	}
}

// TestAdviceOnEveryReason: of each reason that the comments of AdminService name there is something to say.
func TestAdviceOnEveryReason(t *testing.T) {
	source, err := os.ReadFile("../../../proto/holdfast/v1/admin_service.proto")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(source), "service AdminService {")
	service, _, _ := strings.Cut(rest, "\n}\n")
	found := 0
	for name := range pb.ErrorReason_value {
		reason := strings.TrimPrefix(name, "ERROR_REASON_")
		if !strings.Contains(service, reason) {
			continue
		}
		found++
		if e := (&callError{status: status.New(codes.OK, ""), reason: reason}); e.advice() == "" {
			t.Errorf("no advice on %s", reason)
		}
	}
	if found < 9 {
		t.Errorf("%d reasons found", found)
	}
}

// TestAdjustIsRepeated: with the same request id, a bounded number of times, and whatever happens the id is told.
func TestAdjustIsRepeated(t *testing.T) {
	tests := map[string]struct {
		failures, calls int
		line            string
	}{
		"twice":       {2, 3, "adjust concert --add 5"},
		"for ever":    {100, 5, "adjust concert --add 5"},
		"with an id":  {1, 2, "adjust concert --add 5 --request-id mine"},
		"of a reader": {1, 2, "get concert"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{fail: func(call int) error {
				if call <= test.failures {
					return refused(codes.Unavailable, "no store", "STORE_UNAVAILABLE")
				}
				return nil
			}}
			_, errOut, err := run(t, f.serve(t), test.line)
			asked := f.all()
			if len(asked) != test.calls || (err == nil) != (test.failures < test.calls) {
				t.Errorf("%d calls, %v", len(asked), err)
			}
			for _, request := range asked[1:] {
				if !proto.Equal(request, asked[0]) {
					t.Errorf("repeated as %s, after %s", protojson.Format(request), protojson.Format(asked[0]))
				}
			}
			adjust, ok := asked[0].(*pb.AdjustCapacityRequest)
			if !ok {
				return
			}
			if want := "request id: " + adjust.GetRequestId() + "\n"; errOut != want {
				t.Errorf("told %q, want %q", errOut, want)
			}
			if err != nil && !strings.Contains(err.Error(), "--request-id "+adjust.GetRequestId()) {
				t.Errorf("the end does not say how to repeat it: %v", err)
			}
		})
	}
}

// TestTimeoutNamesTheTrouble: when the time is up between two tries, what was wrong until then is told, and adjust still says
// how to repeat it.
func TestTimeoutNamesTheTrouble(t *testing.T) {
	f := &fake{delay: time.Hour, fail: func(int) error { return refused(codes.Unavailable, "no store", "STORE_UNAVAILABLE") }}
	address := f.serve(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ address, line, want string }{
		"a store":   {address, "get concert --timeout 3s", "STORE_UNAVAILABLE: no store\n  a=1 b=2\n  what to do: "},
		"a change":  {address, "adjust concert --add 1 --request-id mine --timeout 3s", "--request-id mine"},
		"no server": {closed.Addr().String(), "get concert --timeout 1s", "connection refused\"\n  what to do: see whether a server listens there"},
		"no TLS":    {address, "get concert --tls --timeout 1s", "tls: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := run(t, test.address, test.line)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "DEADLINE_EXCEEDED") {
				t.Errorf("told %v, want %s", err, test.want)
			}
		})
	}
}

// TestWatchNamesTheStore: which allotments there are needs Postgres, and only that.
func TestWatchNamesTheStore(t *testing.T) {
	f := &fake{fail: func(int) error { return refused(codes.Unavailable, "no store", "STORE_UNAVAILABLE") }}
	if _, _, err := run(t, f.serve(t), "watch --once"); err == nil || !strings.Contains(err.Error(), "Postgres: holdfast admin watch ID") {
		t.Errorf("told %v", err)
	}
}

// TestUpdateIsNotRepeated: a repeat of a change that was made would be told STALE_ETAG.
func TestUpdateIsNotRepeated(t *testing.T) {
	f := &fake{fail: func(int) error { return refused(codes.Unavailable, "no store", "STORE_UNAVAILABLE") }}
	if _, _, err := run(t, f.serve(t), "update concert --state open --etag e"); err == nil || len(f.all()) != 1 {
		t.Errorf("%d calls, %v", len(f.all()), err)
	}
}

// TestNothingMovesTheCursor: what a server says is shown as text, whatever is in it.
func TestNothingMovesTheCursor(t *testing.T) {
	var out strings.Builder
	if err := writeTable(&out, [][]string{{"HOLD", "BUYER"}, {"a\x1b[2Jb", "c\td\ne\u202ef\xff"}}); err != nil {
		t.Fatal(err)
	}
	if want := "HOLD    BUYER\na\uFFFD[2Jb  c\uFFFDd\uFFFDe\uFFFDf\uFFFD\n"; out.String() != want {
		t.Errorf("a table is %q, want %q", out.String(), want)
	}
	sent := status.New(codes.FailedPrecondition, "held\r\x1b]0;title\a")
	sent, err := sent.WithDetails(&errdetails.ErrorInfo{Reason: "PAUSED", Metadata: map[string]string{"allotment_id": "a\x1b[1A"}})
	if err != nil {
		t.Fatal(err)
	}
	if text, want := explain(sent.Err()).Error(), "PAUSED: held\uFFFD\uFFFD]0;title\uFFFD\n  allotment_id=a\uFFFD[1A"; text != want {
		t.Errorf("a refusal is told as %q, want %q", text, want)
	}
	sent, err = status.New(codes.InvalidArgument, "no").WithDetails(&errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "id", Description: "is not\x1b[K"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if text, want := explain(sent.Err()).Error(), "id: is not\uFFFD[K"; text != want {
		t.Errorf("a mistake is told as %q, want %q", text, want)
	}
}
