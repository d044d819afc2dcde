package compare

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
	"github.com/holdfast-inventory/holdfast/cmd/launch/program"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

const (
	pumpConns    = 2         // for holds; more cost CPU and gain nothing
	holdDuration = time.Hour // nothing lapses in a run
	repeatPause  = 10 * time.Millisecond
	repeatAtMost = 30 * time.Second
)

// holdfast is a shop that holds and then sells by a Holdfast server.
type holdfast struct {
	program *program.Server // nil: it runs without us
	addr    string
	conn    *grpc.ClientConn // for all but the holds

	scratch string // begins the names of its allotments
	stocks  []*pb.Allotment
	callers int
	clock   clock
	holds   []string // by request number; empty: refused
	repeats atomic.Int64
}

func openHoldfast(ctx context.Context, e *env) (_ shop, err error) {
	s := &holdfast{scratch: e.stores.scratch, callers: e.settings.Workers, clock: e.clock}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	addr := e.settings.Addr
	if addr == "" {
		if s.program, err = serve(ctx, e); err != nil {
			return nil, err
		}
		addr = s.program.Addr()
		if e.settings.RedisURL != "" {
			e.stores.later(func(ctx context.Context) error { return forget(ctx, e.settings.RedisURL, s.scratch) })
		}
	}
	s.addr = addr
	s.conn, err = grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return s, err
}

// serve starts a server on the stores of the other ways.
func serve(ctx context.Context, e *env) (*program.Server, error) {
	return program.Serve(ctx, e.settings.Holdfast, program.Stores{PostgresURL: e.stores.postgresURL, RedisURL: e.stores.redisURL}, program.Settings{})
}

func (s *holdfast) server() *program.Child {
	if s.program == nil {
		return nil
	}
	return s.program.Child
}

func (s *holdfast) client() pb.InventoryServiceClient { return pb.NewInventoryServiceClient(s.conn) }

func (s *holdfast) admin() pb.AdminServiceClient { return pb.NewAdminServiceClient(s.conn) }

func (s *holdfast) stock() string { return s.stocks[len(s.stocks)-1].GetId() }

func (s *holdfast) restock(ctx context.Context, capacity int64) error {
	a := &pb.Allotment{
		Id: s.scratch + "-" + strconv.Itoa(len(s.stocks)), Capacity: capacity,
		HoldDuration: durationpb.New(holdDuration), MaxHoldDuration: durationpb.New(holdDuration),
	}
	return s.repeat(ctx, func() error {
		r, err := s.admin().CreateAllotment(ctx, &pb.CreateAllotmentRequest{Allotment: a})
		if err != nil {
			return err
		}
		s.stocks = append(s.stocks, r.GetAllotment())
		return nil
	})
}

func (s *holdfast) ask(ctx context.Context, d demand) ([]answer, error) {
	ctx, cancel := s.whileServed(ctx)
	defer cancel()
	p, err := newPump(s.clock, s.stock(), d.draw())
	if err != nil {
		return nil, err
	}
	if err := p.run(ctx, s.addr, s.callers); err != nil {
		return nil, err
	}
	s.repeats.Store(p.repeats.Load())
	answers, holds, err := p.answers()
	s.holds = holds
	return answers, err
}

// holdCall asks for what a request wants. Every buyer asks once.
func holdCall(stock string, r request) *pb.CreateHoldRequest {
	id := strconv.Itoa(r.number)
	return &pb.CreateHoldRequest{
		AllotmentId: stock, BuyerId: "buyer-" + id, RequestId: "request-" + id, Quantity: int32(r.quantity), //nolint:gosec // one or two
	}
}

// audit sells what is held, and reads the stock.
func (s *holdfast) audit(ctx context.Context, t tally) (string, error) {
	ctx, cancel := s.whileServed(ctx)
	defer cancel()
	if err := s.wantStock(ctx, "held", t.Sold, (*pb.Availability).GetHeld); err != nil {
		return "", err
	}
	var held []request
	for number, id := range s.holds {
		if id != "" {
			held = append(held, request{number: number})
		}
	}
	start := time.Now()
	_, err := play(ctx, held, s.callers, s.clock, func(ctx context.Context, r request) (bool, error) {
		call := &pb.ConfirmHoldRequest{HoldId: s.holds[r.number], OrderId: "order-" + strconv.Itoa(r.number)}
		err := s.repeat(ctx, func() error {
			_, err := s.client().ConfirmHold(ctx, call)
			return err
		})
		return err == nil, err
	})
	if err != nil {
		return "", fmt.Errorf("confirm: %w", err)
	}
	rate := float64(len(held)) / time.Since(start).Seconds()
	note := fmt.Sprintf("its %s holds were then confirmed, each a sale in Postgres, at %s/s", figures.Count(len(held)), figures.Count(rate))
	if n := s.repeats.Load(); n > 0 {
		note += fmt.Sprintf("; %s calls were repeated since there was no answer", figures.Count(n))
	}
	return note, s.wantStock(ctx, "sold", t.Sold, (*pb.Availability).GetSold)
}

func (s *holdfast) wantStock(ctx context.Context, what string, want int64, read func(*pb.Availability) int64) error {
	var a *pb.Availability
	err := s.repeat(ctx, func() error {
		r, err := s.client().GetAvailability(ctx, &pb.GetAvailabilityRequest{AllotmentId: s.stock()})
		a = r.GetAvailability()
		return err
	})
	if err == nil && read(a) != want {
		err = fmt.Errorf("the counter says %d %s, buyers were told %d", read(a), what, want)
	}
	return err
}

// repeat calls again, with the same ids, as long as it is told to.
func (s *holdfast) repeat(ctx context.Context, call func() error) error {
	for deadline := time.Now().Add(repeatAtMost); ; {
		err := call()
		if !isTrouble(status.Code(err)) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer within %v: %w", repeatAtMost, err)
		}
		s.repeats.Add(1)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(repeatPause):
		}
	}
}

// isTrouble tells whether a code is no decision, but asks for the same call again.
func isTrouble(c codes.Code) bool {
	return c == codes.Unavailable || c == codes.ResourceExhausted || c == codes.DeadlineExceeded
}

// reasonOf is the reason that an error carries, if any.
func reasonOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// whileServed is done when the server has ended: nobody would answer.
func (s *holdfast) whileServed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if s.program != nil {
		go func() {
			select {
			case <-s.program.Ended():
				cancel(fmt.Errorf("holdfast has ended: %w\n%s", s.program.Err(), s.program.Tail()))
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// close closes the allotments, so that a server that goes on forgets them in time.
func (s *holdfast) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	var failures []error
	if s.program == nil && s.conn != nil {
		for _, a := range s.stocks {
			_, err := s.admin().UpdateAllotment(ctx, &pb.UpdateAllotmentRequest{
				Allotment:  &pb.Allotment{Id: a.GetId(), Etag: a.GetEtag(), State: pb.AllotmentState_ALLOTMENT_STATE_CLOSED},
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"state"}},
			})
			failures = append(failures, err)
		}
	}
	if s.conn != nil {
		failures = append(failures, s.conn.Close())
	}
	if s.program != nil {
		failures = append(failures, s.program.Stop(stopPatience))
	}
	return errors.Join(failures...)
}
