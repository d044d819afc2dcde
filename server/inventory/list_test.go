package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	_, _, err = w.at(0).ListHolds(w.ctx(), store.HoldFilter{Allotment: a}, "1/2", 10)
	var field *store.InvalidField
	if !errors.As(err, &field) || field.Field != "page_token" {
		t.Errorf("a bad page: %v", err)
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
