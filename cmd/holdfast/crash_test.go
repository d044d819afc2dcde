//go:build failpoints

package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store/ledger"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// crash is a point between two steps at which a server is killed, and the call that leads there. The
// call is then repeated on another server with the same ids, as callers are told to do.
type crash struct {
	alone   bool // the server that prepared it is killed before: nobody is left who could end it
	point   string
	prepare []call // on a healthy server
	call    call
	want    stock
}

type stock struct{ capacity, available, held, sold int64 }

// call is one request about the allotment; hold is the id of its hold, if one was prepared.
type call func(ctx context.Context, s *shop) error

// shop is the two services at one server, and what a test has got so far.
type shop struct {
	checkout pb.InventoryServiceClient
	admin    pb.AdminServiceClient
	hold     string
}

func shopAt(conn *grpc.ClientConn) *shop {
	return &shop{checkout: pb.NewInventoryServiceClient(conn), admin: pb.NewAdminServiceClient(conn)}
}

func open(ctx context.Context, s *shop) error {
	_, err := s.admin.CreateAllotment(ctx, &pb.CreateAllotmentRequest{Allotment: &pb.Allotment{Id: "show", Capacity: 10}})
	return err
}

func holdTwo(ctx context.Context, s *shop) error {
	r, err := s.checkout.CreateHold(ctx, &pb.CreateHoldRequest{AllotmentId: "show", BuyerId: "ann", RequestId: "r1", Quantity: 2})
	if err == nil {
		s.hold = r.GetHold().GetId()
	}
	return err
}

func buy(ctx context.Context, s *shop) error {
	_, err := s.checkout.ConfirmHold(ctx, &pb.ConfirmHoldRequest{HoldId: s.hold, OrderId: "order-1"})
	return err
}

func takeBack(ctx context.Context, s *shop) error {
	_, err := s.checkout.CancelSale(ctx, &pb.CancelSaleRequest{HoldId: s.hold, RequestId: "c1", Quantity: proto.Int32(1)})
	return err
}

func adjust(delta int64) call {
	return func(ctx context.Context, s *shop) error {
		_, err := s.admin.AdjustCapacity(ctx, &pb.AdjustCapacityRequest{AllotmentId: "show", Delta: delta, RequestId: "a1"})
		return err
	}
}

// allowThree changes a rule; repeated, it reads the allotment anew, as an operator would.
func allowThree(ctx context.Context, s *shop) error {
	r, err := s.admin.GetAllotment(ctx, &pb.GetAllotmentRequest{AllotmentId: "show"})
	if err != nil {
		return err
	}
	a := r.GetAllotment()
	a.MaxQuantityPerHold = 3
	_, err = s.admin.UpdateAllotment(ctx, &pb.UpdateAllotmentRequest{
		Allotment: a, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"max_quantity_per_hold"}},
	})
	return err
}

// TestCrashPoints kills a server process at each point between two steps, and shows that the caller's
// repeat, or a supervisor, ends what was begun, exactly once.
func TestCrashPoints(t *testing.T) {
	forget(t)
	redis := storetest.NewRedis(t, local.RedisOptions{ExtraArgs: []string{"--databases", "64"}})
	postgres := storetest.NewPostgres(t, local.PostgresOptions{})
	sold := stock{capacity: 10, available: 8, sold: 2}
	opened := stock{capacity: 10, available: 10}
	for i, c := range []crash{
		{point: "create-before-reply", prepare: []call{open}, call: holdTwo, want: stock{10, 8, 2, 0}},
		{point: "confirm-after-begin", prepare: []call{open, holdTwo}, call: buy, want: sold},
		{point: "ledger-before-commit", prepare: []call{open, holdTwo}, call: buy, want: sold},
		{point: "ledger-after-commit", prepare: []call{open, holdTwo}, call: buy, want: sold},
		{point: "confirm-after-ledger", prepare: []call{open, holdTwo}, call: buy, want: sold},
		{point: "cancel-sale-after-ledger", prepare: []call{open, holdTwo, buy}, call: takeBack, want: stock{10, 9, 0, 1}},
		{point: "feed-after-apply", prepare: []call{open, holdTwo, buy}, call: takeBack, want: stock{10, 9, 0, 1}},
		{point: "grow-after-ledger", prepare: []call{open}, call: adjust(5), want: stock{15, 15, 0, 0}},
		{point: "shrink-after-begin", prepare: []call{open}, call: adjust(-4), want: stock{6, 6, 0, 0}},
		{point: "update-after-ledger", prepare: []call{open}, call: allowThree, want: opened},
		{point: "create-allotment-after-ledger", call: open, want: opened},
		{point: "adopt-after-begin", call: open, want: opened},
		{point: "adopt-after-raise", call: open, want: opened},
		{point: "adopt-after-reset", call: open, want: opened},
		{point: "adopt-before-end", call: open, want: opened},
	} {
		t.Run(c.point, func(t *testing.T) {
			s := c.kill(t, isolated(t, redis, postgres, i))
			repeat(t.Context(), t, s, c.call)
			c.check(t.Context(), t, s)
		})
	}
}

// isolated is a cluster without servers yet, on a database of its own in both stores.
func isolated(t *testing.T, redis *local.Redis, postgres *local.Postgres, i int) *cluster {
	t.Helper()
	database := fmt.Sprintf("crash%d", i)
	if err := postgres.CreateDatabase(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	c := &cluster{redisURL: fmt.Sprintf("redis://%s/%d", redis.Addr(), i), postgresURL: postgres.URL(database)}
	if err := ledger.Migrate(t.Context(), c.postgresURL); err != nil {
		t.Fatal(err)
	}
	return c
}

// kill makes the call at a server that dies on the way, and returns the services at a healthy one.
func (c crash) kill(t *testing.T, servers *cluster) *shop {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := &shop{}
	if len(c.prepare) > 0 {
		servers.add(t)
		s = shopAt(servers.conns[0])
		for _, prepare := range c.prepare {
			repeat(ctx, t, s, prepare)
		}
	}
	doomed := servers.add(t, "HOLDFAST_FAILPOINT="+c.point)
	at := shopAt(servers.conns[len(servers.conns)-1])
	at.hold = s.hold
	if c.alone {
		_ = servers.servers[0].Process.Kill()
	}
	if err := c.call(ctx, at); err == nil {
		t.Error("the call was answered")
	}
	if code := doomed.exit(t, 30*time.Second); code != 137 {
		t.Fatalf("the server ended with %d: it was not killed at the point", code)
	}
	if len(c.prepare) == 0 {
		servers.add(t)
		s = shopAt(servers.conns[len(servers.conns)-1])
	}
	return s
}

// repeat makes a call until it is answered.
func repeat(ctx context.Context, t *testing.T, s *shop, c call) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var err error
	for ctx.Err() == nil {
		if err = c(ctx, s); err == nil {
			return
		}
	}
	t.Fatalf("not answered: %v", err)
}

// check waits for the stock that must result, and compares Redis, ledger and holds.
func (c crash) check(ctx context.Context, t *testing.T, s *shop) {
	t.Helper()
	var got stock
	until(t, time.Minute, fmt.Sprintf("stock of %+v", c.want), func() bool {
		r, err := s.checkout.GetAvailability(ctx, &pb.GetAvailabilityRequest{AllotmentId: "show"})
		if err != nil {
			return false
		}
		a := r.GetAvailability()
		got = stock{a.GetCapacity(), a.GetAvailable(), a.GetHeld(), a.GetSold()}
		return got == c.want
	})
	until(t, time.Minute, "agreement of the stores", func() bool {
		r, err := s.admin.ReconcileAllotment(ctx, &pb.ReconcileAllotmentRequest{AllotmentId: "show"})
		return err == nil && len(r.GetFindings()) == 0
	})
}

// TestCrashesOfSupervisors: a confirm whose server was killed is claimed by a second server, which is killed
// on the way, and ended by a third, without anybody asking again.
func TestCrashesOfSupervisors(t *testing.T) {
	forget(t)
	redis := storetest.NewRedis(t, local.RedisOptions{})
	postgres := storetest.NewPostgres(t, local.PostgresOptions{})
	for i, point := range []string{"claim-after-lease", "claim-after-ledger"} {
		t.Run(point, func(t *testing.T) {
			servers := isolated(t, redis, postgres, i)
			c := crash{point: "confirm-after-begin", prepare: []call{open, holdTwo}, call: buy, want: stock{10, 8, 0, 2}, alone: true}
			c.kill(t, servers)
			doomed := servers.addDoomed(t, "HOLDFAST_FAILPOINT="+point)
			if code := doomed.exit(t, time.Minute); code != 137 {
				t.Fatalf("the second server ended with %d", code)
			}
			servers.add(t)
			c.check(t.Context(), t, shopAt(servers.conns[len(servers.conns)-1]))
		})
	}
}

// TestCrashWhileRetiring: an allotment that is noted as retired leaves Redis although the server that retired it died.
func TestCrashWhileRetiring(t *testing.T) {
	forget(t)
	redis := storetest.NewRedis(t, local.RedisOptions{})
	servers := isolated(t, redis, storetest.NewPostgres(t, local.PostgresOptions{}), 0)
	doomed := servers.add(t, "HOLDFAST_FAILPOINT=retire-after-ledger")
	s := shopAt(servers.conns[0])
	repeat(t.Context(), t, s, open)
	repeat(t.Context(), t, s, closeShow)
	closedLongAgo(t, servers.postgresURL)
	if code := doomed.exit(t, time.Minute); code != 137 {
		t.Fatalf("the server ended with %d", code)
	}
	servers.add(t)
	client := goredis.NewClient(&goredis.Options{Addr: redis.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	until(t, time.Minute, "departure from Redis", func() bool {
		keys, err := client.Keys(t.Context(), "hf:{show}:*").Result()
		return err == nil && len(keys) == 0
	})
	s = shopAt(servers.conns[1])
	if reason, _ := reasonOf(holdTwo(t.Context(), s)); reason != "CLOSED" {
		t.Errorf("a hold of a retired allotment: %q", reason)
	}
}

// closedLongAgo makes it look as if the retention had passed since the allotment was closed.
func closedLongAgo(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), "update allotments set update_time = update_time - interval '25 hours'"); err != nil {
		t.Fatal(err)
	}
}

func closeShow(ctx context.Context, s *shop) error {
	r, err := s.admin.GetAllotment(ctx, &pb.GetAllotmentRequest{AllotmentId: "show"})
	if err != nil {
		return err
	}
	a := r.GetAllotment()
	a.State = pb.AllotmentState_ALLOTMENT_STATE_CLOSED
	_, err = s.admin.UpdateAllotment(ctx, &pb.UpdateAllotmentRequest{
		Allotment: a, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"state"}},
	})
	return err
}
