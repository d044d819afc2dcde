package holds

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// walk reads all buckets, several at a time, as the use cases do.
func (f *fixture) walk(claim string) (all store.Part) {
	f.t.Helper()
	buckets, cursors := []int{}, []string{}
	for i := range f.place.Buckets {
		buckets, cursors = append(buckets, i), append(cursors, "")
	}
	for len(buckets) > 0 {
		parts, err := f.Scan(f.ctx(), f.place, claim, buckets, cursors)
		must(f.t, err)
		var next []int
		cursors = nil
		for i, p := range parts {
			all.Records = append(all.Records, p.Records...)
			all.Buyers = append(all.Buyers, p.Buyers...)
			all.Damaged = append(all.Damaged, p.Damaged...)
			all.DamagedBuyers = append(all.DamagedBuyers, p.DamagedBuyers...)
			if p.Next != "" {
				next, cursors = append(next, buckets[i]), append(cursors, p.Next)
			}
		}
		buckets = next
	}
	return all
}

// A walk finds each hold, in the state that is stored, and each buyer; also in hashes that Redis no
// longer keeps in their compact form.
func TestScan(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"few": 20, "many": 1200} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 512)
			if name == "many" {
				f.place = f.allotAt(store.Place{Allotment: f.place.Allotment + "-x", Group: f.place.Group, Buckets: 1}, int64(n))
			}
			f.fill(n, func(i int) (string, string) { return fmt.Sprint("buyer-", i%7), fmt.Sprint("request-", i) })
			f.advance(holdTime) // all are due
			all := f.walk("")
			tags := map[string]bool{}
			for _, r := range all.Records {
				tags[r.ID.Tag] = true
				if r.State != store.Held || !r.Index.Equal(r.ExpireTime) || r.ID != store.NewHoldID(f.place.Allotment, r.BuyerID, r.RequestID) {
					t.Fatalf("record %+v", r)
				}
			}
			if len(tags) != n || len(all.Damaged) != 0 {
				t.Errorf("%d holds, damaged %v, want %d", len(tags), all.Damaged, n)
			}
			var held, live int64
			for _, b := range f.walk("").Buyers {
				held, live = held+b.Held, live+b.Live
			}
			if held != int64(n) || live != int64(n) {
				t.Errorf("the buyers hold %d in %d holds, want %d", held, live, n)
			}
		})
	}
}

// Hashes that are not there are not looked at one by one: a huge allotment has tens of thousands.
func TestScanOfNothing(t *testing.T) {
	t.Parallel()
	f := &fixture{t: t, clock: new(atomic.Int64)}
	f.place = store.Place{Allotment: "huge", Group: "huge", Buckets: 512}
	f.open(onRedis(storetest.NewRedis(t, local.RedisOptions{}).URL()))
	f.adopt(newAllotment(f.place, 512), 1)
	if all := f.walk(""); !reflect.DeepEqual(all, store.Part{}) {
		t.Errorf("found %+v", all)
	}
	stats, err := f.raw.Info(f.ctx(), "commandstats").Result()
	must(t, err)
	if strings.Contains(stats, "cmdstat_hscan:") {
		t.Error("each hash is walked")
	}
	f.hold("buyer", "request", 1)
	if all := f.walk(""); len(all.Records) != 1 || len(all.Buyers) != 1 {
		t.Errorf("found %+v, want a hold and its buyer", all)
	}
}

// What cannot be read is named; a walk for an adopt removes it, any other leaves it alone.
func TestScanOfDamaged(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	var holds []store.Hold
	for i := range 40 {
		holds = append(holds, f.hold(fmt.Sprint(i), "request", 1))
	}
	bad, cart := f.hold("0", "second", 1), f.hold("1", "second", 1)
	f.damageRecord(bad.ID, "rubbish")
	f.damageRecord(cart.ID, f.packed(`{2, 1, 1, 1, 5, 5, "b", "r", "", "o", 1, 5, "no hold id", 0, 1}`))
	f.damageBuyer("2", "rubbish")
	gone := 0
	for spared := []store.HoldID{bad.ID, cart.ID, holds[2].ID}; slices.ContainsFunc(spared, func(id store.HoldID) bool {
		return id.Bucket(f.place.Buckets) == gone
	}); {
		gone++
	}
	must(t, f.retype(holdsKey(f.place, gone)))
	must(t, f.raw.HSet(f.ctx(), holdsKey(f.place, bad.ID.Bucket(f.place.Buckets)), "odd", "rubbish").Err())
	want := []string{"*", "?odd", bad.ID.Tag, cart.ID.Tag}
	slices.Sort(want)

	before := f.dump(f.place.Group)
	all := f.walk("")
	slices.Sort(all.Damaged)
	if diff := cmp.Diff(want, all.Damaged); diff != "" {
		t.Errorf("damaged (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]store.BuyerKey{f.buyerKey("2")}, all.DamagedBuyers); diff != "" {
		t.Errorf("damaged buyers (-want +got):\n%s", diff)
	}
	f.unchanged(before, f.place.Group, "a walk")

	f.adoptBegin(f.place, "claim")
	all = f.walk("claim")
	slices.Sort(all.Damaged)
	if diff := cmp.Diff(want, all.Damaged); diff != "" {
		t.Errorf("damaged (-want +got):\n%s", diff)
	}
	var left []store.Record
	left = append(left, all.Records...)
	f.rebuild("claim", 2, 1, left, f.buyersOf(left, nil), store.Counters{Capacity: 100, Available: 100 - int64(len(left)), Held: int64(len(left))})
	if again := f.walk(""); len(again.Records) != len(left) || !slices.Equal(again.Damaged, []string{cart.ID.Tag}) {
		t.Errorf("after the adopt: %d records, damaged %v; want %d", len(again.Records), again.Damaged, len(left))
	}
	if again := f.hold(holds[3].BuyerID, "new", 1); again.Token.Epoch != 2 {
		t.Errorf("a new hold: %+v", again)
	}
	f.removeRecord(f.place, cart.ID)
}

// packed is a Lua table as a script would store it.
func (f *fixture) packed(table string) string {
	f.t.Helper()
	text, err := f.raw.Eval(f.ctx(), "return cmsgpack.pack("+table+")", nil).Text()
	must(f.t, err)
	return text
}

// A record that has all its places but no sense in them is damage, not a script's failure.
func TestInsaneRecords(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	f.hold("other", "request", 1)
	h := f.hold("buyer", "request", 1)
	for _, table := range []string{
		`{}`, `{1}`, `{1, 1, 1, 1, 5, 5, "b"}`, `{1, "1", 1, 1, 5, 5, "b", "r"}`, `{1, 0/0, 1, 1, 5, 5, "b", "r"}`,
		`{1, 1/0, 1, 1, 5, 5, "b", "r"}`, `{1, 1.5, 1, 1, 5, 5, "b", "r"}`, `{1, -1, 1, 1, 5, 5, "b", "r"}`,
		`{0, 1, 1, 1, 5, 5, "b", "r"}`, `{6, 1, 1, 1, 5, 5, "b", "r"}`, `{1, 1, 1, 1, 5, 5, 7, "r"}`, `{1, 1, 1, 1, 5, 5, "b", "r", 7}`,
		`{2, 1, 1, 1, 5, 5, "b", "r"}`, `{3, 1, 1, 1, 5, 5, "b", "r"}`, `{2, 1, 1, 1, 5, 5, "b", "r", "", "o", 1, 5, "", 0}`,
		`{2, 1, 1, 1, 5, 5, "b", "r", "", "o", 1, 5, 7, 0, 1}`, `{2, 1, 1, 1, 5, 5, "b", "r", "", 7, 1, 5, "", 0, 1}`,
		`{2, 1, 1, 1, 5, 5, "b", "r", "", "o", 1, "5", "", 0, 1}`, `7`, `"text"`, `{a = 1}`, `{1, 1e300, 1, 1, 5, 5, "b", "r"}`,
	} {
		f.damageRecord(h.ID, f.packed(table))
		before := f.dump(f.place.Group)
		for name, err := range map[string]error{
			"Get":    errOf(f.Get(f.ctx(), f.placed(h))),
			"Create": errOf(f.Create(f.ctx(), f.request("buyer", "request", 1))),
			"Extend": errOf(f.Extend(f.ctx(), f.placed(h))),
			"Cancel": errOf(f.Cancel(f.ctx(), f.placed(h))),
			"Begin":  errOf(f.Begin(f.ctx(), f.beginRequest("o", h))),
			"Finish": f.Finish(f.ctx(), []store.FinishLine{f.finishLine(h, store.Verdict{Kind: store.VerdictSold})}),
		} {
			if !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s of %s: %v, want ErrUnavailable", name, table, err)
			}
		}
		f.unchanged(before, f.place.Group, "calls on the record "+table)
	}
	f.damageRecord(h.ID, f.packed(`{2, 1, 1, 1, 5, 5, "b", "r", "", "o", 1, 5, "no hold id", 0, 1}`))
	if err := errOf(f.Get(f.ctx(), f.placed(h))); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Get of a cart's hold without ids: %v, want ErrUnavailable", err)
	}
	if n := f.logs.count("a script failed"); n != 0 {
		t.Errorf("%d scripts failed:\n%s", n, f.logs)
	}
	f.broken()
}
