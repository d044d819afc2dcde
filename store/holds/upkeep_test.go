package holds

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestDue(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	second := f.withSecond(10)
	var lapsing []store.Hold
	for i := range 5 {
		lapsing = append(lapsing, f.hold(fmt.Sprint(i), "request", 1))
		f.advance(time.Second)
	}
	confirming := f.hold("confirming", "request", 1)
	f.begin("order", confirming)
	ended := f.cancel(f.hold("ended", "request", 1))
	f.advance(retention)
	live := f.hold("live", "request", 1)

	work, err := f.Due(f.ctx(), []store.Place{second, f.place}, 3)
	must(t, err)
	if w := work[0]; w.Place != second || len(w.Lapsed)+len(w.Confirms)+len(w.Ended) != 0 {
		t.Errorf("work at an allotment without any: %+v", w)
	}
	w := work[1]
	if diff := cmp.Diff(ids(lapsing[:3]), w.Lapsed); diff != "" {
		t.Errorf("lapsed, the first three (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ids([]store.Hold{confirming}), w.Confirms); diff != "" {
		t.Errorf("confirms (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ids([]store.Hold{ended}), w.Ended); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
	if w.Remembered != 1 || work[0].Remembered != 0 {
		t.Errorf("remembered %d and %d, want 1 and 0", w.Remembered, work[0].Remembered)
	}
	if w.Held != 6 || w.Confirming != 1 || w.Capacity != 100 || w.Off() != 0 {
		t.Errorf("counters %+v", w.Counters)
	}
	if info := f.raw.Info(f.ctx(), "replication").Val(); !strings.Contains(info, "master_replid:"+w.Server) || len(w.Server) != identityBytes {
		t.Errorf("the server is %q", w.Server)
	}
	s := f.mustState()
	if noted := time.UnixMilli(s.counters["time"]); !near(noted.Sub(f.now()), 0, patience) {
		t.Errorf("noted the time %v, it is %v", noted, f.now())
	}
	if got := f.get(live); got.State != store.Held {
		t.Errorf("state %d", got.State)
	}
}

// S20: five replicas release the same 1,000 lapsed holds at once; each unit comes back once.
func TestConcurrentReleases(t *testing.T) {
	t.Parallel()
	const n = 1000
	f := setup(t, n)
	f.fill(n, func(i int) (string, string) { return fmt.Sprint(i), "request" })
	var holds []store.Hold
	for i := range n {
		holds = append(holds, store.Hold{ID: store.NewHoldID(f.place.Allotment, fmt.Sprint(i), "request")})
	}
	if got := f.release(holds...); got != 0 {
		t.Fatalf("released %d before the deadline", got)
	}
	f.advance(holdTime)
	replicas := []*fixture{f, f.another(), f.another(), f.another(), f.another()}
	var released atomic.Int64
	storetest.Together(len(replicas), func(i int) {
		got, err := replicas[i].Release(f.ctx(), f.place, ids(holds), store.LapseByEvent)
		if err != nil {
			t.Errorf("Release: %v", err)
		}
		released.Add(int64(got))
	})
	if released.Load() != n {
		t.Errorf("%d holds were released, want each of the %d once", released.Load(), n)
	}
	f.want("available 1000, held 0")
}

func TestRelease(t *testing.T) {
	t.Parallel()
	f := setup(t, 20)
	all := f.ended()
	live := f.hold("live", "request", 1)
	if n := f.release(all["due"], all["due"]); n != 1 { // twice in one call
		t.Errorf("released %d, want 1", n)
	}
	before := f.dump(f.place.Group)
	if n := f.release(all["due"], all["lapsed"], all["cancelled"], all["sold"], all["confirming"], all["unknown"], all["shrink"], live); n != 0 {
		t.Errorf("released %d of those that are not due", n)
	}
	f.unchanged(before, f.place.Group, "a release of what is not due")
	if got := f.get(all["due"]); got.State != store.Lapsed {
		t.Errorf("state %d", got.State)
	}
}

// An index that says otherwise than the records is mended, lest its entries be met for ever.
func TestReleaseMendsTheIndex(t *testing.T) {
	t.Parallel()
	f := setup(t, 20)
	all := f.ended()
	live := f.hold("live", "request", 1)
	for _, name := range []string{"lapsed", "cancelled", "sold", "unknown", "confirming", "shrink"} {
		f.index("d", all[name], "1")
	}
	f.index("d", live, "1")                                          // with a deadline that is not its own
	must(t, f.raw.ZAdd(f.ctx(), base(f.place, "d"), z("odd")).Err()) // what is no tag at all
	c := f.counters(f.place)[0]                                      // which releases until nothing is due
	if c.Held != 1 || !c.NextLapse.Equal(live.ExpireTime) {
		t.Errorf("counters %+v, want the live hold's deadline %v", c, live.ExpireTime)
	}
	if w := f.work(); len(w.Lapsed) != 0 {
		t.Errorf("still due: %v", w.Lapsed)
	}
}

// A lapsed hold whose record is gone, or damaged, is met once and said to be lost; no other waits for it.
func TestReleaseOfDamaged(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	gone, bad, good := f.hold("gone", "request", 1), f.hold("bad", "request", 1), f.hold("good", "request", 1)
	spoilt := f.hold("spoilt", "request", 1)
	f.damageRecord(bad.ID, "rubbish")
	f.removeRecord(f.place, gone.ID)
	f.damageBuyer("spoilt", "rubbish")
	f.advance(holdTime)
	var told atomic.Int64
	f.OnDamage(func(p store.Place) {
		if p == f.place {
			told.Add(1)
		}
	})
	if n := f.release(gone, bad, good, spoilt); n != 1 {
		t.Errorf("released %d, want the good one", n)
	}
	if got := f.logs.count("record is damaged"); got != 3 || told.Load() != 3 {
		t.Errorf("logged %d damaged holds and told of %d, want 3:\n%s", got, told.Load(), f.logs)
	}
	if w := f.work(); len(w.Lapsed) != 0 {
		t.Errorf("still due: %v", w.Lapsed)
	}
	f.want("available 7, held 3")
	_, err := f.Create(f.ctx(), f.request("x", "request", 8))
	refusal(t, err, store.AllHeld)
	f.broken()
}

func TestPurge(t *testing.T) {
	t.Parallel()
	f := setup(t, 20)
	all := f.ended()
	live := f.hold("live", "request", 1)
	f.release(all["due"])
	names := []string{"due", "lapsed", "cancelled", "sold"}
	var holds []store.Hold
	for _, name := range names {
		holds = append(holds, all[name])
	}
	f.advance(retention - patience) // ended just now
	before := f.dump(f.place.Group)
	must(t, f.Purge(f.ctx(), f.place, ids(holds)))
	f.unchanged(before, f.place.Group, "a purge too early")
	for i, h := range holds {
		if got := f.get(h); got.BuyerID == "" {
			t.Errorf("%s is not readable", names[i])
		}
	}
	f.advance(2*holdTime + patience)
	others := append(slices.Clone(holds), all["confirming"], all["shrink"], live, all["unknown"])
	if got := f.work().Ended; len(got) != len(holds) {
		t.Errorf("%d are to be purged, want %d", len(got), len(holds))
	}
	must(t, f.Purge(f.ctx(), f.place, ids(others)))
	for i, h := range holds {
		_, err := f.Get(f.ctx(), f.placed(h))
		if store.Refused(err, store.HoldNotFound) == nil {
			t.Errorf("%s: %v, want HOLD_NOT_FOUND", names[i], err)
		}
	}
	if got := f.get(all["confirming"]); got.State != store.Confirming {
		t.Errorf("a confirm was purged: %+v", got)
	}
	if b, _ := f.buyer("sold"); b.sold != 1 {
		t.Errorf("the buyer's total went with the record: %+v", b)
	}
	before = f.dump(f.place.Group)
	must(t, f.Purge(f.ctx(), f.place, ids(others)))
	f.unchanged(before, f.place.Group, "a repeat")
}

// Whatever meets damage tells of it, so that the allotment is adopted: a confirm that began must end.
func TestDamageIsTold(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.begin("order", f.hold("buyer", "request", 1))[0].Hold
	f.damageBuyer("buyer", "rubbish")
	var told atomic.Int64
	f.OnDamage(func(p store.Place) {
		if p == f.place {
			told.Add(1)
		}
	})
	for name, err := range map[string]error{
		"Create": errOf(f.Create(f.ctx(), f.request("buyer", "other", 1))),
		"Get":    errOf(f.Get(f.ctx(), f.placed(h))),
		"Cancel": errOf(f.Cancel(f.ctx(), f.placed(h))),
		"Extend": errOf(f.Extend(f.ctx(), f.placed(h))),
		"Begin":  errOf(f.Begin(f.ctx(), f.beginRequest("order", h))),
		"Finish": f.Finish(f.ctx(), []store.FinishLine{f.finishLine(h, soldVerdict(h))}),
	} {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
	}
	if n := told.Load(); n != 6 {
		t.Errorf("told %d times of 6 calls that met damage", n)
	}
	f.broken()
}

// Entries of the index without an ended hold, and damaged records, go too.
func TestPurgeMendsTheIndex(t *testing.T) {
	t.Parallel()
	f := setup(t, 20)
	live := f.hold("live", "request", 1)
	bad := f.cancel(f.hold("live", "second", 1))
	f.damageRecord(bad.ID, "rubbish")
	f.index("e", live, "1")
	f.index("e", bad, "1")
	f.index("e", store.Hold{ID: store.NewHoldID(f.place.Allotment, "no", "body")}, "1")
	must(t, f.raw.ZAdd(f.ctx(), base(f.place, "e"), z("odd")).Err())
	w := f.work()
	if len(w.Ended) != 4 {
		t.Errorf("to be purged: %v", w.Ended)
	}
	must(t, f.Purge(f.ctx(), f.place, w.Ended))
	if w := f.work(); len(w.Ended) != 0 {
		t.Errorf("still to be purged: %v", w.Ended)
	}
	if got := f.get(live); got.State != store.Held {
		t.Errorf("a live hold was purged: %+v", got)
	}
	_, err := f.Get(f.ctx(), f.placed(bad))
	refusal(t, err, store.HoldNotFound)
}
