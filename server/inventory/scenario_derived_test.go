package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/holds"
	"github.com/holdfast-inventory/holdfast/store/ledger"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// Section L: derived by us. D8 is in scenario_time_test.go.

// The key in Redis forgets before the order does.
func TestD2TheKeyForgetsBeforeTheOrderDoes(t *testing.T) {
	onReplicas(t, func(t *testing.T, w *world) {
		a := w.open(10)
		h := w.hold(a, "ann", "r1", 1)
		w.advance(60 * time.Second)
		sale := w.confirm(h, "order-1")
		w.advance(65 * time.Second)
		if again := w.hold(a, "ann", "r1", 1); again.ID != h.ID || again.State != store.Sold || again.Token != h.Token {
			t.Errorf("the same request at T0+125 s gets %+v, want the sold hold", again)
		}
		w.wantStock(a, 9, 0, 1)

		w.advance(24*time.Hour + time.Second)
		w.forget(a)
		w.wantState(h, store.Sold) // the ledger remembers
		_, err := w.at(1).CancelHold(w.ctx(), h.ID)
		wantRefusal(t, err, store.HoldSold)
		_, err = w.at(1).ExtendHold(w.ctx(), h.ID)
		wantRefusal(t, err, store.HoldSold)
		fresh := w.hold(a, "ann", "r1", 1) // a new hold, since Redis has forgotten
		if fresh.State != store.Held || fresh.Token == h.Token {
			t.Errorf("the same request after the retention gets %+v, want a new hold", fresh)
		}
		w.wantStock(a, 8, 1, 1)
		_, err = w.tryConfirm(1, fresh, "order-2")
		if no := wantRefusal(t, err, store.OrderMismatch); no.OrderID != "order-1" {
			t.Errorf("refusal names order %q, want the one that bought", no.OrderID)
		}
		if again := w.confirm(fresh, "order-1"); again != sale {
			t.Errorf("confirmed for the old order: %+v, want the old sale %+v", again, sale)
		}
		w.wantSales(a, 1)
		w.wantStock(a, 9, 0, 1) // the new hold's unit went back
	})
}

// The client talks to a replica, or still to the demoted primary.
func TestD5ReadOnlyReplicaAnswers(t *testing.T) {
	t.Parallel()
	atOnce := local.RedisOptions{ExtraArgs: []string{"--repl-diskless-sync-delay", "0"}}
	old, promoted := storetest.NewRedis(t, atOnce), storetest.NewRedis(t, atOnce)
	const decision = 500 * time.Millisecond
	w := newWorld(t, 1, withRedis(old.URL()), withOptions(func(o *inventory.Options) { o.DecisionTime = decision }))
	a := w.open(10)
	h := w.hold(a, "ann", "r1", 1)

	follow := func(server, master *local.Redis) {
		t.Helper()
		client := redis.NewClient(&redis.Options{Addr: server.Addr()})
		defer client.Close()
		host, port := "no", "one"
		if master != nil {
			host, port = "127.0.0.1", master.Addr()[len("127.0.0.1:"):]
		}
		if err := client.Do(w.ctx(), "replicaof", host, port).Err(); err != nil {
			t.Fatal(err)
		}
		w.until(func() error {
			role, err := client.Do(w.ctx(), "role").Slice()
			if err == nil && master != nil && (len(role) < 4 || role[3] != "connected") {
				err = fmt.Errorf("not in sync: %v", role)
			}
			return err
		})
	}
	wantNoDecision := func(w *world) {
		t.Helper()
		_, err := w.tryHold(0, a, "bob", "r1", 1)
		wantTrouble(t, err)
		_, err = w.tryHold(0, a, "bob", "too many", 11) // a refusal needs no write
		wantTrouble(t, err)
		_, err = w.at(0).Availability(w.ctx(), a)
		wantTrouble(t, err)
	}

	follow(promoted, old)
	w.until(func() error { // attaching a replica may have changed the server's identity
		_, err := w.tryHold(0, a, "carl", "r1", 1)
		return err
	})
	astray := newWorld(t, 0, withRedis(promoted.URL()), withPostgres(w.pgURL), withOptions(w.options))
	astray.start(false)
	// The replica has what the master knows. It says that it is connected long before that, while the master still waits for the
	// process that has sent it all to end.
	master := redis.NewClient(&redis.Options{Addr: old.Addr()})
	defer master.Close()
	if err := master.Set(w.ctx(), "after what is known", "", 0).Err(); err != nil {
		t.Fatal(err)
	}
	w.until(func() error {
		n, err := master.Wait(w.ctx(), 1, time.Second).Result()
		if err == nil && n == 0 {
			err = errors.New("not replicated yet")
		}
		return err
	})
	wantNoDecision(astray)

	follow(promoted, nil)
	follow(old, promoted)
	wantNoDecision(w)
	ctx, cancel := context.WithTimeout(w.ctx(), decision)
	defer cancel()
	_, err := w.at(0).ConfirmHold(ctx, store.ConfirmHold{ID: h.ID, OrderID: "order-1"})
	wantTrouble(t, err)
	w.wantSales(a, 0)

	follow(old, nil)
	w.until(func() error {
		_, err := w.tryConfirm(0, h, "order-1")
		return err
	})
	w.wantStock(a, 8, 1, 1)
}

// Postgres down, Redis up: killed, so that connections are refused, or paused, so that nobody answers.
func TestD6PostgresDownRedisUp(t *testing.T) {
	eachNumber(t, func(t *testing.T, n int) {
		for name, down := range map[string]func(*local.Postgres) error{
			"killed": func(p *local.Postgres) error { p.Kill(); return nil },
			"paused": (*local.Postgres).Pause,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := storetest.NewPostgres(t, local.PostgresOptions{})
				if err := ledger.Migrate(t.Context(), server.URL("postgres")); err != nil {
					t.Fatal(err)
				}
				// Less than a ledger's call may take: a decision that asks it would be too late.
				w := newWorld(t, n, withPostgres(server.URL("postgres")), withOptions(func(o *inventory.Options) {
					o.DecisionTime, o.ConfirmTime = 5*time.Second, time.Second
				}))
				postgresDown(t, w, func() error { return down(server) }, func() error { return revive(t, server) })
			})
		}
	})
}

// server is what a Redis and a Postgres have in common.
type server interface {
	Exited() <-chan struct{}
	Resume()
	Restart(ctx context.Context) error
}

// revive lets a server go on that was paused, or starts it again.
func revive(t *testing.T, s server) error {
	select {
	case <-s.Exited():
		return s.Restart(t.Context())
	default:
		s.Resume()
		return nil
	}
}

func postgresDown(t *testing.T, w *world, down, up func() error) {
	a := w.open(10)
	h, early := w.hold(a, "ann", "r1", 1), w.hold(a, "early", "r1", 1)
	w.confirm(early, "order-0")
	if err := down(); err != nil {
		t.Fatal(err)
	}
	fresh := w.start(false) // it knows nothing yet, and cannot ask
	for i, r := range append([]*replica{fresh}, w.replicas...) {
		taken, err := r.CreateHold(w.ctx(), fmt.Sprint("buyer-", i), "r1", line(a, 1))
		if err == nil {
			_, err = r.ExtendHold(w.ctx(), taken.ID)
		}
		if err == nil {
			_, err = r.CancelHold(w.ctx(), taken.ID)
		}
		if err != nil {
			t.Errorf("replica %d: %v; want it to decide", i, err)
		}
	}
	_, err := w.tryHold(0, a, "greedy", "r1", 10)
	wantRefusal(t, err, store.SoldOut)
	w.wantStock(a, 8, 1, 1)
	_, err = w.tryConfirm(0, h, "order-1")
	wantTrouble(t, err)
	w.wantState(h, store.Confirming)
	w.advance(121 * time.Second) // pinned: it cannot lapse any more
	w.wantStock(a, 8, 1, 1)
	if err := up(); err != nil {
		t.Fatal(err)
	}
	var sold store.Sale
	w.until(func() error { // the supervisor ends it
		var err error
		sold, err = w.next().Sale(w.ctx(), h.ID)
		return err
	})
	if again := w.confirm(h, "order-1"); again != sold || sold.OrderID != "order-1" {
		t.Errorf("the repeat gets %+v, want %+v", again, sold)
	}
	w.wantSales(a, 2)
	w.wantStock(a, 8, 0, 2)
}

// Redis down, Postgres up.
func TestD7RedisDownPostgresUp(t *testing.T) {
	eachNumber(t, func(t *testing.T, n int) {
		for name, down := range map[string]func(*local.Redis) error{
			"killed": func(r *local.Redis) error { r.Kill(); return nil },
			"paused": (*local.Redis).Pause,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := storetest.NewRedis(t, local.RedisOptions{})
				w := newWorld(t, n, withRedis(server.URL()), withOptions(func(o *inventory.Options) {
					o.DecisionTime = inventory.DefaultDecisionTime
				}), func(w *world) { w.timeout = holds.DefaultTimeout })
				a := w.open(10)
				w.redisDown(a, func() error { return down(server) })
				if err := revive(t, server); err != nil {
					t.Fatal(err)
				}
				w.until(func() error {
					_, err := w.tryHold(0, a, "bob", "r2", 1)
					return err
				})
			})
		}
	})
}

func (w *world) redisDown(a string, down func() error) {
	w.t.Helper()
	w.until(func() error {
		_, err := w.tryHold(0, a, "ann", "r1", 1)
		return err
	})
	if err := down(); err != nil {
		w.t.Fatal(err)
	}
	for i := range w.replicas {
		start := time.Now()
		_, err := w.tryHold(i, a, "bob", "r1", 1)
		wantTrouble(w.t, err)
		_, err = w.tryHold(i, a, "bob", "too many", 11) // not even this is a refusal
		wantTrouble(w.t, err)
		_, err = w.at(i).Availability(w.ctx(), a)
		wantTrouble(w.t, err)
		if took := time.Since(start); took > patience/4 { // 3 x 90 ms, on a machine that is idle
			w.t.Errorf("three answers took %v", took)
		}
	}
}
