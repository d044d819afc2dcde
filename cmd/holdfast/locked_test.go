package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/ledger"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestLockedAllotmentDelaysNoOther: while somebody keeps an allotment's row locked and its buyers confirm, and repeat what is
// not known, confirms of another allotment are answered.
func TestLockedAllotmentDelaysNoOther(t *testing.T) {
	t.Parallel()
	stores := startStores(t)
	checkout, _ := stores.serve(t)
	crowd := makeHolds(t, checkout, "stuck", 10)
	createAllotment(t, stores, "play")
	quiet := holdOf(t, checkout, "play")

	locker, err := pgx.Connect(t.Context(), stores.postgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close(context.Background())
	if _, err := locker.Exec(t.Context(), "begin; select from allotments where id = 'show' for update"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i, id := range crowd {
		all.Go(func() {
			for ctx.Err() == nil {
				_, _ = checkout.ConfirmHold(ctx, &pb.ConfirmHoldRequest{HoldId: id, OrderId: "stuck-" + id})
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(500+i%500) * time.Millisecond): // as RetryInfo asks
				}
			}
		})
	}
	defer all.Wait()
	defer cancel()
	watcher, err := pgx.Connect(t.Context(), stores.postgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close(context.Background())
	storetest.Eventually(t, 20*time.Second, func() error {
		var waiting bool
		err := watcher.QueryRow(t.Context(), "select exists(select from pg_locks where not granted)").Scan(&waiting)
		if err == nil && !waiting {
			err = errors.New("nobody waits for the row")
		}
		return err
	})
	if _, err := checkout.ConfirmHold(t.Context(), &pb.ConfirmHoldRequest{HoldId: quiet, OrderId: "quiet"}); err != nil {
		t.Errorf("a confirm of the other allotment: %v", err)
	}
}

func createAllotment(t *testing.T, s *ownStores, id string) {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Options{URL: s.postgresURL})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.CreateAllotment(t.Context(), store.Allotment{
		Place: store.Place{Allotment: id, Group: id, Buckets: store.BucketsFor(10)}, Capacity: 10,
		Rules: store.Rules{
			State: store.StateOpen, LateConfirm: store.LateAccept, HoldDuration: store.DefaultHoldDuration,
			MaxHoldDuration: store.DefaultMaxHoldDuration, MaxPerHold: store.DefaultMaxPerHold,
		},
	}); err != nil {
		t.Fatal(err)
	}
}

func holdOf(t *testing.T, checkout pb.InventoryServiceClient, allotment string) (id string) {
	t.Helper()
	insist(t, func() error {
		r, err := checkout.CreateHold(t.Context(), &pb.CreateHoldRequest{AllotmentId: allotment, BuyerId: "quiet", RequestId: "1", Quantity: 1})
		id = r.GetHold().GetId()
		return err
	})
	return id
}
