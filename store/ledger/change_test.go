package ledger

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
)

func TestUpdateRules(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	a := f.allotment(show)
	got, err := f.UpdateRules(t.Context(), show, a.Version, fullRules())
	if err != nil {
		t.Fatal(err)
	}
	want := a
	want.Rules, want.Version, want.Feed, want.UpdateTime = asStored(fullRules()), a.Version+1, a.Feed+1, got.UpdateTime
	if diff := cmp.Diff(want, got); diff != "" || !got.UpdateTime.After(a.UpdateTime) {
		t.Errorf("updated (-want +got):\n%s", diff)
	}
	wantFeed := []store.Change{{Number: want.Feed, Kind: store.ChangeRules, Rules: want.Rules}}
	if diff := cmp.Diff(wantFeed, f.changes(show)); diff != "" {
		t.Errorf("feed (-want +got):\n%s", diff)
	}
	_, err = f.UpdateRules(t.Context(), show, a.Version, rules())
	if r := store.Refused(err, store.StaleEtag); r == nil || r.Version != want.Version {
		t.Errorf("the old version: %v, want StaleEtag", err)
	}
	if diff := cmp.Diff(got, f.allotment(show)); diff != "" {
		t.Errorf("after the refusal:\n%s", diff)
	}
}

// TestLongestHold: the longest hold duration that there was is kept, also the one the allotment was made with.
func TestLongestHold(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	longest := f.allotment(show).HoldDuration
	for _, d := range []time.Duration{time.Second, longest, time.Hour, time.Minute} {
		r := rules()
		r.HoldDuration = d
		a, err := f.UpdateRules(t.Context(), show, f.allotment(show).Version, r)
		if longest = max(longest, d); err != nil || a.LongestHold != longest {
			t.Errorf("longest hold %s after %s, %v; want %s", a.LongestHold, d, err, longest)
		}
	}
}

// TestLongestHoldNotKept: an earlier release made the allotment and shortened its holds, of which the row does not tell.
func TestLongestHoldNotKept(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	longest := f.allotment(show).HoldDuration
	f.exec(f.connect(), `update allotments set longest_hold_ms = 0, hold_duration_ms = 1000`)
	a := f.allotment(show)
	if a.HoldDuration != time.Second || a.LongestHold < longest {
		t.Errorf("longest hold %s, want at least %s", a.LongestHold, longest)
	}
	if a = f.setState(store.StatePaused); a.LongestHold < longest {
		t.Errorf("longest hold %s after a change of the rules, want at least %s", a.LongestHold, longest)
	}
}

// TestUpdateRulesAtOnce: of many operators with one version in hand, one wins.
func TestUpdateRulesAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	version := f.allotment(show).Version
	var mu sync.Mutex
	won := 0
	each(20, func(i int) {
		r := rules()
		r.MaxPerBuyer = int64(i + 1)
		_, err := f.UpdateRules(t.Context(), show, version, r)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			won++
		} else if store.Refused(err, store.StaleEtag) == nil {
			t.Error(err)
		}
	})
	if won != 1 || len(f.changes(show)) != 1 {
		t.Errorf("%d won, feed %v", won, f.changes(show))
	}
}

func TestGrow(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	ctx, before := t.Context(), f.allotment(show)
	asked := store.Adjustment{Allotment: show, RequestID: "r1", Delta: 5}
	a, made, err := f.Grow(ctx, asked)
	want := asked
	want.Feed = before.Feed + 1
	if err != nil || made != want || a.Capacity != 15 || a.Feed != want.Feed || a.Version != before.Version+1 {
		t.Fatalf("%+v, %+v, %v", a, made, err)
	}
	if _, _, err := f.Grow(ctx, store.Adjustment{Allotment: show, RequestID: "r2", Delta: 1}); err != nil {
		t.Fatal(err)
	}
	if a, made, err := f.Grow(ctx, asked); err != nil || made != want || a.Capacity != 16 {
		t.Errorf("repeat: %+v, %+v, %v", a, made, err)
	}
	if got, found, err := f.Adjustment(ctx, show, "r1"); err != nil || !found || got != want {
		t.Errorf("Adjustment: %+v, %v, %v", got, found, err)
	}
	if got, found, err := f.Adjustment(ctx, show, "none"); err != nil || found || got != (store.Adjustment{}) {
		t.Errorf("no adjustment: %+v, %v, %v", got, found, err)
	}
	wantFeed := []store.Change{{Number: want.Feed, Kind: store.ChangeGrow, Quantity: 5}, {Number: want.Feed + 1, Kind: store.ChangeGrow, Quantity: 1}}
	if diff := cmp.Diff(wantFeed, f.changes(show)); diff != "" {
		t.Errorf("feed (-want +got):\n%s", diff)
	}
	f.settle(order("", shrink(show, "cut", 2)))
	for _, c := range []struct {
		request string
		delta   int64
		want    store.Reason // empty: InvalidField
	}{
		{"r1", 6, store.RequestMismatch},
		{"cut", 2, store.RequestMismatch},
		{"r3", store.MaxCapacity, ""},
		{"r3", 0, ""},
		{"r3", -1, ""},
	} {
		var field *store.InvalidField
		_, _, err := f.Grow(ctx, store.Adjustment{Allotment: show, RequestID: c.request, Delta: c.delta})
		if c.want != "" && store.Refused(err, c.want) == nil || c.want == "" && (!errors.As(err, &field) || field.Field != "delta") {
			t.Errorf("Grow %s by %d: %v, want %s", c.request, c.delta, err, c.want)
		}
	}
	if a := f.allotment(show); a.Capacity != 14 || a.Feed != want.Feed+1 {
		t.Errorf("at the end: %+v", a)
	}
}

// TestFeedNumbersUnderLoad: growth, rules and cancelled sales at once leave numbers without a gap, and a reader never
// sees a number before the one ahead of it.
func TestFeedNumbersUnderLoad(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	ids := make([]store.HoldID, 30)
	for n := range ids {
		ids[n] = f.sell(n, 2)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			changes, err := f.Changes(t.Context(), show, 0, 1000)
			for i, c := range changes {
				if err != nil || c.Number != int64(i+1) {
					t.Errorf("number %d at %d, %v", c.Number, i, err)
				}
			}
		}
	}()
	each(90, func(i int) {
		var err error
		switch i % 3 {
		case 0:
			_, _, err = f.CancelSale(t.Context(), store.CancelSale{ID: ids[i/3], RequestID: "r", Quantity: 1})
		case 1:
			_, _, err = f.Grow(t.Context(), store.Adjustment{Allotment: show, RequestID: fmt.Sprint(i), Delta: 1})
		case 2:
			for again := true; again; again = store.Refused(err, store.StaleEtag) != nil {
				_, err = f.UpdateRules(t.Context(), show, f.allotment(show).Version, rules())
			}
		}
		if err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	})
	close(stop)
	<-stopped
	changes := f.changes(show)
	if a := f.allotment(show); len(changes) != 90 || a.Feed != 90 || a.Capacity != 130 || a.Sold != 30 {
		t.Errorf("%d rows in the feed of %+v", len(changes), a)
	}
}
