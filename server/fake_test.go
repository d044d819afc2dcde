package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
)

// fake is the use cases behind the transport: it notes what it is called with, does what before says, and
// answers with what is set.
type fake struct {
	before func(ctx context.Context, method string) error
	hold   store.Hold
	sale   store.Sale
	row    store.Allotment
	many   int    // how many items lists have, up to the limit
	next   string // of ListHolds
	watch  func(ctx context.Context, send func(store.Availability) error) error

	mu    sync.Mutex
	calls []call
}

type call struct {
	method string
	args   []any
}

func (f *fake) called(ctx context.Context, method string, args ...any) error {
	f.mu.Lock()
	f.calls = append(f.calls, call{method: method, args: args})
	f.mu.Unlock()
	if f.before == nil {
		return nil
	}
	return f.before(ctx, method)
}

// taken returns the calls so far and forgets them.
func (f *fake) taken() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fake) Availability(ctx context.Context, id string) (store.Availability, error) {
	return store.Availability{Allotment: id}, f.called(ctx, "Availability", id)
}

func (f *fake) Availabilities(ctx context.Context, ids []string) ([]store.Availability, error) {
	list := each(ids, func(id string) store.Availability { return store.Availability{Allotment: id} })
	return list, f.called(ctx, "Availabilities", ids)
}

func (f *fake) Watch(ctx context.Context, ids []string, send func(store.Availability) error) error {
	if err := f.called(ctx, "Watch", ids); err != nil {
		return err
	}
	if f.watch != nil {
		return f.watch(ctx, send)
	}
	return nil
}

func (f *fake) CreateHold(ctx context.Context, buyer, request string, line store.Line) (store.Hold, error) {
	return f.hold, f.called(ctx, "CreateHold", buyer, request, line)
}

func (f *fake) CreateHolds(ctx context.Context, buyer, request string, lines []store.Line) ([]store.Hold, error) {
	return []store.Hold{f.hold}, f.called(ctx, "CreateHolds", buyer, request, lines)
}

func (f *fake) Hold(ctx context.Context, id store.HoldID) (store.Hold, error) {
	return f.hold, f.called(ctx, "Hold", id)
}

func (f *fake) ExtendHold(ctx context.Context, id store.HoldID) (store.Hold, error) {
	return f.hold, f.called(ctx, "ExtendHold", id)
}

func (f *fake) CancelHold(ctx context.Context, id store.HoldID) (store.Hold, error) {
	return f.hold, f.called(ctx, "CancelHold", id)
}

func (f *fake) ConfirmHold(ctx context.Context, c store.ConfirmHold) (store.Sale, error) {
	return f.sale, f.called(ctx, "ConfirmHold", c)
}

func (f *fake) ConfirmHolds(ctx context.Context, ids []store.HoldID, orderID string) ([]store.Sale, error) {
	return []store.Sale{f.sale}, f.called(ctx, "ConfirmHolds", ids, orderID)
}

func (f *fake) Sale(ctx context.Context, id store.HoldID) (store.Sale, error) {
	return f.sale, f.called(ctx, "Sale", id)
}

func (f *fake) CancelSale(ctx context.Context, c store.CancelSale) (store.Sale, error) {
	return f.sale, f.called(ctx, "CancelSale", c)
}

func (f *fake) CreateAllotment(ctx context.Context, a store.Allotment) (store.Allotment, error) {
	return a, f.called(ctx, "CreateAllotment", a)
}

func (f *fake) Allotment(ctx context.Context, id string) (store.Allotment, error) {
	return f.row, f.called(ctx, "Allotment", id)
}

func (f *fake) ListAllotments(ctx context.Context, after string, limit int) ([]store.Allotment, error) {
	list := make([]store.Allotment, min(f.many, limit))
	for n := range list {
		list[n].Allotment = string(rune('a' + n))
	}
	return list, f.called(ctx, "ListAllotments", after, limit)
}

func (f *fake) UpdateAllotment(
	ctx context.Context, id string, version int64, change func(*store.Rules) error,
) (store.Allotment, error) {
	changed := f.row
	if err := change(&changed.Rules); err != nil {
		return store.Allotment{}, err
	}
	return changed, f.called(ctx, "UpdateAllotment", id, version, changed.Rules)
}

func (f *fake) AdjustCapacity(ctx context.Context, a store.AdjustCapacity) (store.Allotment, error) {
	return f.row, f.called(ctx, "AdjustCapacity", a)
}

func (f *fake) ListHolds(
	ctx context.Context, filter store.HoldFilter, page string, limit int,
) ([]store.Hold, string, error) {
	return []store.Hold{f.hold}, f.next, f.called(ctx, "ListHolds", filter, page, limit)
}

func (f *fake) ListSales(ctx context.Context, filter store.SaleFilter, after string, limit int) ([]store.Sale, error) {
	list := make([]store.Sale, min(f.many, limit))
	for n := range list {
		list[n].ID = store.NewHoldID("concert", string(rune('a'+n)), "r")
	}
	return list, f.called(ctx, "ListSales", filter, after, limit)
}

func (f *fake) Reconcile(ctx context.Context, id string, apply bool) ([]store.Finding, bool, error) {
	return []store.Finding{{Kind: store.FindingHeld, Allotment: id, Difference: 3}}, apply, f.called(ctx, "Reconcile", id, apply)
}

// bench is a server over an in-memory connection, and clients of it.
type bench struct {
	server   *Server
	metrics  *sdkmetric.ManualReader
	conn     *grpc.ClientConn
	holds    pb.InventoryServiceClient
	admin    pb.AdminServiceClient
	listener *bufconn.Listener
	served   chan error
}

func startServer(t testing.TB, f *fake, change func(*Options)) *bench {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	o := Options{
		Checkouts:   f,
		Operators:   f,
		Logger:      slog.New(slog.NewTextHandler(io.Discard, nil)),
		Meter:       sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Tracer:      noop.NewTracerProvider(),
		StopTimeout: 5 * time.Second,
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	s.interceptors.door.patience = time.Minute // the machine may be busy, and the door has tests of its own
	b := &bench{server: s, metrics: reader, listener: bufconn.Listen(1 << 20), served: make(chan error, 1)}
	go func() { b.served <- s.Serve(b.listener, nil) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // no patience
		s.Stop(ctx)
	})
	b.conn = dial(t, b.listener)
	b.holds, b.admin = pb.NewInventoryServiceClient(b.conn), pb.NewAdminServiceClient(b.conn)
	return b
}

func dial(t testing.TB, l *bufconn.Listener) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///bench", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
