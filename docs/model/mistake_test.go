package model_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// The mistake that Holdfast was built to be incapable of: four replicas of a service, each with a mutex of its own around
// read, check and write, sold 503 of 500 seats. server/inventory/mistake_test.go puts the same load to Holdfast.
const (
	seats    = 500
	replicas = 4
	buyers   = 1_000 // each wants one seat
	atOnce   = 64    // buyers that are being served

	rounds   = 10 // a race need not be lost at the first try
	patience = 60 * time.Second
)

// replica is one process of the service. Nothing but the database is shared with the others.
type replica struct {
	mu sync.Mutex
	db *pgxpool.Pool
}

// purchase sells a seat to a buyer, or says that there is none left.
type purchase func(ctx context.Context, r *replica, buyer int) (bool, error)

// readCheckWrite is the mistake. The mutex is held from the read to the commit, and it works: with one replica nothing is
// oversold. But it keeps out only the buyers of its own process.
func readCheckWrite(write string) purchase {
	return func(ctx context.Context, r *replica, buyer int) (got bool, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		err = pgx.BeginTxFunc(ctx, r.db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			var sold int
			if err := tx.QueryRow(ctx, "SELECT sold FROM shows WHERE id = 1").Scan(&sold); err != nil {
				return err
			}
			if sold >= seats {
				return nil
			}
			if _, err := tx.Exec(ctx, write, pgx.NamedArgs{"read": sold}); err != nil {
				return err
			}
			got = true
			_, err := tx.Exec(ctx, "INSERT INTO tickets (buyer) VALUES ($1)", buyer)
			return err
		})
		return got && err == nil, err
	}
}

// conditionalUpdate is the cure: the check is part of the write, where the state is. It needs no mutex.
func conditionalUpdate(ctx context.Context, r *replica, buyer int) (bool, error) {
	tag, err := r.db.Exec(ctx, `WITH taken AS (UPDATE shows SET sold = sold + 1 WHERE id = 1 AND sold < $1 RETURNING id)
		INSERT INTO tickets (buyer) SELECT $2 FROM taken`, seats, buyer)
	return tag.RowsAffected() == 1, err
}

func TestFourReplicasOversell(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		write string // @read is what was read
		most  int64
	}{
		// When the last seat goes, each of the other replicas may be past its check: 503 is the most.
		{"the database adds", "UPDATE shows SET sold = sold + 1 WHERE id = 1", seats + replicas - 1},
		// The model's unprotected regime: a write on an old read also undoes the sales in between.
		{"the replica adds", "UPDATE shows SET sold = @read::int + 1 WHERE id = 1", buyers},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			service := newService(t, replicas)
			for round := 1; round <= rounds; round++ {
				sold := service.sell(t, readCheckWrite(test.write))
				t.Logf("round %d: %d of %d seats sold", round, sold, seats)
				if sold > test.most {
					t.Fatalf("sold %d, more than the %d that the mistake explains", sold, test.most)
				}
				if sold > seats {
					return
				}
			}
			t.Errorf("not oversold in %d rounds: the mistake is not reproduced", rounds)
		})
	}
}

// TestOneReplicaDoesNot shows that the number of replicas is what makes the mutex a mistake.
func TestOneReplicaDoesNot(t *testing.T) {
	t.Parallel()
	service := newService(t, 1)
	if sold := service.sell(t, readCheckWrite("UPDATE shows SET sold = @read::int + 1 WHERE id = 1")); sold != seats {
		t.Errorf("%d of %d seats sold", sold, seats)
	}
}

func TestConditionalUpdateDoesNot(t *testing.T) {
	t.Parallel()
	service := newService(t, replicas)
	for range 3 {
		if sold := service.sell(t, conditionalUpdate); sold != seats {
			t.Errorf("%d of %d seats sold", sold, seats)
		}
	}
}

// service is some replicas on one database, which refuses nothing.
type service []*replica

func newService(t *testing.T, n int) service {
	t.Helper()
	config, err := pgxpool.ParseConfig(storetest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 4
	s := make(service, n)
	for i := range s {
		pool, err := pgxpool.NewWithConfig(t.Context(), config.Copy())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		s[i] = &replica{db: pool}
	}
	s.exec(t, "CREATE TABLE shows (id int PRIMARY KEY, sold int NOT NULL)")
	s.exec(t, "CREATE TABLE tickets (buyer int PRIMARY KEY)")
	return s
}

func (s service) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := s[0].db.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// sell is one round: the show opens with no seat sold, and every buyer asks once, the replicas in turn. It returns the
// number of tickets, which buyers have in their hands whatever the counter says.
func (s service) sell(t *testing.T, buy purchase) (tickets int64) {
	t.Helper()
	s.exec(t, "TRUNCATE shows, tickets")
	s.exec(t, "INSERT INTO shows VALUES (1, 0)")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	var next, told atomic.Int64
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for buyer := int(next.Add(1)); buyer <= buyers && ctx.Err() == nil; buyer = int(next.Add(1)) {
				got, err := buy(ctx, s[buyer%len(s)], buyer)
				if err != nil {
					t.Errorf("buyer %d: %v", buyer, err)
					cancel()
				}
				if got {
					told.Add(1)
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if err := s[0].db.QueryRow(t.Context(), "SELECT count(*) FROM tickets").Scan(&tickets); err != nil {
		t.Fatalf("count the tickets: %v", err)
	}
	if tickets != told.Load() {
		t.Fatalf("%d tickets, but %d buyers were told that they have one", tickets, told.Load())
	}
	return tickets
}
