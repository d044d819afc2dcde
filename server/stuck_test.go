package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// halfAdopted is a Redis in which all allotments but one are not in force.
type halfAdopted struct{ inventory.Redis }

const inForce = "play"

func (halfAdopted) OnDamage(func(store.Place)) {}

func (halfAdopted) Place(_ context.Context, allotment string) (store.Place, bool, error) {
	return store.Place{Allotment: allotment, Group: allotment, Buckets: 1}, true, nil
}

func (halfAdopted) Create(_ context.Context, r store.CreateRequest) ([]store.Hold, error) {
	if p := r.Lines[0].Place; p.Allotment != inForce {
		return nil, &store.AdoptNeeded{Places: []store.Place{p}}
	}
	return []store.Hold{{ID: store.NewHoldID(inForce, r.BuyerID, r.RequestID), State: store.Held}}, nil
}

// lockedRows is a ledger whose rows somebody has locked.
type lockedRows struct {
	inventory.Ledger
	release chan struct{}
}

func (l lockedRows) Allotment(context.Context, string) (store.Allotment, error) {
	<-l.release
	return store.Allotment{}, store.ErrUnavailable
}

// TestStuckAdoptsKeepNobodyOut: while allotments cannot be adopted and as many ask for them as the door lets in, another
// allotment's holds are decided. Nobody's time is over within the test.
func TestStuckAdoptsKeepNobodyOut(t *testing.T) {
	for _, allotments := range []int64{1, 4} {
		t.Run(fmt.Sprint(allotments), func(t *testing.T) {
			rows := lockedRows{release: make(chan struct{})}
			v, err := inventory.New(inventory.Options{
				Redis: halfAdopted{}, Ledger: rows, DecisionTime: time.Hour, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
				Meters: metricnoop.NewMeterProvider(),
			})
			if err != nil {
				t.Fatal(err)
			}
			b := startServer(t, &fake{}, func(o *Options) {
				o.Checkouts = v
				o.Budgets.Decision = time.Hour
			})
			d := b.server.interceptors.door
			crowd := make([]pb.InventoryServiceClient, d.most/maxStreams+1)
			for i := range crowd {
				crowd[i] = pb.NewInventoryServiceClient(dial(t, b.listener))
			}
			ask := func(on pb.InventoryServiceClient, allotment, buyer string) error {
				_, err := on.CreateHold(t.Context(), &pb.CreateHoldRequest{AllotmentId: allotment, BuyerId: buyer, RequestId: "1", Quantity: 1})
				return err
			}
			var told atomic.Int64
			var asking sync.WaitGroup
			defer asking.Wait()
			defer close(rows.release)
			for i := range d.most {
				asking.Go(func() {
					err := status.Error(codes.ResourceExhausted, "")
					for status.Code(err) == codes.ResourceExhausted { // the machine may be too busy for the first
						err = ask(crowd[i%int64(len(crowd))], fmt.Sprint("stuck-", i%allotments), fmt.Sprint(i))
					}
					if status.Code(err) != codes.Unavailable {
						t.Errorf("a hold of an allotment that is not in force: %v", err)
					}
					told.Add(1)
				})
				if i%50 == 0 || i == d.most-1 {
					storetest.Eventually(t, time.Minute, func() error {
						if in, out := d.inside.Load(), told.Load(); in+out != i+1 {
							return fmt.Errorf("%d are inside, %d were told something", in, out)
						}
						return nil
					})
				}
			}
			storetest.Eventually(t, 20*time.Second, func() error { // the machine may be too busy for the first
				if err := ask(b.holds, inForce, "ann"); err != nil {
					return fmt.Errorf("with %d of %d inside, a hold of another allotment: %w", d.inside.Load(), d.most, err)
				}
				return nil
			})
		})
	}
}
