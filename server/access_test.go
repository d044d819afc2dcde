package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/server/auth"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// caller is how tests write a caller of the file. Its token is its name with "-token".
func caller(name string, more object) object {
	hash := sha256.Sum256([]byte(name + "-token"))
	made := object{"name": name, "tokens_sha256": list{hex.EncodeToString(hash[:])}, "roles": list{name}}
	maps.Copy(made, more)
	return made
}

func withCallers(t testing.TB, callers ...object) func(*Options) {
	t.Helper()
	text, err := json.Marshal(object{"callers": callers})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "callers.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := auth.New(auth.Options{CallersFile: path, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.Auth = known }
}

// token goes with a call in plain text.
type token string

func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if t == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

func (token) RequireTransportSecurity() bool { return false }

func as(t token) grpc.CallOption { return grpc.PerRPCCredentials(credentials.PerRPCCredentials(t)) }

// attempt calls any method of any service: ours with a valid request, the others with an empty one.
func (b *bench) attempt(t *testing.T, fullName string, with token) error {
	t.Helper()
	service, method, _ := strings.Cut(strings.TrimPrefix(fullName, "/"), "/")
	switch {
	case strings.HasPrefix(service, "holdfast."):
		text, err := json.Marshal(validRequests()[method])
		if err != nil {
			t.Fatal(err)
		}
		return b.send(t, method, message(t, method, text), as(with))
	case fullName == healthpb.Health_Check_FullMethodName:
		return errOf(healthpb.NewHealthClient(b.conn).Check(t.Context(), &healthpb.HealthCheckRequest{}, as(with)))
	case fullName == healthpb.Health_List_FullMethodName:
		return errOf(healthpb.NewHealthClient(b.conn).List(t.Context(), &healthpb.HealthListRequest{}, as(with)))
	case fullName == healthpb.Health_Watch_FullMethodName:
		watch, err := healthpb.NewHealthClient(b.conn).Watch(t.Context(), &healthpb.HealthCheckRequest{}, as(with))
		if err != nil {
			t.Fatal(err)
		}
		return errOf(watch.Recv())
	case fullName == reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName:
		stream, err := reflectionpb.NewServerReflectionClient(b.conn).ServerReflectionInfo(t.Context(), as(with))
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
		return errOf(stream.Recv())
	}
	t.Fatalf("this test does not know how to call %s", fullName)
	return nil
}

// registered is the full name of each method that the server answers.
func (b *bench) registered() []string {
	var all []string
	for service, info := range b.server.main.server.GetServiceInfo() {
		for _, m := range info.Methods {
			all = append(all, "/"+service+"/"+m.Name)
		}
	}
	return all
}

// TestRoles is the table of docs/security.md: who may call each method there is. A method without a line here fails.
func TestRoles(t *testing.T) {
	const (
		checkouts = "checkout"
		lookers   = "checkout operator"
		operators = "operator"
		readers   = "operator reader"
		all       = "checkout operator reader"
		anyone    = "checkout operator reader nobody stranger"
	)
	table := map[string]string{
		"InventoryService/GetAvailability": all, "InventoryService/BatchGetAvailability": all, "InventoryService/WatchAvailability": all,
		"InventoryService/CreateHold": checkouts, "InventoryService/BatchCreateHolds": checkouts, "InventoryService/GetHold": lookers,
		"InventoryService/ExtendHold": checkouts, "InventoryService/ConfirmHold": checkouts, "InventoryService/BatchConfirmHolds": checkouts,
		"InventoryService/CancelHold": checkouts, "InventoryService/GetSale": lookers, "InventoryService/CancelSale": checkouts,
		"AdminService/CreateAllotment": operators, "AdminService/GetAllotment": readers, "AdminService/ListAllotments": readers,
		"AdminService/UpdateAllotment": operators, "AdminService/AdjustCapacity": operators, "AdminService/ListHolds": operators,
		"AdminService/ListSales": operators, "AdminService/ReconcileAllotment": operators,
		"Health/Check": anyone, "Health/List": anyone, "Health/Watch": anyone,
		"ServerReflection/ServerReflectionInfo": all,
	}
	f := &fake{}
	b := startServer(t, f, withCallers(t, caller("checkout", nil), caller("operator", nil), caller("reader", nil)))
	for _, method := range b.registered() {
		short := method[strings.LastIndex(method, ".")+1:]
		may, ok := table[short]
		if !ok {
			t.Errorf("%s has no line in the table", method)
		}
		if b.server.interceptors.method(method).roles == 0 {
			t.Errorf("%s has no role in methodRoles", method)
		}
		for who, with := range map[string]token{
			"checkout": "checkout-token", "operator": "operator-token", "reader": "reader-token", "nobody": "", "stranger": "other",
		} {
			f.taken()
			err := b.attempt(t, method, with)
			want := codes.OK
			if !slices.Contains(strings.Fields(may), who) {
				want = codes.PermissionDenied
				if who == "nobody" || who == "stranger" {
					want = codes.Unauthenticated
				}
			}
			if status.Code(err) != want {
				t.Errorf("%s by %s: %v, want %v", short, who, err, want)
			}
			if calls := f.taken(); want != codes.OK && len(calls) > 0 {
				t.Errorf("%s by %s: refused, and yet %v was done", short, who, calls)
			}
		}
	}
	if extra := len(table) - len(b.registered()); extra != 0 {
		t.Errorf("%d lines too many", extra)
	}
}

// TestUnlistedMethod: what is in no table may be called by nobody.
func TestUnlistedMethod(t *testing.T) {
	b := startServer(t, &fake{}, withCallers(t, caller("operator", object{"roles": list{"checkout", "operator", "reader"}})))
	i := b.server.interceptors
	delete(i.methods, pb.AdminService_GetAllotment_FullMethodName)
	if err := b.attempt(t, pb.AdminService_GetAllotment_FullMethodName, "operator-token"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("got %v", err)
	}
}

// TestOwnAllotments: a checkout that is limited to some allotments can touch no other, by any method.
func TestOwnAllotments(t *testing.T) {
	limits := object{"allotments": list{"concert", "dinner"}}
	for name, test := range map[string]struct {
		allotments list
		want       codes.Code
	}{
		"both":    {list{"concert", "dinner"}, codes.OK},
		"by part": {list{"con", "di"}, codes.OK},
		"others":  {list{"concerts", "x"}, codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			limits["allotments"] = test.allotments
			b := startServer(t, &fake{}, withCallers(t, caller("checkout", limits)))
			for _, method := range b.registered() {
				if !strings.Contains(method, "InventoryService") {
					continue
				}
				if err := b.attempt(t, method, "checkout-token"); status.Code(err) != test.want {
					t.Errorf("%s: %v, want %v", method, err, test.want)
				}
			}
		})
	}
	limits["allotments"] = list{"concert"} // and not dinner, which is one of several
	b := startServer(t, &fake{}, withCallers(t, caller("checkout", limits)))
	for _, method := range []string{"BatchGetAvailability", "BatchCreateHolds", "BatchConfirmHolds"} {
		err := b.attempt(t, "/holdfast.v1.InventoryService/"+method, "checkout-token")
		if info := detail[*errdetails.ErrorInfo](status.Convert(err)); info.GetReason() != "CALLER_NOT_ALLOWED" || info.GetMetadata()["caller"] != "checkout" {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// TestCallerInFlight: a caller with as many calls in flight as it may have is told when to come again, and nobody else is.
func TestCallerInFlight(t *testing.T) {
	inside, release := make(chan struct{}), make(chan struct{})
	f := &fake{before: func(_ context.Context, method string) error {
		if method == "Hold" {
			inside <- struct{}{}
			<-release
		}
		return nil
	}}
	b := startServer(t, f, withCallers(t, caller("checkout", object{"max_in_flight": 1}), caller("operator", nil)))
	const hold, sale, watch = "/holdfast.v1.InventoryService/GetHold", "/holdfast.v1.InventoryService/GetSale", "/holdfast.v1.InventoryService/WatchAvailability"
	ended := make(chan error)
	go func() { ended <- b.attempt(t, hold, "checkout-token") }()
	<-inside
	for _, method := range []string{sale, watch} {
		st := status.Convert(b.attempt(t, method, "checkout-token"))
		if st.Code() != codes.ResourceExhausted || detail[*errdetails.ErrorInfo](st).GetReason() != "QUEUE_FULL" ||
			detail[*errdetails.RetryInfo](st).GetRetryDelay().AsDuration() <= 0 {
			t.Errorf("%s beside another call: %v", method, st)
		}
	}
	if err := b.attempt(t, sale, "operator-token"); err != nil {
		t.Errorf("another caller: %v", err)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := b.attempt(t, sale, "checkout-token"); err != nil {
		t.Errorf("when the first has ended: %v", err)
	}
}

// TestServerInFlight: so it is with what has neither door nor crowd in front, for all callers together.
func TestServerInFlight(t *testing.T) {
	b := startServer(t, &fake{}, nil)
	i := b.server.interceptors
	i.calls.most, i.streams.most = 0, 0
	for method, want := range map[string]codes.Code{
		"GetAvailability": codes.ResourceExhausted, "WatchAvailability": codes.ResourceExhausted, "GetAllotment": codes.ResourceExhausted,
		"CreateHold": codes.OK, "ConfirmHold": codes.OK,
	} {
		if err := b.call(t, method, validRequests()[method]); status.Code(err) != want {
			t.Errorf("%s: %v, want %v", method, err, want)
		}
	}
	if got := checkHealth(t, b.conn, ""); got != "NOT_SERVING" {
		t.Errorf("health: %s", got)
	}
	i.calls.most, i.streams.most = 1, 1
	for range 3 {
		for _, method := range []string{"GetAvailability", "WatchAvailability"} {
			if err := b.call(t, method, validRequests()[method]); err != nil {
				t.Errorf("%s, alone: %v", method, err)
			}
		}
	}
}

// TestAuthorizationHeader: what is not one bearer token is not taken, whatever else comes with it.
func TestAuthorizationHeader(t *testing.T) {
	b := startServer(t, &fake{}, withCallers(t, caller("operator", nil)))
	for _, test := range []struct {
		headers []string
		want    codes.Code
	}{
		{[]string{"authorization", "bearer operator-token"}, codes.OK},
		{[]string{"authorization", "Bearer operator-token"}, codes.OK},
		{[]string{"authorization", "operator-token"}, codes.Unauthenticated},
		{[]string{"authorization", "Basic operator-token"}, codes.Unauthenticated},
		{[]string{"authorization", "Bearer "}, codes.Unauthenticated},
		{[]string{"authorization", "Bearer operator-token", "authorization", "Bearer other"}, codes.Unauthenticated},
		{[]string{"authorization", "Bearer a.b.c"}, codes.Unauthenticated}, // no JWTs are taken
		{nil, codes.Unauthenticated},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), test.headers...)
		err := errOf(b.admin.GetAllotment(ctx, &pb.GetAllotmentRequest{AllotmentId: "concert"}))
		if status.Code(err) != test.want {
			t.Errorf("%q: %v, want %v", test.headers, err, test.want)
		}
	}
}

func TestNoReflection(t *testing.T) {
	b := startServer(t, &fake{}, func(o *Options) { o.NoReflection = true })
	err := b.attempt(t, reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName, "")
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
}

// TestAuditLog: each change by an operator is a line that says who, what, before and after; dry runs and reads are none.
func TestAuditLog(t *testing.T) {
	var log storetest.Log
	guard := withCallers(t, caller("operator", object{"name": "olga"}))
	f := &fake{row: store.Allotment{Place: store.Place{Allotment: "concert"}, Capacity: 70, Rules: store.Rules{State: store.StatePaused, MaxPerHold: 3}}}
	b := startServer(t, f, func(o *Options) { guard(o); o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	lines := func(method string, request object) string {
		t.Helper()
		before := len(log.String())
		text, _ := json.Marshal(request)
		if err := b.send(t, method, message(t, method, text), as("operator-token")); err != nil && f.before == nil {
			t.Fatal(err)
		}
		return log.String()[before:]
	}
	requests := validRequests()
	for _, test := range []struct {
		method  string
		request object
		want    []string
	}{
		{"CreateAllotment", requests["CreateAllotment"], []string{"after.capacity=1000000000", "after.state=ALLOTMENT_STATE_PAUSED"}},
		{"UpdateAllotment", requests["UpdateAllotment"], []string{
			"before.state=ALLOTMENT_STATE_PAUSED", "after.state=ALLOTMENT_STATE_CLOSED", "before.max_quantity_per_hold=3", "after.max_quantity_per_hold=1",
		}},
		{"AdjustCapacity", changed(requests["AdjustCapacity"], "dry_run", false), []string{"delta=-1000000000", "request_id=r-3", "before.capacity=70", "after.capacity=70"}},
		{"ReconcileAllotment", requests["ReconcileAllotment"], []string{"before.findings=1", "after.applied=true"}},
		{"AdjustCapacity", requests["AdjustCapacity"], nil},
		{"ReconcileAllotment", changed(requests["ReconcileAllotment"], "apply", false), nil},
		{"GetAllotment", requests["GetAllotment"], nil},
		{"ListHolds", requests["ListHolds"], nil},
	} {
		got := lines(test.method, test.request)
		if test.want == nil {
			if got != "" {
				t.Errorf("%s logged %s", test.method, got)
			}
			continue
		}
		want := append([]string{`msg="operator action"`, "who=olga", "peer=", "what=" + test.method, "allotment=concert", "outcome=OK"}, test.want...)
		for _, part := range want {
			if !strings.Contains(got, part) || strings.Count(got, "\n") != 1 {
				t.Errorf("%s: no %s in %s", test.method, part, got)
			}
		}
	}
	f.before = failing(store.ErrUnavailable)
	if got := lines("CreateAllotment", requests["CreateAllotment"]); !strings.Contains(got, "outcome=STORE_UNAVAILABLE") {
		t.Errorf("an action that failed: %s", got)
	}
}

// TestDeniedCallsAreAudited: who is not let in leaves a line, too, and a flood of such calls few. Reads leave none.
func TestDeniedCallsAreAudited(t *testing.T) {
	var log storetest.Log
	guard := withCallers(t, caller("checkout", object{"name": "shop"}))
	b := startServer(t, &fake{}, func(o *Options) { guard(o); o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	begin := time.Now()
	const calls = 20
	for range calls {
		for _, with := range []token{"checkout-token", "wrong", ""} {
			for _, method := range []string{"AdjustCapacity", "ListHolds"} {
				text, _ := json.Marshal(validRequests()[method])
				if err := b.send(t, method, message(t, method, text), as(with)); err == nil {
					t.Fatalf("%q was let in", with)
				}
			}
		}
	}
	for _, want := range []string{
		"who=shop peer=bufconn what=AdjustCapacity allotment=concert outcome=CALLER_NOT_ALLOWED",
		"who=unknown peer=bufconn what=AdjustCapacity allotment=concert outcome=CALLER_UNKNOWN",
	} {
		most := int(time.Since(begin)/time.Second) + 1
		if n := strings.Count(log.String(), want); n < 1 || n > most {
			t.Errorf("%d lines with %s, want one a second:\n%s", n, want, log.String())
		}
	}
	if strings.Contains(log.String(), "ListHolds") {
		t.Errorf("a read was logged:\n%s", log.String())
	}
}

// TestSeparateAdminAsksToo: the operators' listener asks who calls as the other does.
func TestSeparateAdminAsksToo(t *testing.T) {
	o := startServer(t, &fake{}, withCallers(t, caller("operator", nil))).server.options
	o.SeparateAdmin = true
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	main, admin := bufconn.Listen(1<<20), bufconn.Listen(1<<20)
	go func() { _ = s.Serve(main, admin) }()
	defer s.Stop(t.Context())
	client := pb.NewAdminServiceClient(dial(t, admin))
	for with, want := range map[token]codes.Code{"": codes.Unauthenticated, "operator-token": codes.OK} {
		if err := errOf(client.GetAllotment(t.Context(), &pb.GetAllotmentRequest{AllotmentId: "concert"}, as(with))); status.Code(err) != want {
			t.Errorf("token %q: %v, want %v", with, err, want)
		}
	}
}
