// Package server is the transport: it takes gRPC calls, validates and converts them, makes one call of a use
// case, and converts what comes back. It decides nothing about stock.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"go.opentelemetry.io/otel/metric"
	nometer "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/server/auth"
	"github.com/holdfast-inventory/holdfast/store/seldom"
)

const (
	scope          = "github.com/holdfast-inventory/holdfast/server"
	maxRequest     = 64 << 10 // the largest valid request is a cart of 100 hold ids
	maxHeaders     = 16 << 10
	maxStreams     = 1000 // of a connection
	streamWorkers  = 64
	connectTimeout = 10 * time.Second
)

// Options is what a Server needs. All but those with a default are required.
type Options struct {
	Checkouts Checkouts
	Operators Operators
	Logger    *slog.Logger
	Meter     metric.MeterProvider
	Tracer    trace.TracerProvider

	Budgets       Budgets       // how long calls may take
	BuyerLimit    BuyerLimit    // how often a buyer may ask for holds; default: as often as it likes
	DrainDelay    time.Duration // how long a stopping server goes on taking calls; default none
	StopTimeout   time.Duration // how long running calls may go on after that; default 10 s
	MaxAge        time.Duration // of a connection, so that callers spread over new replicas; default 3 min
	MaxAgeGrace   time.Duration // for what runs on a connection past its age; default 30 s
	SeparateAdmin bool          // AdminService is served on a listener of its own only
	NoReflection  bool          // callers cannot ask for the API

	Auth *auth.Authenticator              // who calls; nil: it is not asked, and everybody may do everything
	TLS  credentials.TransportCredentials // of all listeners; nil: plain text
}

// Server answers both services, health and reflection on one listener, or on one for each service.
type Server struct {
	options Options
	main    *endpoint
	admin   *endpoint // nil: on the main one

	end          context.CancelFunc // ends streams
	interceptors *interceptors
	stopOnce     sync.Once
}

// endpoint is what listens at one address.
type endpoint struct {
	server *grpc.Server
	health *healthOf
}

// New makes a server that does not listen yet.
func New(o Options) (*Server, error) {
	o.Budgets = o.Budgets.withDefaults()
	o.StopTimeout = orDefault(o.StopTimeout, 10*time.Second)
	o.MaxAge = orDefault(o.MaxAge, 3*time.Minute)
	o.MaxAgeGrace = orDefault(o.MaxAgeGrace, 30*time.Second)
	ending, end := context.WithCancel(context.Background())
	i, err := newInterceptors(ending, o)
	if err != nil {
		end()
		return nil, err
	}
	s := &Server{options: o, end: end, interceptors: i}
	s.main = newEndpoint(o, i, pb.InventoryService_ServiceDesc.ServiceName)
	checkouts := &checkouts{stock: o.Checkouts, holds: o.Checkouts, sales: o.Checkouts}
	s.main.server.RegisterService(i.receiving(pb.InventoryService_ServiceDesc), checkouts)

	forOperators := s.main
	if o.SeparateAdmin {
		s.admin = newEndpoint(o, i)
		forOperators = s.admin
	}
	forOperators.health.add(pb.AdminService_ServiceDesc.ServiceName)
	cases := &audited{Operators: o.Operators, log: o.Logger}
	operators := &operators{allotments: cases, audits: cases}
	forOperators.server.RegisterService(i.receiving(pb.AdminService_ServiceDesc), operators)
	if err := s.showReady(o.Meter.Meter(scope)); err != nil {
		end()
		return nil, err
	}
	return s, nil
}

// showReady makes what health says a metric.
func (s *Server) showReady(meter metric.Meter) error {
	const name = "holdfast.server.ready"
	_, err := meter.Int64ObservableGauge(name, metric.WithUnit("{server}"),
		metric.WithDescription("1 if this server says that it is ready, as its health service does, else 0."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			ready := int64(0)
			if s.IsReady() {
				ready = 1
			}
			o.Observe(ready)
			return nil
		}))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func newInterceptors(ending context.Context, o Options) (*interceptors, error) {
	meter := o.Meter.Meter(scope)
	recorders, err := newRecorders(meter)
	if err != nil {
		return nil, err
	}
	panics, err := meter.Int64Counter("holdfast.panics", metric.WithUnit("{panic}"),
		metric.WithDescription("Panics in handlers. Each is a bug; the log has the stack."))
	if err != nil {
		return nil, fmt.Errorf("holdfast.panics: %w", err)
	}
	panics.Add(ending, 0) // an alarm on its rise needs to know it before
	validator, err := newValidator()
	if err != nil {
		return nil, err
	}
	return &interceptors{
		log:       o.Logger,
		methods:   methodTable(o.Budgets, recorders),
		validator: validator,
		door:      newDoor(),
		crowd:     newCrowd(),
		limiter:   newLimiter(o.BuyerLimit, mostBuyers),
		panics:    panics,
		ending:    ending,
		running:   new(running),
		auth:      o.Auth,
		calls:     newGate(callsMost),
		streams:   newGate(streamsMost),
		denials:   &denials{log: o.Logger, lines: map[string]*seldom.Line{}},
		answered:  newAnswered(),
	}, nil
}

func newEndpoint(o Options, i *interceptors, services ...string) *endpoint {
	e := &endpoint{server: grpc.NewServer(serverOptions(o, i)...), health: newHealth(services...)}
	healthpb.RegisterHealthServer(e.server, e.health.service)
	if !o.NoReflection {
		reflection.RegisterV1(e.server)
	}
	return e
}

func serverOptions(o Options, i *interceptors) []grpc.ServerOption {
	options := []grpc.ServerOption{
		grpc.InTapHandle(arrive),
		grpc.UnaryInterceptor(i.unary),
		grpc.ChainStreamInterceptor(i.stream()...),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 10 * time.Second, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second,
			MaxConnectionAge: o.MaxAge, MaxConnectionAgeGrace: o.MaxAgeGrace,
		}),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.WaitForHandlers(true),
	}
	if o.TLS != nil {
		options = append(options, grpc.Creds(o.TLS))
	}
	if _, off := o.Tracer.(noop.TracerProvider); !off {
		options = append(options, grpc.StatsHandler(tracing(o.Tracer)))
	}
	return options
}

// tracing makes a span of each call. Calls are measured elsewhere.
func tracing(tracer trace.TracerProvider) stats.Handler {
	return otelgrpc.NewServerHandler(
		otelgrpc.WithMeterProvider(nometer.NewMeterProvider()),
		otelgrpc.WithTracerProvider(tracer),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(filters.Any(
			filters.ServiceName(pb.InventoryService_ServiceDesc.ServiceName),
			filters.ServiceName(pb.AdminService_ServiceDesc.ServiceName))),
	)
}

// Serve takes calls until Stop. admin is for the listener of AdminService; nil unless SeparateAdmin is set.
func (s *Server) Serve(main, admin net.Listener) error {
	if s.admin == nil {
		return serve(s.main, main)
	}
	failed := make(chan error, 2)
	go func() { failed <- serve(s.main, main) }()
	go func() { failed <- serve(s.admin, admin) }()
	err := <-failed
	if err != nil {
		s.main.server.Stop()
		s.admin.server.Stop()
	}
	return errors.Join(err, <-failed)
}

func serve(e *endpoint, l net.Listener) error {
	if err := e.server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// SetReady makes health say SERVING or not: started, schema checked, settings usable. After Stop it says NOT_SERVING.
func (s *Server) SetReady(ready bool) {
	for _, e := range s.endpoints() {
		e.health.setReady(ready)
	}
}

// IsReady tells what health says.
func (s *Server) IsReady() bool { return s.main.health.isServing() }

func (s *Server) endpoints() []*endpoint {
	if s.admin == nil {
		return []*endpoint{s.main}
	}
	return []*endpoint{s.main, s.admin}
}
