package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// What became of Redis is noticed before it decides anything. TestRedisLostUnderLoad and TestS69... have FLUSHALL, restarts with
// all, less and no data, and SCRIPT FLUSH; store/holds has each of them for every script.

// TestTruncatedAppendOnlyFile: the machine lost power, and the file ends earlier than what was answered. What is in it
// stands, what is not was lost with it, and neither is sold twice.
func TestTruncatedAppendOnlyFile(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{Persist: true})
	w := newWorld(t, 2, withRedis(server.URL()))
	a := w.open(10)
	epoch := w.epoch(a)
	kept := w.buyers(a, 4)
	files, err := filepath.Glob(filepath.Join(server.Dir(), "*", "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatalf("append-only files %v, %v", files, err)
	}
	file, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	lost := w.hold(a, "lost", "r1", 6)
	server.Kill()
	if err := os.Truncate(files[0], file.Size()); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(w.ctx()); err != nil {
		t.Fatal(err)
	}
	w.broken = true
	w.confirm(w.hold(a, "new", "r1", 6), "order-new")
	for i, h := range kept {
		w.confirm(h, fmt.Sprint("order-", i))
	}
	err = insist(func() error { _, err := w.tryConfirm(0, lost, "order-lost"); return err })
	wantRefusal(t, err, store.HoldLapsed)
	w.wantStock(a, 0, 0, 10)
	if now := w.epoch(a); now <= epoch {
		t.Errorf("the epoch is %d, was %d", now, epoch)
	}
}

// TestCounterDeleted: if its counters or their format are gone, an allotment is adopted, with its holds.
func TestCounterDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	a := w.open(5)
	h := w.hold(a, "ann", "r", 2)
	for _, field := range []string{"counters", "format"} {
		epoch := w.epoch(a)
		if err := w.raw.HDel(w.ctx(), "hf:{"+a+"}:c", field).Err(); err != nil {
			t.Fatal(err)
		}
		w.wantStock(a, 3, 2, 0)
		if now := w.epoch(a); now <= epoch {
			t.Errorf("without %s: the epoch is still %d", field, now)
		}
	}
	w.confirm(h, "order")
}

// TestIndexOfAnotherKind: an index that cannot be written any more is noticed by the first who would, and its allotment adopted.
func TestIndexOfAnotherKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	for _, index := range []string{"d", "l", "e"} {
		a := w.open(5)
		h := w.hold(a, "ann", "r", 2)
		key := "hf:{" + a + "}:" + index
		if err := errors.Join(w.raw.Del(w.ctx(), key).Err(), w.raw.RPush(w.ctx(), key, "rubbish").Err()); err != nil {
			t.Fatal(err)
		}
		w.confirm(h, "order-"+a)
		w.wantStock(a, 3, 0, 2)
	}
}

// TestPromotedAndDemotedAgain: a server that was a replica for a while took part in nothing meanwhile. As a replica it is
// not adopted; as a master again it is, and what it has is compared with the ledger.
func TestPromotedAndDemotedAgain(t *testing.T) {
	t.Parallel()
	first, second := storetest.NewRedis(t, local.RedisOptions{}), storetest.NewRedis(t, local.RedisOptions{})
	w := newWorld(t, 1, withRedis(first.URL()), withOptions(func(o *inventory.Options) { o.DecisionTime = 200 * time.Millisecond }))
	a := w.open(5)
	epoch := w.epoch(a)
	w.confirm(w.hold(a, "ann", "r", 2), "order")
	host, port, _ := strings.Cut(second.Addr(), ":")
	if err := w.raw.ReplicaOf(w.ctx(), host, port).Err(); err != nil { // and takes over the other's nothing
		t.Fatal(err)
	}
	w.until(func() error {
		if n, err := w.raw.DBSize(w.ctx()).Result(); n > 0 || err != nil {
			return fmt.Errorf("%d keys, %w", n, errors.Join(err))
		}
		return nil
	})
	_, err := w.tryHold(0, a, "bob", "r", 1)
	wantTrouble(t, err)
	if now := w.epoch(a); now != epoch {
		t.Errorf("the epoch is %d although nothing could be adopted, was %d", now, epoch)
	}
	if err := w.raw.ReplicaOf(w.ctx(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	w.broken = true
	w.confirm(w.hold(a, "bob", "r", 3), "order-bob")
	w.wantStock(a, 0, 0, 5)
}

// TestMoreSurviveThanFit: the newest holds end until the others fit, which is counted.
func TestMoreSurviveThanFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	count := w.measured()
	a := w.open(10)
	var held []store.Hold
	for i := range 5 {
		held = append(held, w.hold(a, fmt.Sprint("buyer-", i), "r", 2))
	}
	w.query("update allotments set capacity = 6 where id = $1", []any{a})
	w.becomesAnother(a)
	for i, h := range held {
		want := store.Held
		if i >= 3 {
			want = store.Lapsed
		}
		w.wantState(h, want)
	}
	w.wantStock(a, 0, 6, 0)
	if n := count("holdfast.adopt.ended_holds"); n != 2 {
		t.Errorf("%d holds were counted, want 2", n)
	}
}

// becomesAnother makes Redis seem another server to an allotment.
func (w *world) becomesAnother(allotment string) {
	w.t.Helper()
	if err := storetest.MakeForeign(w.ctx(), w.raw, "hf:{"+allotment+"}:c"); err != nil {
		w.t.Fatal(err)
	}
}

// TestMoreConfirmingThanFit: holds that are being confirmed are not ended by an adopt, even if they alone are too many. Nothing is
// available then, the ledger refuses the excess, and the allotment is put right.
func TestMoreConfirmingThanFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	v := w.start(true)
	a := w.open(10)
	var begun []store.PlacedHold
	place := store.Place{Allotment: a, Group: a, Buckets: store.BucketsFor(10)}
	for i := range 3 {
		begun = append(begun, store.PlacedHold{Place: place, ID: w.hold(a, fmt.Sprint("buyer-", i), "r", 2).ID})
	}
	for i, h := range begun { // whoever began them has died
		_, err := v.holds.Begin(w.ctx(), store.BeginRequest{Holds: []store.PlacedHold{h}, OrderID: fmt.Sprint("order-", i), Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.query("update allotments set capacity = 5 where id = $1", []any{a})
	w.becomesAnother(a)
	_, err := w.tryHold(0, a, "late", "r", 1)
	if !isSoldOut(err) {
		t.Errorf("a new hold: %v", err)
	}
	w.until(func() error {
		if _, sold := w.row(a); sold != 4 {
			return fmt.Errorf("%d sold", sold)
		}
		return nil
	})
	w.until(func() error {
		if av := w.availability(a); av.Available != 1 || av.Held != 0 || av.Sold != 4 {
			return fmt.Errorf("available %d, held %d, sold %d", av.Available, av.Held, av.Sold)
		}
		return nil
	})
}

// TestPostgresWentBack: sales that Redis knows and the ledger does not, or a newer epoch or feed number, pause the allotment
// until an operator resumes it.
func TestPostgresWentBack(t *testing.T) {
	for name, back := range map[string]string{
		"a sale":     "with gone as (delete from outcomes where allotment_id = $1) update allotments set sold = 0 where id = $1",
		"the epoch":  "update allotments set epoch = epoch - 1 where id = $1",
		"the number": "update allotments set feed = feed - 1 where id = $1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			a := w.open(5)
			w.becomesAnother(a)
			w.confirm(w.hold(a, "ann", "r", 2), "order")
			w.setRules(a, func(r *store.Rules) { r.MaxPerHold = 7 })
			w.query(back, []any{a})
			w.becomesAnother(a)
			w.until(func() error {
				_, err := w.tryHold(0, a, "bob", "r", 1)
				if store.Refused(err, store.NotOpen) == nil && store.Refused(err, store.Paused) == nil {
					return fmt.Errorf("a new hold: %w", err)
				}
				return nil
			})
			if row, err := w.at(0).Allotment(w.ctx(), a); err != nil || row.State != store.StatePaused {
				t.Errorf("state %d, %v", row.State, err)
			}
			w.setState(a, store.StateOpen)
			w.hold(a, "bob", "r", 1)
		})
	}
}

// TestUnknownAfterTheRetention: an id that no store knows may have been lost with Redis only if the epoch was raised within
// the retention.
func TestUnknownAfterTheRetention(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	a := w.open(5)
	unknown := func(want store.Reason) {
		t.Helper()
		_, err := w.at(0).ConfirmHold(w.ctx(), store.ConfirmHold{ID: store.NewHoldID(a, "nobody", "r"), OrderID: "order"})
		wantRefusal(t, err, want)
	}
	unknown(store.HoldNotFound) // opened, never lost
	w.becomesAnother(a)
	w.wantStock(a, 5, 0, 0)
	unknown(store.HoldLapsed)
	w.query("update allotments set epoch_time = now() - interval '25 hours' where id = $1", []any{a})
	unknown(store.HoldNotFound)
}

// TestClockOfRedisJumps: a clock that is stepped forward lapses holds early and one that is stepped back keeps them longer, by as
// much; it is told, once each, and nothing is oversold.
func TestClockOfRedisJumps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	count := w.measured()
	a := w.open(3)
	early := w.hold(a, "early", "r", 3)
	jumped := func(want int64) {
		t.Helper()
		w.until(func() error {
			if n := count("holdfast.redis.clock.jumps"); n != want {
				return fmt.Errorf("%d jumps, want %d", n, want)
			}
			return nil
		})
	}
	w.until(func() error { // the first look
		if n := count("holdfast.units.held"); n != 3 {
			return fmt.Errorf("%d units were seen held", n)
		}
		return nil
	})
	jumped(0)
	w.advance(10 * time.Minute)
	jumped(1)
	late := w.hold(a, "late", "r", 3) // the other has lapsed
	_, err := w.tryConfirm(0, early, "order-early")
	wantRefusal(t, err, store.HoldLapsed)
	w.advance(-10 * time.Minute)
	jumped(2)
	if got := w.get(late); got.State != store.Held || got.Remaining < store.DefaultHoldDuration {
		t.Errorf("after the step back it is in state %d with %s left", got.State, got.Remaining)
	}
	w.confirm(late, "order-late")
	w.wantStock(a, 0, 0, 3)
	jumped(2)
}

// TestReplicasShareTheAdopts: when Redis has lost everything, three replicas adopt what nobody asks for, and each allotment once.
func TestReplicasShareTheAdopts(t *testing.T) {
	t.Parallel()
	const allotments = 60
	server := storetest.NewRedis(t, local.RedisOptions{})
	w := newWorld(t, 3, withRedis(server.URL()))
	var ids []string
	before := map[string]int64{}
	for range allotments {
		id := w.open(5)
		ids = append(ids, id)
		before[id] = w.epoch(id)
	}
	if err := w.raw.FlushAll(w.ctx()).Err(); err != nil {
		t.Fatal(err)
	}
	w.until(func() error {
		for _, id := range ids {
			got, err := w.raw.HMGet(context.Background(), "hf:{"+id+"}:c", "counters", "adopting").Result()
			if err != nil && !errors.Is(err, redis.Nil) || got[0] == nil || got[1] != nil {
				return fmt.Errorf("%s: %v, %w", id, got, errors.Join(err))
			}
		}
		return nil
	})
	for _, id := range ids {
		if now := w.epoch(id); now != before[id]+1 {
			t.Errorf("%s was adopted %d times", id, now-before[id])
		}
	}
}
