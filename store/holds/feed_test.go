package holds

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func grow(number, units int64) store.Change {
	return store.Change{Number: number, Kind: store.ChangeGrow, Quantity: units}
}

func cancelled(number, units int64, buyer string) store.Change {
	return store.Change{Number: number, Kind: store.ChangeCancel, Quantity: units, BuyerID: buyer}
}

func (f *fixture) wantFeed(epoch, feed int64, changes ...store.Change) {
	f.t.Helper()
	gotEpoch, got, err := f.Apply(f.ctx(), f.place, changes)
	if err != nil || gotEpoch != epoch || got != feed {
		f.t.Errorf("Apply(%v): epoch %d, feed %d, %v; want %d and %d", changes, gotEpoch, got, err, epoch, feed)
	}
}

func TestFeed(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	f.sell("buyer", "request", 4)
	f.wantFeed(1, 1, grow(1, 5))
	f.want("capacity 15, available 11, sold 4, feed 1")
	f.wantFeed(1, 3, cancelled(2, 3, "buyer"), grow(3, 1))
	f.want("capacity 16, available 15, sold 1, feed 3")
	if b, _ := f.buyer("buyer"); b.sold != 1 {
		t.Errorf("buyer %+v", b)
	}
	before := f.dump(f.place.Group)
	f.wantFeed(1, 3, cancelled(2, 3, "buyer"), grow(3, 1)) // repeats
	f.wantFeed(1, 3, grow(1, 5))
	f.unchanged(before, f.place.Group, "repeats")
	f.wantFeed(1, 4, grow(2, 9), grow(3, 9), grow(4, 1)) // some of them repeats
	f.want("capacity 17, available 16, sold 1")
	f.wantFeed(1, 5, cancelled(5, 1, "buyer"))
	if b, ok := f.buyer("buyer"); ok {
		t.Errorf("the entry of a buyer with nothing is kept: %+v", b)
	}
}

// Exactly the next number: whatever comes after a gap waits for it.
func TestFeedGap(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	before := f.dump(f.place.Group)
	f.wantFeed(1, 0, grow(2, 1))
	f.wantFeed(1, 0, grow(1000, 1), grow(1001, 1))
	f.wantFeed(1, 0, grow(3, 1), grow(2, 1))
	f.unchanged(before, f.place.Group, "changes after a gap")
	f.wantFeed(1, 1, grow(1, 1), grow(3, 1), grow(4, 1))
	f.want("capacity 11, feed 1")
	f.wantFeed(1, 2, grow(3, 1), grow(2, 1), grow(4, 1)) // out of order: the next comes later
	f.want("capacity 12, feed 2")
}

func TestFeedRules(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	now := time.Now().Truncate(time.Millisecond).UTC()
	rules := store.Rules{
		State: store.StatePaused, LateConfirm: store.LateReject, HoldDuration: 7 * time.Second, MaxHoldDuration: 9 * time.Second,
		MaxPerHold: 3, MaxPerBuyer: 5, OpensAt: now.Add(time.Hour), ClosesAt: now.Add(2 * time.Hour),
	}
	f.wantFeed(1, 1, store.Change{Number: 1, Kind: store.ChangeRules, Rules: rules})
	s := f.mustState()
	for name, want := range map[string]int64{
		"state": 2, "late": 2, "hold": 7000, "longest": 9000, "perhold": 3, "perbuyer": 5,
		"opens": rules.OpensAt.UnixMilli(), "closes": rules.ClosesAt.UnixMilli(), "capacity": 100, "available": 100, "version": 2,
	} {
		if s.counters[name] != want {
			t.Errorf("%s is %d, want %d", name, s.counters[name], want)
		}
	}
	if c := f.counters(f.place)[0]; c.State != store.StatePaused {
		t.Errorf("state %d", c.State)
	}
	// In force within the same call.
	rules = defaultRules()
	rules.MaxPerHold = 2
	f.wantFeed(1, 3, store.Change{Number: 2, Kind: store.ChangeRules, Rules: rules}, grow(3, 1))
	_, err := f.Create(f.ctx(), f.request("a", "request", 3))
	invalidField(t, err, "quantity")
	f.hold("a", "request", 2)
}

// A change of a kind that this release does not know is not applied, and not taken for another.
func TestFeedUnknownKind(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	before := f.dump(f.place.Group)
	f.wantFeed(1, 0, store.Change{Number: 1, Kind: 4, Quantity: 5}, grow(2, 1))
	f.unchanged(before, f.place.Group, "an unknown change")
}

// A buyer's damaged entry stops the feed there, so that it is adopted.
func TestFeedWithDamage(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	f.sell("buyer", "request", 4)
	f.damageBuyer("buyer", "rubbish")
	before := f.dump(f.place.Group)
	f.wantFeed(1, 0, cancelled(1, 1, "buyer"), grow(2, 1))
	f.unchanged(before, f.place.Group, "a change for a damaged entry")
	f.broken()
}

// Many replicas apply the same rows at once.
func TestConcurrentFeeds(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	replicas := []*fixture{f, f.another(), f.another()}
	storetest.Together(12, func(i int) {
		for n := int64(1); n <= 20; n++ {
			_, feed, err := replicas[i%3].Apply(f.ctx(), f.place, []store.Change{grow(n, 1), grow(n+1, 1)})
			if err != nil || feed < n {
				t.Errorf("Apply(%d): feed %d, %v", n, feed, err)
			}
		}
	})
	f.want("feed 21, capacity 31, available 31")
}

func TestFeedWhileAdopting(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	f.adoptBegin(f.place, "claim")
	_, _, err := f.Apply(f.ctx(), f.place, []store.Change{grow(1, 1)})
	adoptNeeded(t, err, f.place)
	if errors.Is(err, store.ErrUnavailable) {
		t.Error("trouble")
	}
	f.broken()
}
