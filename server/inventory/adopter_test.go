package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// TestLostSalesInTheLog: however many sales a ledger from a backup lacks, the line counts all and names few.
func TestLostSalesInTheLog(t *testing.T) {
	for _, lost := range []int{1, lostLogged, 5000} {
		r := &rebuild{plan: &plan{}}
		for n := range lost {
			r.plan.lostSales = append(r.plan.lostSales, fmt.Sprintf("concert.%d", n))
		}
		var out bytes.Buffer
		r.report(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelError})), time.Second)
		var line struct {
			SalesMissing int `json:"sales_missing"`
			Holds        []string
		}
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
		if line.SalesMissing != lost || len(line.Holds) != min(lost, lostLogged) || line.Holds[0] != "concert.0" {
			t.Errorf("of %d the log counts %d and names %d", lost, line.SalesMissing, len(line.Holds))
		}
	}
}

// TestEarlierCursor: the order in which Redis walks a table of eight is that in which it walks one of any other size.
func TestEarlierCursor(t *testing.T) {
	order := []uint64{4, 2, 6, 1, 5, 3, 7, 0} // 0 is the end
	for n, first := range order {
		for _, second := range order[n:] {
			if got := earlier(first, second); got != first || earlier(second, first) != first {
				t.Errorf("of %d and %d, %d is the earlier", first, second, got)
			}
		}
	}
}

// inForce is a Redis whose state is in force, and notes what is renewed nevertheless.
type inForce struct {
	Redis
	renewed chan string
}

var errRenewed = errors.New("renewed")

func (r inForce) AdoptBegin(_ context.Context, p store.Place, _ string, _ time.Duration, renew bool) (*store.Past, time.Duration, error) {
	if !renew {
		return nil, 0, nil
	}
	r.renewed <- p.Allotment
	return nil, 0, errRenewed
}

type anyRow struct{ Ledger }

func (anyRow) Allotment(_ context.Context, id string) (store.Allotment, error) {
	return store.Allotment{Place: store.Place{Allotment: id}}, nil
}

// TestRenewIsNotLost: who wants an allotment made anew gets that, though an adopt that only looks whether it is needed was
// begun before.
func TestRenewIsNotLost(t *testing.T) {
	redis := inForce{renewed: make(chan string, 1)}
	v := &Inventory{redis: redis, log: slog.New(slog.DiscardHandler), o: Options{Background: anyRow{}, AdoptLease: time.Second}}
	a := newAdopter(v)
	a.turns.most = 0 // nobody has a turn
	place := store.Place{Allotment: "concert"}
	first := a.start(place, false)
	asked := make(chan error)
	go func() { asked <- a.renew(t.Context(), place) }()
	for !a.turns.isAsked(&first.turn) { // it has joined the first
		runtime.Gosched()
	}
	a.turns.mu.Lock()
	a.turns.most = 1
	a.turns.next()
	a.turns.mu.Unlock()
	if err := <-asked; !errors.Is(err, errRenewed) {
		t.Errorf("renew: %v, and nothing was renewed", err)
	}
}

// TestOnlyTheCrowdIsTurnedAway: where no more requests for holds may wait for an adopt, whoever has a hold still does.
func TestOnlyTheCrowdIsTurnedAway(t *testing.T) {
	v := &Inventory{redis: inForce{}, log: slog.New(slog.DiscardHandler), o: Options{Background: anyRow{}, AdoptLease: time.Second}}
	a := newAdopter(v)
	a.most, a.turns.most = 0, 0 // nobody has a turn
	place := store.Place{Allotment: "concert"}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.demandInCrowd(over, place); !errors.Is(err, errCrowded) {
		t.Errorf("one too many: %v, want %v", err, errCrowded)
	}
	if err := a.demand(over, place); !errors.Is(err, context.Canceled) {
		t.Errorf("who has a hold: %v, want it to have waited until its time was over", err)
	}
	a.turns.mu.Lock()
	a.turns.most = 1
	a.turns.next()
	a.turns.mu.Unlock()
	if err := a.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.waiting != 0 {
		t.Errorf("%d still count as waiting", a.waiting)
	}
}
