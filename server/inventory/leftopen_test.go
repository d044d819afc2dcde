package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"github.com/holdfast-inventory/holdfast/store"
)

// leftOpen is a Redis and a ledger of which one fails in the middle of a confirm.
type leftOpen struct {
	longWalk
	begin, finish error
}

func (r *leftOpen) Place(_ context.Context, id string) (store.Place, bool, error) {
	return store.Place{Allotment: id, Group: id, Buckets: 1}, true, nil
}

func (r *leftOpen) Begin(_ context.Context, b store.BeginRequest) ([]store.Begun, error) {
	return []store.Begun{{Hold: store.Hold{ID: b.Holds[0].ID, State: store.Confirming, OrderID: b.OrderID}, Epoch: 1}}, r.begin
}

func (r *leftOpen) Shrink(_ context.Context, s store.ShrinkRequest) (store.Begun, error) {
	return store.Begun{Hold: store.Hold{ID: s.ID, State: store.Confirming}, Epoch: 1}, r.begin
}

func (r *leftOpen) Finish(context.Context, []store.FinishLine) error { return r.finish }

type leftOpenLedger struct {
	manySales
	settle error
}

func (l *leftOpenLedger) Settle(_ context.Context, _ string, c store.Confirm) ([]store.Verdict, error) {
	return []store.Verdict{{Kind: store.VerdictSold, Sale: store.Sale{OrderID: c.OrderID}}}, l.settle
}

// TestLeftOpenIsExpected: whatever of a confirm or a shrink fails, this replica knows that it may have been left open, and
// has a supervisor look, however idle the allotment was.
func TestLeftOpenIsExpected(t *testing.T) {
	down := store.ErrUnavailable
	for _, c := range []struct {
		name                  string
		begin, settle, finish error
	}{{"begin", down, nil, nil}, {"ledger", nil, down, nil}, {"finish", nil, nil, down}, {"none", nil, nil, nil}} {
		p := store.Place{Allotment: "concert", Group: "concert", Buckets: 1}
		redis := &leftOpen{begin: c.begin, finish: c.finish}
		ledger := &leftOpenLedger{manySales: manySales{row: store.Allotment{Place: p}}, settle: c.settle}
		v, err := New(Options{Redis: redis, Ledger: ledger, Logger: slog.New(slog.DiscardHandler), Meters: metricnoop.NewMeterProvider()})
		if err != nil {
			t.Fatal(err)
		}
		for what, change := range map[string]func() error{
			"confirm": func() error {
				_, err := v.ConfirmHold(t.Context(), store.ConfirmHold{ID: confirmed, OrderID: "order"})
				return err
			},
			"shrink": func() error {
				_, err := v.shrink(t.Context(), store.AdjustCapacity{Allotment: p.Allotment, RequestID: "request", Delta: -1})
				return err
			},
		} {
			v.supervisor.watched = map[string]*watch{p.Allotment: {place: p, nextLook: time.Now().Add(time.Minute)}}
			if err := change(); (err != nil) != (c.begin != nil || c.settle != nil) {
				t.Errorf("%s, failing: %s: %v", what, c.name, err)
			} else if err != nil && !errors.Is(err, down) && !errors.Is(err, store.ErrResultUnknown) {
				t.Errorf("%s, failing: %s: %v", what, c.name, err)
			}
			if soon := !v.supervisor.watched[p.Allotment].nextLook.After(time.Now()); soon != (c.name != "none") {
				t.Errorf("%s, failing: %s: looked at soon: %v", what, c.name, soon)
			}
		}
	}
}

// partlySold is a Redis in which one hold of a cart is sold, and the other is being confirmed.
type partlySold struct{ leftOpen }

func (r *partlySold) Place(_ context.Context, id string) (store.Place, bool, error) {
	return store.Place{Allotment: id, Group: "festival", Buckets: 1}, true, nil
}

func (r *partlySold) Begin(_ context.Context, b store.BeginRequest) ([]store.Begun, error) {
	var begun []store.Begun
	for _, h := range b.Holds {
		state := store.Confirming
		if h.ID == confirmed {
			state = store.Sold
		}
		begun = append(begun, store.Begun{Hold: store.Hold{ID: h.ID, State: state}, Epoch: 1})
	}
	return begun, nil
}

// noSales is a ledger that does not answer with a sale.
type noSales struct{ manySales }

func (l *noSales) Sale(context.Context, store.HoldID) (store.Sale, error) {
	return store.Sale{}, store.ErrUnavailable
}

// TestLeftOpenBesideASale: the other hold of the cart has begun.
func TestLeftOpenBesideASale(t *testing.T) {
	v, err := New(Options{Redis: &partlySold{}, Ledger: &noSales{}, Logger: slog.New(slog.DiscardHandler), Meters: metricnoop.NewMeterProvider()})
	if err != nil {
		t.Fatal(err)
	}
	other := store.NewHoldID("parking", "buyer", "request")
	p := store.Place{Allotment: other.Allotment, Group: "festival", Buckets: 1}
	v.supervisor.watched = map[string]*watch{p.Allotment: {place: p, nextLook: time.Now().Add(time.Minute)}}
	if _, err := v.ConfirmHolds(t.Context(), []store.HoldID{confirmed, other}, "order"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if v.supervisor.watched[p.Allotment].nextLook.After(time.Now()) {
		t.Error("not looked at soon")
	}
}

// soldBefore is a ledger that knows an older epoch than Redis at first, and then that a hold was sold long ago; and its Redis has
// no record of that any more.
type soldBefore struct {
	leftOpenLedger
	redis *leftOpen
}

func (l *soldBefore) Settle(context.Context, string, store.Confirm) ([]store.Verdict, error) {
	l.redis.begin = &store.Refusal{Reason: store.HoldNotFound, HoldID: confirmed.String()}
	return []store.Verdict{{Kind: store.VerdictStale}}, nil
}

func (l *soldBefore) Outcomes(context.Context, string, []string) (map[string]store.Outcome, error) {
	sold := store.Outcome{ID: confirmed, Verdict: store.Verdict{Kind: store.VerdictSold, Sale: store.Sale{ID: confirmed, OrderID: "order"}}}
	return map[string]store.Outcome{confirmed.Tag: sold}, nil
}

var confirmed = store.NewHoldID("concert", "buyer", "request")

// TestSoldWhileStale: a confirm that is told to begin again, and finds its hold sold, is done.
func TestSoldWhileStale(t *testing.T) {
	redis := &leftOpen{}
	ledger := &soldBefore{redis: redis}
	v, err := New(Options{Redis: redis, Ledger: ledger, Logger: slog.New(slog.DiscardHandler), Meters: metricnoop.NewMeterProvider()})
	if err != nil {
		t.Fatal(err)
	}
	sale, err := v.ConfirmHold(t.Context(), store.ConfirmHold{ID: confirmed, OrderID: "order"})
	if err != nil || sale.ID != confirmed {
		t.Errorf("%+v, %v; want the sale", sale, err)
	}
}

// leftCart is a Redis with a cart whose confirm was left open, a hold in each allotment.
type leftCart struct {
	leftOpen
	cart []store.HoldID
}

func (r *leftCart) Claim(_ context.Context, _ store.Place, ids []store.HoldID, _ time.Duration) ([]store.Begun, error) {
	h, err := r.Get(context.Background(), store.PlacedHold{ID: ids[0]})
	return []store.Begun{{Hold: h, Epoch: 1}}, err
}

func (r *leftCart) Get(_ context.Context, p store.PlacedHold) (store.Hold, error) {
	return store.Hold{ID: p.ID, State: store.Confirming, OrderID: "order", Pinned: &store.Pinned{Quantity: 1, Cart: r.cart}}, nil
}

func (r *leftCart) Counters(context.Context, []store.Place) ([]store.Counters, error) {
	return []store.Counters{{Epoch: 1}}, nil
}

// slowLedger answers a confirm when it is let.
type slowLedger struct {
	manySales
	settles atomic.Int64
	let     chan struct{}
}

func (l *slowLedger) Down() bool { return false }

func (l *slowLedger) Settle(_ context.Context, _ string, c store.Confirm) ([]store.Verdict, error) {
	l.settles.Add(1)
	<-l.let
	return make([]store.Verdict, len(c.Lines)), nil
}

// TestCartIsDrivenOnce: after an outage the holds of a cart are claimed together, and brought to the ledger once, with all others.
// The next time it is brought there anew.
func TestCartIsDrivenOnce(t *testing.T) {
	redis, ledger := &leftCart{}, &slowLedger{let: make(chan struct{})}
	for i := range 10 {
		redis.cart = append(redis.cart, store.NewHoldID(fmt.Sprint("concert-", i), "buyer", "request"))
	}
	v, err := New(Options{Redis: redis, Ledger: ledger, Logger: slog.New(slog.DiscardHandler), Meters: metricnoop.NewMeterProvider()})
	if err != nil {
		t.Fatal(err)
	}
	for drives := int64(1); drives < 3; drives++ {
		for _, id := range redis.cart {
			v.driveOn(t.Context(), store.Place{Allotment: id.Allotment, Group: "g"}, []store.HoldID{id})
		}
		ledger.let <- struct{}{}
		if err := v.detached.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := ledger.settles.Load(); n != drives {
			t.Errorf("%d confirms at the ledger after %d outages", n, drives)
		}
	}
}
