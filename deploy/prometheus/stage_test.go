package prometheus

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// patience bounds waits for what must happen; the machine may be busy.
const patience = time.Minute

// programs is where TestMain put holdfast and launch.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "holdfast-observe-*"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(programs)
	build := exec.Command("go", "build", "-C", "../..", "-buildvcs=false", "-o", programs+"/", "./cmd/holdfast", "./cmd/launch")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// stage is a Holdfast server on a Redis and a Postgres of its own, for a story.
type stage struct {
	*world.World
	t        *testing.T
	admin    pb.AdminServiceClient
	checkout pb.InventoryServiceClient
	serial   atomic.Int64
}

func newStage(t *testing.T, s world.Settings) *stage {
	t.Helper()
	s.Holdfast, s.Servers = filepath.Join(programs, "holdfast"), 1
	w, err := world.New(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the server's log:\n%s", w.Servers[0].Tail())
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience) // the test's own is over
		defer cancel()
		if err := w.Mend(ctx); err != nil { // a Postgres that was stopped does not close
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	g := &stage{World: w, t: t}
	conn := g.connect()
	g.admin, g.checkout = pb.NewAdminServiceClient(conn), pb.NewInventoryServiceClient(conn)
	g.until("both stores are up", func(s samples) bool { return s.sum("holdfast_store_up") == 2 }) // they are looked at beside becoming ready
	return g
}

func (g *stage) connect() *grpc.ClientConn {
	g.t.Helper()
	conn, err := grpc.NewClient(g.Servers[0].Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ctx is the test's.
func (g *stage) ctx() context.Context { return g.t.Context() }

// scraped is what the server shows now.
func (g *stage) scraped() samples {
	g.t.Helper()
	var found samples
	g.eventually(func() (err error) {
		found, err = scrape(g.ctx(), g.Servers[0].HTTPAddr())
		return err
	})
	return found
}

func (g *stage) eventually(cond func() error) {
	g.t.Helper()
	storetest.Eventually(g.t, patience, cond)
}

// until waits for what the server shows, and returns it.
func (g *stage) until(what string, holds func(samples) bool) samples {
	g.t.Helper()
	var found samples
	g.eventually(func() error {
		found = g.scraped()
		if !holds(found) {
			return fmt.Errorf("not so: %s; looks are late by %v s", what, found.sum("holdfast_supervisor_lag_seconds"))
		}
		return nil
	})
	return found
}

// above waits until the sum of a metric is above a value.
func (g *stage) above(least float64, name string, pairs ...string) samples {
	g.t.Helper()
	return g.until(fmt.Sprintf("%s%v above %v", name, pairs, least), func(s samples) bool { return s.sum(name, pairs...) > least })
}

// fires feeds what was scraped before and since to a Prometheus, as if the latter went on, and wants the alert.
func (g *stage) fires(alert string, before samples, since ...samples) {
	g.t.Helper()
	s := newServer(g.t)
	s.stay(before, 2*time.Minute)
	if early := s.firing(); slices.Contains(early, alert) {
		g.t.Errorf("%s fires before its condition is made real", alert)
	}
	for _, found := range since {
		s.step(found)
	}
	if len(since) == 1 {
		s.stay(since[0], 2*time.Minute)
	}
	annotations, fired := s.fired[alert]
	if !fired {
		g.t.Errorf("%s does not fire; what does: %v", alert, s.firing())
		return
	}
	g.t.Logf("%s: %s", alert, annotations["summary"])
}

// open makes an allotment and returns its id.
func (g *stage) open(capacity int64, hold time.Duration) string {
	g.t.Helper()
	id := fmt.Sprint("show-", g.serial.Add(1))
	g.eventually(func() error {
		_, err := g.admin.CreateAllotment(g.ctx(), &pb.CreateAllotmentRequest{
			Allotment: &pb.Allotment{Id: id, Capacity: capacity, HoldDuration: durationpb.New(hold), MaxHoldDuration: durationpb.New(max(hold, time.Minute))},
		})
		return err
	})
	return id
}

// hold takes one unit for a buyer of its own.
func (g *stage) hold(allotment string) (string, error) {
	buyer := strconv.FormatInt(g.serial.Add(1), 10)
	r, err := g.checkout.CreateHold(g.ctx(), &pb.CreateHoldRequest{AllotmentId: allotment, BuyerId: buyer, RequestId: "r", Quantity: 1})
	return r.GetHold().GetId(), err
}

// held is hold that must be granted.
func (g *stage) held(allotment string) string {
	g.t.Helper()
	var id string
	g.eventually(func() (err error) {
		id, err = g.hold(allotment)
		return err
	})
	return id
}

func (g *stage) confirm(hold, order string) error {
	_, err := g.checkout.ConfirmHold(g.ctx(), &pb.ConfirmHoldRequest{HoldId: hold, OrderId: order})
	return err
}

// adopt makes an allotment's state in Redis anew.
func (g *stage) adopt(allotment string) {
	g.t.Helper()
	g.eventually(func() error {
		_, err := g.admin.ReconcileAllotment(g.ctx(), &pb.ReconcileAllotmentRequest{AllotmentId: allotment, Apply: true})
		return err
	})
}

// forge puts the counter of what is available off.
func (g *stage) forge(allotment string, by int64) {
	g.t.Helper()
	storetest.AddToCounter(g.ctx(), g.t, g.Client, "hf:{"+allotment+"}:c", "available", by)
}

// statement runs SQL on the ledger's database.
func (g *stage) statement(sql string) {
	g.t.Helper()
	if err := g.SQL(g.ctx(), sql); err != nil {
		g.t.Fatal(err)
	}
}
