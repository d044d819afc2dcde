package compare

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestMain lets the test's own program be a replica, as launch is.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{"compare", "--replica"}) {
		if err := (&Command{Replica: true}).Run(context.Background(), os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	storetest.Main(m)
}

// testEnv is an env on the stores that tests share.
func testEnv(t *testing.T, callers int) *env {
	t.Helper()
	url := storetest.Database(t)
	if err := execute(t.Context(), url, schema); err != nil {
		t.Fatal(err)
	}
	return &env{
		settings: &Command{Workers: callers, Conns: 4},
		stores:   &stores{postgresURL: url, redisURL: storetest.Redis(t).URL(), scratch: "test-" + strings.ToLower(t.Name())},
		clock:    newClock(),
	}
}

// openShops opens all ways but Holdfast, which needs its server.
func openShops(t *testing.T, callers int) map[string]shop {
	t.Helper()
	shops := make(map[string]shop)
	for _, w := range ways() {
		if w.name == usesHoldfast {
			continue
		}
		s, err := w.open(t.Context(), testEnv(t, callers))
		if err != nil {
			t.Fatalf("%s: %v", w.name, err)
		}
		t.Cleanup(func() {
			if err := s.close(); err != nil {
				t.Errorf("close %s: %v", w.name, err)
			}
		})
		shops[w.name] = s
	}
	return shops
}

// TestOneCallerIsServedRightly: with nobody in between, all ways are the same, and right. The books are audited, and a
// wrong tally is found out by the ways that have any.
func TestOneCallerIsServedRightly(t *testing.T) {
	t.Parallel()
	const capacity = 20
	d := demand{Seed: 20260730, Requests: 40} // 1 2 2 2 1 1 1 2 1 1 ...
	for name, s := range openShops(t, 1) {
		t.Run(name, func(t *testing.T) {
			if name == "mutex" {
				t.Skip("has four callers at least")
			}
			for range 2 { // the second time with a new stock
				if err := s.restock(t.Context(), capacity); err != nil {
					t.Fatal(err)
				}
				answers, err := s.ask(t.Context(), d)
				if err != nil {
					t.Fatal(err)
				}
				left := int64(capacity)
				for i, a := range answers {
					if want := left >= a.Quantity; a.Got != want {
						t.Errorf("request %d for %d of %d: got it: %v", i, a.Quantity, left, a.Got)
					}
					if a.Got {
						left -= a.Quantity
					}
				}
				wantBooks(t, s, answers, name == "unprotected")
			}
		})
	}
}

func wantBooks(t *testing.T, s shop, answers []answer, anything bool) {
	t.Helper()
	got, err := count(20, len(answers), answers)
	if err != nil || got.Oversold != 0 || got.ValidRefusals != 0 || got.Sold != 20 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := s.audit(t.Context(), got); err != nil {
		t.Errorf("audit: %v", err)
	}
	got.Sold++
	if _, err := s.audit(t.Context(), got); err == nil && !anything {
		t.Error("the audit does not miss a sale")
	}
}

// TestReplicasShareTheDemand: each process has its part, and what is wrong in one is told.
func TestReplicasShareTheDemand(t *testing.T) {
	t.Parallel()
	s, err := openReplicas(t.Context(), testEnv(t, 8))
	if err != nil {
		t.Fatal(err)
	}
	for _, capacity := range []int64{1000, 0} {
		if err := s.restock(t.Context(), capacity); err != nil {
			t.Fatal(err)
		}
		answers, err := s.ask(t.Context(), demand{Seed: 1, Requests: 101})
		if err != nil {
			t.Fatal(err)
		}
		got, err := count(capacity, 101, answers)
		if err != nil || (got.Refused == 0) != (capacity > 0) {
			t.Errorf("capacity %d: %+v, %v", capacity, got, err)
		}
		if note, err := s.audit(t.Context(), got); err != nil || !strings.HasPrefix(note, "the counter says ") {
			t.Errorf("capacity %d: note %q, %v", capacity, note, err)
		}
	}
	if _, err := s.(*replicas).db.Exec(t.Context(), "DROP TABLE stock"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ask(t.Context(), demand{Requests: 4}); err == nil || !strings.Contains(err.Error(), "stock") {
		t.Errorf("with no stock: %v", err)
	}
	if err := s.close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestReplicasEndWithTheRun(t *testing.T) {
	t.Parallel()
	s, err := openReplicas(t.Context(), testEnv(t, 8))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.ask(ctx, demand{Requests: 100_000}); err == nil {
		t.Error("a run that was stopped has answers")
	}
	if err := s.close(); err != nil {
		t.Errorf("close: %v", err)
	}
	for _, r := range s.(*replicas).all {
		<-r.Ended()
	}
}

// meddler writes in between each time that a version has been read, as often as it is told.
type meddler struct {
	others       *pgxpool.Pool
	times, reads int
}

func (*meddler) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, meddlerKey{}, strings.HasPrefix(d.SQL, "SELECT"))
}

type meddlerKey struct{}

func (m *meddler) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if read, _ := ctx.Value(meddlerKey{}).(bool); !read {
		return
	}
	if m.reads++; m.reads <= m.times {
		if _, err := m.others.Exec(context.WithoutCancel(ctx), "UPDATE stock SET version = version + 1"); err != nil {
			panic(err)
		}
	}
}

// TestOptimisticGivesUpAtTheThirdConflict, though there is stock.
func TestOptimisticGivesUpAtTheThirdConflict(t *testing.T) {
	t.Parallel()
	e := testEnv(t, 1)
	others, err := openPool(t.Context(), e.stores.postgresURL, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	for conflicts, want := range map[int]bool{0: true, 2: true, 3: false} {
		config, err := pgxpool.ParseConfig(e.stores.postgresURL)
		if err != nil {
			t.Fatal(err)
		}
		m := &meddler{others: others, times: conflicts}
		config.ConnConfig.Tracer = m
		db, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if err := restock(t.Context(), others, 10); err != nil {
			t.Fatal(err)
		}
		got, err := compareVersion(t.Context(), db, request{quantity: 1})
		db.Close()
		if err != nil || got != want || m.reads != min(conflicts+1, tries) {
			t.Errorf("%d conflicts: got it %v after %d reads, %v", conflicts, got, m.reads, err)
		}
	}
}
