package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
)

// TestListHoldsPages: pages of any size together give every hold once.
func TestListHoldsPages(t *testing.T) {
	w := newWorld(t, 1)
	a := w.open(100_000)
	want := map[string]bool{}
	for i := range 90 {
		h := w.hold(a, fmt.Sprintf("buyer-%d", i%7), fmt.Sprintf("r%d", i), 1)
		want[h.ID.String()] = true
		if i%3 == 0 {
			w.confirm(h, fmt.Sprintf("order-%d", i))
		}
	}
	for _, limit := range []int{1, 7, 89, 90, 1000} {
		got := map[string]bool{}
		for page := ""; ; {
			holds, next, err := w.at(0).ListHolds(w.ctx(), store.HoldFilter{Allotment: a}, page, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(holds) > limit {
				t.Errorf("page of %d, limit %d", len(holds), limit)
			}
			for _, h := range holds {
				if got[h.ID.String()] {
					t.Errorf("limit %d: %s twice", limit, h.ID)
				}
				got[h.ID.String()] = true
			}
			if page = next; page == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
	live, _, err := w.at(0).ListHolds(w.ctx(), store.HoldFilter{Allotment: a, BuyerID: "buyer-2", States: []store.HoldState{store.Held}}, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range live {
		if h.BuyerID != "buyer-2" || h.State != store.Held {
			t.Errorf("listed %+v", h)
		}
	}
	if len(live) != 9 {
		t.Errorf("%d live holds of buyer-2, want 9", len(live))
	}
}

// TestListHoldsWhileOthersComeAndGo: a hold that is there all the while is in some page, however the hash that it is in
// grows or shrinks between two of them.
func TestListHoldsWhileOthersComeAndGo(t *testing.T) {
	const steady, others = 100, 1400
	for name, reverse := range map[string]bool{"go": false, "come": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0)
			w.start(false)
			a := w.open(2000, func(a *store.Allotment) { a.HoldDuration = 48 * time.Hour })
			missed := map[store.HoldID]bool{}
			for i := range steady {
				missed[w.hold(a, fmt.Sprint("steady-", i), "r", 1).ID] = true
			}
			come := func() {
				for _, h := range w.buyers(a, others) {
					w.cancel(h)
				}
			}
			leave := func() {
				w.advance(25 * time.Hour)
				w.forget(a)
			}
			between := leave
			if reverse {
				between = come
			} else {
				come()
			}
			for page, pages := "", 0; pages == 0 || page != ""; pages++ {
				holds, next, err := w.at(0).ListHolds(w.ctx(), store.HoldFilter{Allotment: a}, page, 50)
				if err != nil || len(holds) > 50 {
					t.Fatalf("page of %d, %v", len(holds), err)
				}
				for _, h := range holds {
					delete(missed, h.ID)
				}
				if pages == 0 {
					between()
				}
				page = next
			}
			if len(missed) > 0 {
				t.Errorf("%d of %d holds were in no page", len(missed), steady)
			}
		})
	}
}

// TestListHoldsBadPage: a page that ListHolds did not give is the caller's mistake.
func TestListHoldsBadPage(t *testing.T) {
	w := newWorld(t, 1)
	a := w.open(10)
	tag := w.hold(a, "ann", "r", 1).ID.Tag
	for _, page := range []string{
		"1", "0/0", "0/0/0", "0/0/0/" + tag + "/", "-1/0/0/", "+0/0/0/", "00/0/0/", "1/0/0/", "0/-1/0/", "0/x/0/", "0//0/", "0/00/0/",
		"0/18446744073709551616/0/", "0/0/x/" + tag, "0/0/0/x", "0/0/0/\xff", "0/0/0/a\x00", "0/0/0/" + tag[1:], "9223372036854775808/0/0/",
	} {
		_, _, err := w.at(0).ListHolds(w.ctx(), store.HoldFilter{Allotment: a}, page, 10)
		var field *store.InvalidField
		if !errors.As(err, &field) || field.Field != "page_token" {
			t.Errorf("page %q: %v", page, err)
		}
	}
	for _, page := range []string{"0/0/0/" + tag, "0/18446744073709551615/3/" + tag} {
		if _, _, err := w.at(0).ListHolds(w.ctx(), store.HoldFilter{Allotment: a}, page, 10); err != nil {
			t.Errorf("page %q: %v", page, err)
		}
	}
}

// TestWatch: a snapshot first, then changes, until the watcher goes.
func TestWatch(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.open(5), w.open(5)
	ctx, cancel := context.WithTimeout(w.ctx(), patience)
	defer cancel()
	seen := make(chan store.Availability, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- w.at(0).Watch(ctx, []string{a, b, a}, func(av store.Availability) error {
			seen <- av
			return nil
		})
	}()
	next := func() store.Availability {
		select {
		case av := <-seen:
			return av
		case <-time.After(patience):
			t.Fatal("nothing was sent")
			return store.Availability{}
		}
	}
	if first, second := next(), next(); first.Available != 5 || second.Available != 5 || first.Allotment == second.Allotment {
		t.Errorf("snapshots %+v and %+v", first, second)
	}
	h, err := w.tryHold(1, a, "ann", "r", 2)
	if err != nil {
		t.Fatal(err)
	}
	if av := next(); av.Allotment != a || av.Available != 3 || av.Held != 2 {
		t.Errorf("after a hold: %+v", av)
	}
	w.confirm(h, "order-1")
	for av := next(); av.Sold != 2; av = next() { // CONFIRMING may be seen
		if av.Available != 3 {
			t.Errorf("on the way: %+v", av)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// hanging, once it is told to, does not answer for counters until it is freed.
type hanging struct {
	inventory.Redis
	hangs *atomic.Bool
	asked chan struct{}
	freed chan struct{}
}

func (h hanging) Counters(ctx context.Context, places []store.Place) ([]store.Counters, error) {
	if !h.hangs.Load() {
		return h.Redis.Counters(ctx, places)
	}
	select {
	case h.asked <- struct{}{}:
	default:
	}
	<-h.freed
	return h.Redis.Counters(ctx, places)
}

// TestWatchEndsWhileRedisHangs: a watcher that goes does not wait for an answer, let alone for one for each allotment.
func TestWatchEndsWhileRedisHangs(t *testing.T) {
	h := hanging{hangs: new(atomic.Bool), asked: make(chan struct{}, 1), freed: make(chan struct{})}
	w := newWorld(t, 0, withOptions(func(o *inventory.Options) {
		h.Redis = o.Redis
		o.Redis = h
	}))
	w.start(false)
	var ids []string
	for range 3 {
		ids = append(ids, w.open(5))
	}
	ctx, cancel := context.WithCancel(w.ctx())
	ended := make(chan error, 1)
	go func() {
		ended <- w.at(0).Watch(ctx, ids, func(store.Availability) error {
			h.hangs.Store(true)
			return nil
		})
	}()
	<-h.asked
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("still waiting for Redis")
	}
	close(h.freed)
}
