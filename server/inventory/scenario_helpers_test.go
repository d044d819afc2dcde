package inventory_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// The scenario_..._test.go files are failures that real systems had, by number, restated with exact
// numbers. T0 is a test's start; a hold lasts 120 s. Time passes by world.advance, and
// every allotment's promises are checked at the test's end by world.open.

// onReplicas runs a scenario with one and with three replicas of the service.
func onReplicas(t *testing.T, scenario func(t *testing.T, w *world), options ...worldOption) {
	t.Helper()
	eachNumber(t, func(t *testing.T, n int) { scenario(t, newWorld(t, n, options...)) })
}

// eachNumber does so for a scenario that makes its world itself.
func eachNumber(t *testing.T, scenario func(t *testing.T, replicas int)) {
	t.Helper()
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("replicas=%d", n), func(t *testing.T) {
			t.Parallel()
			scenario(t, n)
		})
	}
}

// tally is what concurrent callers were told.
type tally struct {
	mu      sync.Mutex
	granted []store.Hold
	refused map[store.Reason]int
	trouble []error
}

// each calls f for 0..n-1 at once, on the replicas in turn, and counts the answers.
func (w *world) each(n int, f func(i int) (store.Hold, error)) *tally {
	all := &tally{refused: map[store.Reason]int{}}
	together(n, func(i int) {
		h, err := f(i)
		all.mu.Lock()
		defer all.mu.Unlock()
		switch reason := refusalOf(err); {
		case err == nil:
			all.granted = append(all.granted, h)
		case reason != "":
			all.refused[reason]++
		default:
			all.trouble = append(all.trouble, err)
		}
	})
	return all
}

// want checks the numbers of grants and of refusals for one reason, and that there was nothing else.
func (a *tally) want(t testing.TB, granted int, reason store.Reason, refused int) {
	t.Helper()
	if len(a.granted) != granted || a.refused[reason] != refused || len(a.trouble) > 0 || len(a.refused) > 1 {
		t.Errorf("granted %d, refused %v, trouble %v; want %d, %d of %s, none", len(a.granted), a.refused, a.trouble, granted, refused, reason)
	}
}

// buyers takes n holds of one unit, each for a buyer of its own, some at a time.
func (w *world) buyers(allotment string, n int) []store.Hold {
	w.t.Helper()
	holds := make([]store.Hold, n)
	w.some(n, func(i int) error {
		return insist(func() error {
			var err error
			holds[i], err = w.tryHold(i, allotment, fmt.Sprintf("%s-buyer-%d", allotment, i), "r1", 1)
			return err
		})
	})
	return holds
}

// insist repeats a call with the same ids while there is trouble, as clients do.
func insist(call func() error) error {
	for start := time.Now(); ; {
		if err := call(); !isTrouble(err) || time.Since(start) > patience {
			return err
		}
	}
}

// some calls f for 0..n-1, up to 256 at a time, and fails the test with the first error.
func (w *world) some(n int, f func(i int) error) {
	w.t.Helper()
	const workers = 256
	errs := make([]error, n)
	together(min(n, workers), func(worker int) {
		for i := worker; i < n; i += workers {
			errs[i] = f(i)
		}
	})
	for i, err := range errs {
		if err != nil {
			w.t.Fatalf("caller %d of %d: %v", i, n, err)
		}
	}
}

func (w *world) cart(i int, buyer, request string, lines ...store.Line) ([]store.Hold, error) {
	return w.at(i).CreateHolds(w.ctx(), buyer, request, lines)
}

func line(allotment string, quantity int64) store.Line {
	return store.Line{Allotment: allotment, Quantity: quantity}
}

func (w *world) tryConfirm(i int, h store.Hold, order string) (store.Sale, error) {
	return w.at(i).ConfirmHold(w.ctx(), store.ConfirmHold{ID: h.ID, OrderID: order})
}

// cancel ends a hold, which must succeed.
func (w *world) cancel(h store.Hold) store.Hold {
	w.t.Helper()
	ended, err := w.next().CancelHold(w.ctx(), h.ID)
	if err != nil {
		w.t.Fatalf("CancelHold: %v", err)
	}
	return ended
}

// cancelSale takes a sale back, which must succeed. Quantity 0 is the rest.
func (w *world) cancelSale(h store.Hold, request string, quantity int64) store.Sale {
	w.t.Helper()
	s, err := w.next().CancelSale(w.ctx(), store.CancelSale{ID: h.ID, RequestID: request, Quantity: quantity})
	if err != nil {
		w.t.Fatalf("CancelSale(%s): %v", request, err)
	}
	return s
}

func (w *world) get(h store.Hold) store.Hold {
	w.t.Helper()
	now, err := w.next().Hold(w.ctx(), h.ID)
	if err != nil {
		w.t.Fatalf("GetHold: %v", err)
	}
	return now
}

// wantUnknown checks the answer to a call for a hold that was never made.
func (w *world) wantUnknown(err error, allotment string) {
	w.t.Helper()
	reason := store.HoldNotFound
	if a, err := w.next().Allotment(w.ctx(), allotment); err != nil || a.Epoch > 1 {
		reason = store.HoldLapsed // adopted anew: it may have been lost
	}
	wantRefusal(w.t, err, reason)
}

func (w *world) wantState(h store.Hold, state store.HoldState) {
	w.t.Helper()
	if now := w.get(h); now.State != state {
		w.t.Errorf("hold of %s is in state %d, want %d", h.BuyerID, now.State, state)
	}
}

// wantSame checks that two answers are of one hold, unchanged but for the time that it has left.
func wantSame(t testing.TB, got, want store.Hold) {
	t.Helper()
	got.Remaining = want.Remaining
	if got.ID != want.ID || got.Token != want.Token || got.State != want.State || got.Quantity != want.Quantity ||
		!got.CreateTime.Equal(want.CreateTime) || !got.ExpireTime.Equal(want.ExpireTime) {
		t.Errorf("got hold %+v, want %+v", got, want)
	}
}

// wantTrouble checks that a call was neither granted nor refused: the caller may repeat it.
func wantTrouble(t testing.TB, err error) {
	t.Helper()
	if refusalOf(err) != "" || !isTrouble(err) {
		t.Errorf("got %v, want an error that says unavailable", err)
	}
}

func isTrouble(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrRebuilding) || errors.Is(err, store.ErrResultUnknown)
}

// sales counts the rows of sales, past the product.
func (w *world) sales(allotment string) int {
	w.t.Helper()
	var n int
	w.query("select count(*) from outcomes where allotment_id = $1 and verdict = 'SOLD' and kind = 'SALE'", []any{allotment}, &n)
	return n
}

func (w *world) wantSales(allotment string, n int) {
	w.t.Helper()
	if got := w.sales(allotment); got != n {
		w.t.Errorf("%s has %d rows of sales, want %d", allotment, got, n)
	}
}

func (w *world) place(allotment string) store.Place {
	w.t.Helper()
	a, err := w.next().Allotment(w.ctx(), allotment)
	if err != nil {
		w.t.Fatal(err)
	}
	return a.Place
}

// keys names the keys of a group, past the product, whatever their form.
func (w *world) keys(group string) []string {
	w.t.Helper()
	keys, err := w.raw.Keys(w.ctx(), "hf:{"+group+"}*").Result()
	if err != nil {
		w.t.Fatal(err)
	}
	return keys
}

// tagForms are the forms in which a hold's tag may be written in Redis.
func tagForms(h store.Hold) []string {
	raw, _ := base64.RawURLEncoding.DecodeString(h.ID.Tag)
	return []string{h.ID.Tag, string(raw)}
}

// record finds the hash and the field of a hold's record: its own, or that of its buyer's entry.
func (w *world) record(group string, h store.Hold) (key, field string) {
	w.t.Helper()
	for _, key := range w.keys(group) {
		buyer := h.ID.BuyerKey()
		for _, field := range append(tagForms(h), string(buyer[:])) {
			if has, err := w.raw.HExists(w.ctx(), key, field).Result(); err == nil && has {
				return key, field
			}
		}
	}
	w.t.Fatalf("no hash of group %s has a record of hold %s", group, h.ID)
	return "", ""
}

// marker finds the key whose TTL is a hold's deadline.
func (w *world) marker(group string, h store.Hold) string {
	w.t.Helper()
	for _, key := range w.keys(group) {
		for _, form := range tagForms(h) {
			if strings.Contains(key, form) {
				return key
			}
		}
	}
	w.t.Fatalf("group %s has no key that names hold %s", group, h.ID)
	return ""
}

// copied is a group's state in Redis, as a lagging replica or an old file would have it.
func (w *world) copied(group string) map[string]string {
	w.t.Helper()
	state := map[string]string{}
	for _, key := range w.keys(group) {
		value, err := w.raw.Dump(w.ctx(), key).Result()
		must(w.t, err)
		state[key] = value
	}
	return state
}

// goBack brings an older state of a group back, as found on another server.
func (w *world) goBack(group string, state map[string]string) {
	w.t.Helper()
	_, err := w.raw.TxPipelined(w.ctx(), func(p redis.Pipeliner) error {
		p.Del(w.ctx(), w.keys(group)...)
		for key, value := range state {
			p.RestoreReplace(w.ctx(), key, 0, value)
		}
		return storetest.MakeForeign(w.ctx(), p, "hf:{"+group+"}:c")
	})
	must(w.t, err)
}

// forget purges what has ended long enough ago, as the supervisor does.
func (w *world) forget(allotment string) int {
	w.t.Helper()
	p, r := w.place(allotment), w.next()
	purged := 0
	for {
		work, err := r.holds.Due(w.ctx(), []store.Place{p}, 100)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(work[0].Ended) == 0 {
			return purged
		}
		if err := r.holds.Purge(w.ctx(), p, work[0].Ended); err != nil {
			w.t.Fatal(err)
		}
		purged += len(work[0].Ended)
	}
}

// with starts one more replica with options of its own; without loops it only answers.
func (w *world) with(loops bool, change func(*inventory.Options)) *replica {
	w.t.Helper()
	usual := w.options
	defer func() { w.options = usual }()
	w.options = func(o *inventory.Options) {
		if usual != nil {
			usual(o)
		}
		change(o)
	}
	return w.start(loops)
}

// measured starts one more replica and returns a look at its gauges and counters.
func (w *world) measured() (value func(name string) int64) {
	w.t.Helper()
	reader := metric.NewManualReader()
	w.with(true, func(o *inventory.Options) { o.Meters = metric.NewMeterProvider(metric.WithReader(reader)) })
	return func(name string) int64 {
		var all metricdata.ResourceMetrics
		if err := reader.Collect(context.Background(), &all); err != nil {
			w.t.Fatal(err)
		}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				if m.Name != name {
					continue
				}
				switch data := m.Data.(type) {
				case metricdata.Gauge[int64]:
					return data.DataPoints[0].Value
				case metricdata.Sum[int64]:
					return data.DataPoints[0].Value
				}
			}
		}
		w.t.Fatalf("no metric %s", name)
		return 0
	}
}

// until waits for what the loops do by themselves.
func (w *world) until(cond func() error) {
	w.t.Helper()
	storetest.Eventually(w.t, patience, cond)
}

// wantAvailableCounter checks the counter itself, which answers clamp at 0.
func (w *world) wantAvailableCounter(allotment string, want int64) {
	w.t.Helper()
	if got := w.rawAvailable(allotment); got != want {
		w.t.Errorf("counter available of %s is %d, want %d", allotment, got, want)
	}
}

func (w *world) reconcile(allotment string, apply bool) []store.Finding {
	w.t.Helper()
	found, applied, err := w.next().Reconcile(w.ctx(), allotment, apply)
	if err != nil || applied != (apply && len(found) > 0) {
		w.t.Fatalf("Reconcile(apply %v): %+v, applied %v, %v", apply, found, applied, err)
	}
	return found
}

// has says whether one of the findings is of this kind and off by this much.
func has(found []store.Finding, kind store.FindingKind, difference int64) bool {
	for _, f := range found {
		if f.Kind == kind && f.Difference == difference {
			return true
		}
	}
	return false
}
