package holds

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
)

func closedRules() store.Rules {
	r := defaultRules()
	r.State = store.StateClosed
	return r
}

// stays checks that Leave does nothing.
func (f *fixture) stays(why string, feed int64) {
	f.t.Helper()
	before := f.dump(f.place.Group)
	if err := f.Leave(f.ctx(), f.place, 1, feed); !errors.Is(err, store.ErrStale) {
		f.t.Errorf("%s: Leave: %v, want ErrStale", why, err)
	}
	f.unchanged(before, f.place.Group, "Leave while "+why)
}

// leaves checks that Leave takes all of the allotment away, and nothing else.
func (f *fixture) leaves(feed int64) {
	f.t.Helper()
	must(f.t, f.Leave(f.ctx(), f.place, 1, feed))
	for where := range f.dump(f.place.Group) {
		if isOf(where, f.place) {
			f.t.Errorf("left over: %s", where)
		}
	}
	if _, found, err := f.Place(f.ctx(), f.place.Allotment); found || err != nil {
		f.t.Errorf("the hint is left over: %v", err)
	}
}

func TestLeave(t *testing.T) {
	t.Parallel()
	f := setup(t, 20)
	second := f.withSecond(5)
	must(t, f.SetPlace(f.ctx(), f.place))
	h := f.hold("buyer", "request", 1)
	f.stays("it is open", 0)
	must(t, f.apply(store.Change{Number: 1, Kind: store.ChangeRules, Rules: closedRules()}))
	f.stays("a hold lives", 1)
	b := f.begin("order", h)
	f.stays("a confirm is under way", 1)
	f.finish(h, soldVerdict(b[0].Hold))
	shrunk := f.shrink("r", 1)
	f.stays("a shrink is under way", 1)
	f.finish(shrunk.Hold, soldVerdict(shrunk.Hold))
	f.stays("what ended is remembered", 1)
	f.advance(retention)
	must(t, f.Purge(f.ctx(), f.place, f.work().Ended))
	f.stays("a change is not applied", 2)
	f.leaves(1)
	f.leaves(1) // nothing there: it does nothing
	adoptNeeded(t, errOf(f.Create(f.ctx(), f.request("a", "request", 1))), f.place)
	f.wantAt(second, "available 5") // another of the group stays
}

// More buckets than one call takes away, with something in each part.
func TestLeaveInParts(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	p := store.Place{Allotment: f.place.Allotment + "-x", Group: f.place.Group, Buckets: 4 * leaveBuckets}
	f.place = f.allotAt(p, 500, func(r *store.Rules) { *r = defaultRules() })
	parts := map[int]bool{}
	for i := 0; len(parts) < 4; i++ {
		buyer := fmt.Sprint("buyer-", i)
		if part := store.NewBuyerKey(p.Allotment, buyer).Bucket(p.Buckets) / leaveBuckets; !parts[part] {
			parts[part] = true
			f.sell(buyer, "request", 1)
		}
	}
	must(t, f.SetPlace(f.ctx(), f.place))
	must(t, f.apply(store.Change{Number: 1, Kind: store.ChangeRules, Rules: closedRules()}))
	f.advance(retention)
	must(t, f.Purge(f.ctx(), f.place, f.work().Ended))
	f.leaves(1)
}

// The state of a server that was before is removed, too: a retired allotment is adopted by nobody. But not
// during an adopt, nor what a newer release wrote, nor what cannot be read.
func TestLeaveOfForeignState(t *testing.T) {
	t.Parallel()
	f := setup(t, 20)
	h := f.hold("buyer", "request", 1)
	must(t, f.SetPlace(f.ctx(), f.place))
	must(t, f.makeForeign())
	f.setField("format", 2)
	f.stays("a newer release wrote it", 0)
	f.setField("format", 1)
	f.adoptBegin(f.place, "claim")
	f.stays("it is being adopted", 0)
	must(t, f.raw.HDel(f.ctx(), base(f.place, "c"), "adopting").Err())
	must(t, f.raw.Del(f.ctx(), markerKey(f.place, h.ID.Tag)).Err()) // which ends by itself
	f.setCounter("epoch", 2)
	f.stays("it was reopened since", 0)
	f.setCounter("epoch", 1)
	f.adoptBegin(f.place, "claim")
	f.stays("it is being adopted", 0)
	f.advance(lease) // its replica has met the retirement
	f.leaves(0)

	must(t, f.retype(base(f.place, "c")))
	f.stays("its counters are of another type", 0)
	must(t, f.raw.Del(f.ctx(), base(f.place, "c")).Err())
}

// An adopt whose lease is out may go on while nobody takes it over. What leaves in several calls it must not put in force, half gone.
func TestLeaveEndsAClaim(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	p := store.Place{Allotment: f.place.Allotment + "-x", Group: f.place.Group, Buckets: 2 * leaveBuckets}
	f.place = f.allotAt(p, 500, func(r *store.Rules) { *r = defaultRules() })
	f.adoptBegin(f.place, "claim")
	f.advance(lease)
	must(t, f.leave(f.ctx(), f.place, 1, 0, 0, leaveBuckets))
	if err := f.AdoptReset(f.ctx(), f.place, "claim"); !errors.Is(err, store.ErrStale) {
		t.Errorf("a step of the adopt: %v, want ErrStale", err)
	}
	if _, err := f.Counters(f.ctx(), []store.Place{f.place}); err == nil {
		t.Error("in force, half gone")
	}
	f.leaves(0)
}
