package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/cmd/launch/books"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// quitter is a buyer of another allotment who asks for a confirm once, and never again, whatever the answer is: what that has
// begun must be ended by somebody else.
type quitter struct {
	books *books.Books
	hold  string
}

// newQuitter gives the buyer a hold.
func (s *Scene) newQuitter(ctx context.Context) (*quitter, error) {
	q := &quitter{books: s.books.Of(fmt.Sprintf("%s-quitter-%d", s.Allotment, s.Rand.Uint32()))}
	if err := q.books.Create(ctx, 1, time.Minute); err != nil {
		return nil, err
	}
	hold, err := q.books.Hold(ctx, history.Buyer{ID: "quitter", Request: "request", Quantity: 1})
	q.hold = hold.ID
	return q, err
}

// confirmOnce asks, and does not look at the answer.
func (q *quitter) confirmOnce(ctx context.Context, at *world.Server) error {
	conn, err := grpc.NewClient(at.Callers.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = pb.NewInventoryServiceClient(conn).ConfirmHold(ctx, &pb.ConfirmHoldRequest{HoldId: q.hold, OrderId: "order"})
	return nil
}

// confirmBehindLock asks while somebody else has the allotment's row, and does something when a session of the server, whose
// process id it is told, waits for it. Then the row is free again.
func (q *quitter) confirmBehindLock(ctx context.Context, s *Scene, at *world.Server, do func(session int) error) error {
	conn, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	var locker int
	err = tx.QueryRow(ctx, "select pg_backend_pid() from allotments where id = $1 for update", q.books.Allotment).Scan(&locker)
	if err != nil {
		return err
	}
	var asking errgroup.Group
	asking.Go(func() error { return q.confirmOnce(ctx, at) })
	session, err := s.waitsFor(ctx, locker)
	if err != nil {
		return errors.Join(err, asking.Wait())
	}
	s.Hit("confirms under way", 1)
	failure := do(session)
	_ = tx.Rollback(ctx) // what was done may have ended it
	return errors.Join(failure, asking.Wait())
}

// waitsFor returns the process id of the first session that waits for another one.
func (s *Scene) waitsFor(ctx context.Context, locker int) (session int, err error) {
	conn, err := s.Connect(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	for began := s.now(); s.now()-began < settleLimit; {
		err := conn.QueryRow(ctx, "select pid from pg_stat_activity where $1 = any(pg_blocking_pids(pid)) limit 1", locker).Scan(&session)
		if !errors.Is(err, pgx.ErrNoRows) {
			return session, err
		}
		if err := pause(ctx, readEvery/5); err != nil {
			return 0, err
		}
	}
	return 0, errors.New("the confirm of the buyer who asks once did not get as far as the allotment's row")
}

// look waits until the confirm has ended, if it had begun.
func (q *quitter) look(ctx context.Context, s *Scene) error {
	for began := s.now(); ; {
		final, err := q.books.Final(ctx, false)
		if err != nil {
			return err
		}
		if len(final.Holds) == 1 && final.Holds[0].State != history.Confirming {
			return nil
		}
		if s.now()-began > settleLimit {
			s.Wrong(fmt.Sprintf("R8: the confirm of a buyer who never asked again had not ended %v after the server was back", settleLimit))
			return nil
		}
		if err := pause(ctx, readEvery); err != nil {
			return err
		}
	}
}
