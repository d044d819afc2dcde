package ledger

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// fullRules has no field at its zero value.
func fullRules() store.Rules {
	opens := time.Date(2026, 12, 1, 9, 0, 0, 123456789, time.FixedZone("", 3600))
	return store.Rules{
		State: store.StatePaused, LateConfirm: store.LateReject, HoldDuration: 90 * time.Second, MaxHoldDuration: 5 * time.Minute,
		MaxPerHold: 4, MaxPerBuyer: 6, OpensAt: opens, ClosesAt: opens.Add(time.Hour),
	}
}

// asStored is r with times as the ledger keeps them.
func asStored(r store.Rules) store.Rules {
	r.OpensAt, r.ClosesAt = stored(r.OpensAt), stored(r.ClosesAt)
	return r
}

func TestCreateAllotment(t *testing.T) {
	t.Parallel()
	f := setupAt(t, storetest.MigratedDatabase(t, Migrate))
	asked := newAllotment("concert", 500)
	asked.Group, asked.Rules = "tour", fullRules()
	a, err := f.CreateAllotment(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	want := asked
	want.Rules, want.Version, want.CreateTime, want.UpdateTime = asStored(asked.Rules), 1, a.CreateTime, a.UpdateTime
	want.LongestHold = asked.HoldDuration
	if diff := cmp.Diff(want, a); diff != "" || a.CreateTime.IsZero() {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(a, f.allotment("concert")); diff != "" {
		t.Errorf("read (-created +read):\n%s", diff)
	}
	again, err := f.CreateAllotment(t.Context(), asked)
	if diff := cmp.Diff(a, again); diff != "" || err != nil {
		t.Errorf("again: %v (-first +again):\n%s", err, diff)
	}
	for name, change := range map[string]func(*store.Allotment){
		"group":    func(a *store.Allotment) { a.Group = "concert" },
		"capacity": func(a *store.Allotment) { a.Capacity++ },
		"rules":    func(a *store.Allotment) { a.MaxPerBuyer++ },
	} {
		differing := asked
		change(&differing)
		_, err := f.CreateAllotment(t.Context(), differing)
		if r := store.Refused(err, store.AllotmentExists); r == nil || r.Allotment != "concert" || r.Field != name {
			t.Errorf("other %s: %v, want AllotmentExists", name, err)
		}
	}
	if diff := cmp.Diff(a, f.allotment("concert")); diff != "" {
		t.Errorf("after refusals:\n%s", diff)
	}
}

// TestCreateAgainAfterChanges: a client's late repeat of its create is still the same request.
func TestCreateAgainAfterChanges(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	a := f.allotment(show)
	if _, _, err := f.Grow(t.Context(), store.Adjustment{Allotment: show, RequestID: "g", Delta: 5}); err != nil {
		t.Fatal(err)
	}
	changed, err := f.UpdateRules(t.Context(), show, a.Version+1, fullRules())
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.CreateAllotment(t.Context(), newAllotment(show, 10))
	if diff := cmp.Diff(changed, again); diff != "" || err != nil {
		t.Errorf("again: %v (-now +again):\n%s", err, diff)
	}
}

func TestCreateAtOnce(t *testing.T) {
	t.Parallel()
	f := setupAt(t, storetest.MigratedDatabase(t, Migrate))
	var mu sync.Mutex
	created := map[int64]int{} // capacity answered
	each(40, func(i int) {
		a, err := f.CreateAllotment(t.Context(), newAllotment("x", int64(10+i%2)))
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			created[a.Capacity]++
		} else if store.Refused(err, store.AllotmentExists) == nil {
			t.Error(err)
		}
	})
	if len(created) != 1 || created[f.allotment("x").Capacity] != 20 {
		t.Errorf("created %v, want one content, 20 times", created)
	}
}

func TestAllotmentNotFound(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Allotment":   func() error { _, err := f.Allotment(ctx, "none"); return err },
		"UpdateRules": func() error { _, err := f.UpdateRules(ctx, "none", 1, rules()); return err },
		"Grow": func() error {
			_, _, err := f.Grow(ctx, store.Adjustment{Allotment: "none", RequestID: "r", Delta: 1})
			return err
		},
		"RaiseEpoch": func() error { _, _, err := f.RaiseEpoch(ctx, "none", 0, 0, 0); return err },
		"Pause":      func() error { _, err := f.Pause(ctx, "none", 0); return err },
		"Retire":     func() error { return f.Retire(ctx, "none", 0) },
		"Applied":    func() error { return f.Applied(ctx, "none", 0, 0) },
	} {
		if err := call(); store.Refused(err, store.AllotmentNotFound) == nil {
			t.Errorf("%s: %v, want AllotmentNotFound", name, err)
		}
	}
}

func TestListAllotments(t *testing.T) {
	t.Parallel()
	f := setupAt(t, storetest.MigratedDatabase(t, Migrate))
	ids := []string{"a", "a-1", "a0", "b", "b-b", "c"} // in the order of their bytes, which no locale has
	for _, i := range []int{3, 0, 5, 1, 4, 2} {
		if _, err := f.CreateAllotment(t.Context(), newAllotment(ids[i], 1)); err != nil {
			t.Fatal(err)
		}
	}
	f.wantPages("all", ids, f.ListAllotments)
	f.exec(f.connect(), `update allotments set state = 3, retired_at = case when id = 'a0' then now() - interval '2 days' else now() end
		where id in ('a0', 'b')`)
	f.wantPages("in Redis", []string{"a", "a-1", "b", "b-b", "c"}, func(ctx context.Context, after string, limit int) ([]store.Allotment, error) {
		return f.InRedis(ctx, time.Now().Add(-24*time.Hour), after, limit)
	})
}

// TestManyRetired: to find those that Redis may have takes no more among many that were retired long ago.
func TestManyRetired(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	conn := f.connect()
	f.exec(conn, `insert into allotments (id, group_id, buckets, capacity, state, late_confirm, hold_duration_ms, max_hold_duration_ms,
			max_per_hold, max_per_buyer, created, longest_hold_ms, retired_at)
		select 'old-' || n, 'old-' || n, buckets, capacity, 3, late_confirm, hold_duration_ms, max_hold_duration_ms, max_per_hold, max_per_buyer,
			created, longest_hold_ms, now() - interval '2 days' from allotments, generate_series(1, 20000) n where id = $1`, show)
	f.exec(conn, `analyze allotments`)
	f.exec(conn, `set enable_seqscan = off`)                 // as every transaction does
	f.exec(conn, `set plan_cache_mode = force_generic_plan`) // which is made without the values, and may be taken
	var plans []struct {
		Plan struct {
			Rows   float64 `json:"Actual Rows"`
			Blocks int     `json:"Shared Hit Blocks"`
		}
	}
	f.exec(conn, `prepare look as `+selectInRedis)
	err := conn.QueryRow(t.Context(), `explain (analyze, buffers, format json) execute look('', now() - interval '1 day', 1000)`).Scan(&plans)
	if err != nil {
		t.Fatal(err)
	}
	if p := plans[0].Plan; p.Rows != 1 || p.Blocks > 50 {
		t.Errorf("%v rows, by reading %d blocks", p.Rows, p.Blocks)
	}
}

// wantPages reads a list of allotments, two at a time.
func (f *fixture) wantPages(name string, want []string, list func(context.Context, string, int) ([]store.Allotment, error)) {
	f.t.Helper()
	var got []string
	for after := ""; ; after = got[len(got)-1] {
		page, err := list(f.t.Context(), after, 2)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, a := range page {
			got = append(got, a.Allotment)
		}
		if len(page) < 2 {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
