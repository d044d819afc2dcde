package cases

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/cmd/launch/load"
	"github.com/holdfast-inventory/holdfast/cmd/launch/program"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store/local/link"
)

// callers are the faults of starts and upgrades, of callers and of what else is around.
func callers() []Case {
	return []Case{
		{
			Row: record.Row{
				Case: "F35", Title: "12 servers start on an empty database", Deployment: standalone,
				Fault:     "12 servers (short: 4) started at once, each with its own migrate",
				Expected:  "one migrates, all become ready",
				NoControl: "none: two locks keep migrations apart, ours and that of the library that migrates",
			},
			Proof: []string{"became ready"}, Inject: startMany,
		},
		{
			Row: record.Row{
				Case: "F36", Title: "rolling upgrade, old and new scripts", Deployment: standalone,
				Fault:     "a server replaced by one with other scripts under load, 4 s side by side (long: 15 s), and back",
				Expected:  "both work in the same epoch; nothing oversold",
				NoControl: "none: any guard that is missing in one of them would be missed",
			},
			Upgrades: true, Proof: []string{"upgraded"}, Inject: upgrade,
		},
		{
			Row: record.Row{
				Case: "F37", Title: "gRPC reply lost, client retries", Deployment: standalone,
				Fault:    "callers' connections end when they are answered, for 200 ms, 3 times (long: 20)",
				Expected: "same outcome, one effect",
			},
			Random: true, Proof: []string{"links cut", "trouble"}, Guards: []string{"repeat"}, Inject: loseToCallers,
		},
		{
			Row: record.Row{
				Case: "F38", Title: "client cancels at random points", Deployment: standalone,
				Fault:    "60 buyers (long: 500) of another allotment, who give up after 0 to 15 ms and ask again with the same ids",
				Expected: "no half-done confirm; each gets one hold and one sale",
			},
			Random: true, Proof: []string{"calls given up"}, Guards: []string{"repeat"}, Inject: giveUp,
		},
		{
			Row: record.Row{
				Case: "F39", Title: "overload 5x", Deployment: standalone,
				Fault:     "6,000 callers of another allotment who ask again at once, for 3 s (long: 10 s): more than the servers let in",
				Expected:  "answered in time or told QUEUE_FULL; no false refusal",
				SlowOK:    "of callers beside; the machine is shared with the load",
				NoControl: "none: what is turned away is there to be quick, and only that would be missed",
			},
			Proof: []string{"calls of the overload", "told QUEUE_FULL"}, Inject: overload,
		},
		{
			Row: record.Row{
				Case: "F40", Title: "OTLP endpoint black-holed", Deployment: standalone,
				Fault:    "a server that sends to a collector behind a black hole, for 4 s (long: 20 s), then SIGTERM",
				Expected: "nothing of it is noticed; it ends within 10 s",
			},
			Proof: []string{"without a collector"}, Guards: []string{"flush"}, Inject: loseCollector,
		},
		{Row: record.Row{Case: "F41", Title: "certificate rotated or expired", NotApplicable: "no store is needed for it: TestCertificates and TestCertificatesChange in server/auth show it"}},
		{Row: record.Row{Case: "F42", Title: "everything at once", NotApplicable: "it is the random mode; see below"}},
	}
}

// startMany starts servers on a database without tables.
func startMany(ctx context.Context, s *Scene) error {
	many := 4
	if s.Long {
		many = 12
	}
	if err := s.Postgres.CreateDatabase(ctx, "empty"); err != nil {
		return err
	}
	healed := s.Fault("many servers start at once", false)
	stores := program.Stores{RedisURL: "redis://" + s.Redis.Addr() + "/9", PostgresURL: s.Postgres.URL("empty")}
	var all errgroup.Group
	for range many {
		all.Go(func() error {
			server, err := program.Serve(ctx, s.Holdfast, stores, program.Settings{})
			if err != nil {
				s.Wrong("a server did not become ready on an empty database: " + err.Error())
				return nil //nolint:nilerr // it is noted as what went wrong, and the others go on
			}
			s.Hit("became ready", 1)
			return server.Stop(stopLimit)
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	healed()
	return s.SQL(ctx, "drop database empty")
}

// upgrade replaces a server by one of the next version, and that one by one of this.
func upgrade(ctx context.Context, s *Scene) error {
	victim := s.Victim()
	healed := s.Fault("an upgrade", false)
	for _, version := range []string{s.Next, ""} {
		if err := victim.Stop(stopLimit); err != nil {
			return err
		}
		victim.Program = version
		if err := victim.Start(ctx); err != nil {
			return err
		}
		s.Hit("upgraded", 1)
		if err := s.Last(ctx, 4*time.Second, 15*time.Second); err != nil {
			return err
		}
	}
	healed()
	return nil
}

func loseToCallers(ctx context.Context, s *Scene) error {
	times := 3
	if s.Long {
		times = 20
	}
	healed := s.Fault("replies to callers are lost", false)
	for range times {
		for _, server := range s.Servers {
			if err := server.Callers.LoseAnswers(); err != nil {
				return err
			}
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		for _, server := range s.Servers {
			s.Hit("links cut", 1)
			if err := server.Callers.Heal(); err != nil {
				return err
			}
		}
		if err := pause(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
	healed()
	return nil
}

// giveUp lets impatient buyers buy.
func giveUp(ctx context.Context, s *Scene) error {
	buyers := 60
	if s.Long {
		buyers = 500
	}
	other := s.books.Of(fmt.Sprintf("%s-impatient-%d", s.Allotment, s.Rand.Uint32()))
	if err := other.Create(ctx, int64(buyers), time.Minute); err != nil {
		return err
	}
	conn, err := grpc.NewClient(s.Victim().Callers.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	checkout := pb.NewInventoryServiceClient(conn)
	healed := s.Fault("callers give up", false)
	var all errgroup.Group
	all.SetLimit(10)
	for i := range buyers {
		seed := s.Rand.Uint64()
		all.Go(func() error { return s.buyImpatiently(ctx, checkout, other.Allotment, i, seed) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	healed()
	b, err := s.Books(ctx, other.Allotment)
	if err != nil {
		return err
	}
	if b.Rows != int64(buyers) || b.Problem(false) != "" {
		s.Wrong(fmt.Sprintf("%d impatient buyers have bought %d units; %s", buyers, b.Rows, b.Problem(false)))
	}
	return nil
}

// buyImpatiently repeats each call, with the same ids, until it is answered before the buyer gives up.
func (s *Scene) buyImpatiently(ctx context.Context, checkout pb.InventoryServiceClient, allotment string, i int, seed uint64) error {
	patience := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // no secrets
	hold := ""
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error {
			got, err := checkout.CreateHold(ctx, &pb.CreateHoldRequest{
				AllotmentId: allotment, BuyerId: fmt.Sprint("buyer-", i), RequestId: "request", Quantity: 1,
			})
			hold = got.GetHold().GetId()
			return err
		},
		func(ctx context.Context) error {
			_, err := checkout.ConfirmHold(ctx, &pb.ConfirmHoldRequest{HoldId: hold, OrderId: fmt.Sprint("order-", i)})
			return err
		},
	} {
		for began := time.Now(); ; {
			trying, cancel := context.WithTimeout(ctx, time.Duration(patience.IntN(15_000)+500)*time.Microsecond)
			err := call(trying)
			cancel()
			if err == nil {
				break
			}
			s.Hit("calls given up", 1)
			if time.Since(began) > stopLimit {
				return fmt.Errorf("impatient buyer %d got no answer within %v: %w", i, stopLimit, err)
			}
			if err := pause(ctx, readEvery); err != nil { // a buyer may ask 20 times a second
				return err
			}
		}
	}
	return nil
}

func overload(ctx context.Context, s *Scene) error {
	other := s.books.Of(s.Allotment + "-overload")
	if err := other.Create(ctx, 100, time.Minute); err != nil {
		return err
	}
	lasts := 3 * time.Second
	if s.Long {
		lasts = 10 * time.Second
	}
	crowd := load.Closed{
		Allotments: []string{other.Allotment}, Addresses: s.World.Addresses(), Connections: 2 * len(s.Servers), InFlight: 6000,
		Duration: lasts, Plan: load.NewPlan(load.Crowd{Requests: 1, Seed: s.Rand.Uint64()}), Want: codes.ResourceExhausted,
	}
	var healed func()
	pace, err := crowd.Run(ctx, func() { healed = s.Fault("overload", false) }, func() { healed() })
	if err != nil {
		return err
	}
	s.Hit("calls of the overload", int(pace.Answers))
	s.Hit("told QUEUE_FULL", int(pace.Wanted))
	s.Hit("ms at p99 of the overload", int(pace.P99.Milliseconds()))
	return other.Retire(ctx)
}

const exportLimit = 10 * time.Second

func loseCollector(ctx context.Context, s *Scene) error {
	collector, err := link.New(s.Redis.Addr()) // nothing gets there
	if err != nil {
		return err
	}
	defer collector.Close()
	if err := collector.BlackHole(); err != nil {
		return err
	}
	endpoint := url.URL{Scheme: "http", Host: collector.Addr()}
	victim := s.Victim()
	if err := s.restart(ctx, victim, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint.String(), "OTEL_METRIC_EXPORT_INTERVAL=500"); err != nil {
		return err
	}
	healed := s.Fault("the collector is away", false)
	s.Hit("without a collector", 1)
	if err := s.Last(ctx, 4*time.Second, 20*time.Second); err != nil {
		return err
	}
	healed()
	began := time.Now()
	if err := s.restart(ctx, victim); err != nil {
		return err
	}
	if took := time.Since(began); took > exportLimit {
		s.Wrong(fmt.Sprintf("a server whose collector is away took %v to stop and start", took))
	}
	return nil
}

// restart stops a server and starts it with another environment.
func (s *Scene) restart(ctx context.Context, server *world.Server, environment ...string) error {
	if err := server.Stop(stopLimit); err != nil {
		return err
	}
	server.Environment = environment
	return server.Start(ctx)
}
