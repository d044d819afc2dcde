package holds

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestCreateGrants(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	before := f.now()
	h := f.hold("buyer", "request", 3)
	if h.CreateTime.Before(before.Truncate(time.Millisecond)) || h.CreateTime.After(f.now()) {
		t.Errorf("created at %v, now is %v", h.CreateTime, f.now())
	}
	want := store.Hold{
		ID: store.NewHoldID(f.place.Allotment, "buyer", "request"), BuyerID: "buyer", RequestID: "request", Quantity: 3,
		State: store.Held, Token: store.Token{Epoch: 1, Sequence: 1}, CreateTime: h.CreateTime,
		ExpireTime: h.CreateTime.Add(holdTime), Remaining: holdTime,
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("hold (-want +got):\n%s", diff)
	}
	if again := f.hold("buyer", "second", 2); again.Token.Sequence != 2 {
		t.Errorf("the second hold's sequence is %d, want 2", again.Token.Sequence)
	}
	f.want("capacity 10, available 5, held 5, sequence 2, version 3")
	if s := f.mustState(); !s.markers[packTag(h.ID.Tag)] {
		t.Error("a hold has no marker")
	}
	ttl := f.raw.PTTL(f.ctx(), markerKey(f.place, h.ID.Tag)).Val()
	if ttl > holdTime || ttl < holdTime-patience {
		t.Errorf("the marker lasts %v, want %v", ttl, holdTime)
	}
}

// A buyer's and a request's id may be anything printable, UUIDs are kept in short.
func TestCreateKeepsIDs(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	for _, id := range []string{
		"x", "2B0D7B3D-30A0-4EE4-B2F3-5D4D9AE43B43", "2b0d7b3d-30a0-4ee4-b2f3-5d4d9ae43b43", "Zoë 注文 🎫",
		"zzzzzzzz-zzzz-zzzz-zzzz-zzzzzzzzzzzz", "-1", "1e5", " ", "a b", "|#",
		"2b0d7b3d-30a0-4ee4-b2f3-5d4d9ae43b4", "02b0d7b3d-30a0-4ee4-b2f3-5d4d9ae43b43",
	} {
		h := f.hold(id, id, 1)
		if got := f.get(h); got.BuyerID != id || got.RequestID != id {
			t.Errorf("ids %q came back as %q and %q", id, got.BuyerID, got.RequestID)
		}
	}
}

func TestCreateRepeat(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	first := f.hold("buyer", "request", 3)
	f.advance(10 * second)
	before := f.dump(f.place.Group)
	for range 3 {
		again := f.hold("buyer", "request", 3)
		if again.ID != first.ID || again.Token != first.Token || !again.ExpireTime.Equal(first.ExpireTime) {
			t.Errorf("a repeat got another hold: %+v, first %+v", again, first)
		}
		if left := holdTime - 10*second; again.Remaining > left || again.Remaining < left-patience {
			t.Errorf("remaining is %v, want %v less what the test took", again.Remaining, left)
		}
	}
	_, err := f.Create(f.ctx(), f.request("buyer", "request", 4))
	no := refusal(t, err, store.RequestMismatch)
	if no.HoldID != first.ID.String() || no.Field != "quantity" {
		t.Errorf("mismatch names hold %s and field %s", no.HoldID, no.Field)
	}
	f.unchanged(before, f.place.Group, "a repeat")
}

// A repeat gets the hold as it is now, whatever became of it, and takes nothing.
func TestCreateRepeatOfEnded(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	cancelled := f.hold("a", "request", 1)
	f.cancel(cancelled)
	lapsed := f.hold("b", "request", 1)
	f.advance(holdTime)
	due := f.hold("b", "request", 1) // its deadline has passed; nobody has noticed
	if due.State != store.Lapsed || due.Remaining != 0 {
		t.Errorf("a hold at its deadline is %d with %v left", due.State, due.Remaining)
	}
	f.release(lapsed)
	sold := f.sell("c", "request", 1)
	confirming := f.hold("d", "request", 1)
	f.begin("order", confirming)
	before := f.dump(f.place.Group)
	for buyer, want := range map[string]store.HoldState{
		"a": store.Cancelled, "b": store.Lapsed, "c": store.Sold, "d": store.Confirming,
	} {
		if got := f.hold(buyer, "request", 1); got.State != want {
			t.Errorf("buyer %s: the repeat's hold is in state %d, want %d", buyer, got.State, want)
		}
	}
	if got := f.hold("c", "request", 1); got.OrderID != sold.OrderID {
		t.Errorf("order of the sold hold is %q, want %q", got.OrderID, sold.OrderID)
	}
	f.unchanged(before, f.place.Group, "a repeat")
}

func TestSoldOutAndAllHeld(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	f.sell("a", "request", 4)
	own := f.hold("b", "request", 3)
	f.advance(second)
	later := f.hold("c", "request", 2)
	before := f.dump(f.place.Group)

	_, err := f.Create(f.ctx(), f.request("d", "request", 7)) // 6 are unsold
	no := refusal(t, err, store.SoldOut)
	want := store.Refusal{Reason: store.SoldOut, Allotment: f.place.Allotment, Requested: 7, Capacity: 10, Sold: 4, Held: 5, Version: no.Version}
	if diff := cmp.Diff(want, no); diff != "" || no.Version == 0 {
		t.Errorf("SOLD_OUT, version %d (-want +got):\n%s", no.Version, diff)
	}

	_, err = f.Create(f.ctx(), f.request("d", "request", 6))
	no = refusal(t, err, store.AllHeld)
	if no.Requested != 6 || no.Held != 5 || !no.NextLapse.Equal(own.ExpireTime) || no.HoldID != "" {
		t.Errorf("ALL_HELD: %+v, want the next lapse at %v and no hold of its own", no, own.ExpireTime)
	}
	_, err = f.Create(f.ctx(), f.request("c", "another", 2))
	no = refusal(t, err, store.AllHeld)
	if no.HoldID != later.ID.String() || !near(no.HoldRemaining, holdTime, patience) || no.HoldRemaining > holdTime {
		t.Errorf("ALL_HELD names hold %s with %v left, want %s", no.HoldID, no.HoldRemaining, later.ID)
	}
	f.unchanged(before, f.place.Group, "a refusal")

	if h := f.hold("d", "request", 1); h.Quantity != 1 { // the same key is decided anew
		t.Errorf("granted %d", h.Quantity)
	}
	_, err = f.Create(f.ctx(), f.request("e", "request", 1))
	refusal(t, err, store.AllHeld)
}

// Units that are being confirmed or taken off count as held.
func TestAllHeldCountsPinned(t *testing.T) {
	t.Parallel()
	f := setup(t, 5)
	f.begin("order", f.hold("a", "request", 2))
	f.shrink("r", 3)
	_, err := f.Create(f.ctx(), f.request("b", "request", 1))
	if no := refusal(t, err, store.AllHeld); no.Held != 5 || !no.NextLapse.IsZero() {
		t.Errorf("held %d, next lapse %v, want 5 and none", no.Held, no.NextLapse)
	}
}

// Lapsed holds that stand in the way of many requests are named once, for all of them.
func TestDueHoldsAreNamedOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, 4)
	other := f.place
	f.place = f.allot(storetest.UniqueID(t), other.Group, 2)
	f.hold("x", "request", 2)
	here := f.place
	f.place = other
	f.hold("a", "request", 3)
	f.hold("b", "request", 1)
	f.advance(holdTime)
	ops := f.send1(f.request("c", "1", 1), f.request("d", "1", 2), cart("e", "1", line(here, 1)), f.request("f", "1", 1))
	named := 0
	for i, o := range ops {
		want := 2
		if i == 2 {
			want = 1
		}
		if got := o.reply[0].status(); got != statusAgain || len(o.due) != want {
			t.Errorf("request %d: status %d with %d due holds, want AGAIN with %d", i, got, len(o.due), want)
		}
		named += len(o.reply[0]) - 2
	}
	if named != 3 {
		t.Errorf("3 due holds were named %d times", named)
	}
}

func TestExactFit(t *testing.T) { // S07
	t.Parallel()
	f := setup(t, 5)
	_, err := f.Create(f.ctx(), f.request("a", "request", 6))
	refusal(t, err, store.SoldOut)
	f.cancel(f.hold("a", "other", 5))
	for range 5 {
		f.hold("b", fmt.Sprint(f.mustState().counters["sequence"]), 1)
	}
	_, err = f.Create(f.ctx(), f.request("c", "request", 1))
	refusal(t, err, store.AllHeld)
	f.want("available 0, held 5")
}

func TestQuantityIsJudged(t *testing.T) {
	t.Parallel()
	f := setup(t, 100, func(r *store.Rules) { r.MaxPerHold = 10 })
	before := f.dump(f.place.Group)
	for _, q := range []int64{11, 1000, 0, -1, -1 << 40} {
		_, err := f.Create(f.ctx(), f.request("a", "request", q))
		invalidField(t, err, "quantity")
	}
	f.unchanged(before, f.place.Group, "a bad quantity")
	f.hold("a", "request", 10)
}

func TestShutAllotments(t *testing.T) {
	t.Parallel()
	opens := time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()
	for _, c := range []struct {
		name   string
		rules  func(*store.Rules)
		reason store.Reason
	}{
		{"not open", func(r *store.Rules) { r.OpensAt = opens }, store.NotOpen},
		{"paused", func(r *store.Rules) { r.State = store.StatePaused }, store.Paused},
		{"closed", func(r *store.Rules) { r.State = store.StateClosed }, store.Closed},
		{"over", func(r *store.Rules) { r.ClosesAt = opens.Add(-2 * time.Hour) }, store.Closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 10, c.rules)
			before := f.dump(f.place.Group)
			_, err := f.Create(f.ctx(), f.request("a", "request", 1))
			no := refusal(t, err, c.reason)
			a := newAllotment(f.place, 10, c.rules)
			if !no.OpensAt.Equal(a.OpensAt) || !no.ClosesAt.Equal(a.ClosesAt) {
				t.Errorf("times %v and %v, want %v and %v", no.OpensAt, no.ClosesAt, a.OpensAt, a.ClosesAt)
			}
			f.unchanged(before, f.place.Group, "a refusal")
		})
	}
}

// S29: it opens and closes at the millisecond.
func TestOpensAndCloses(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	now := f.now()
	rules := defaultRules()
	rules.OpensAt, rules.ClosesAt = now.Add(time.Hour), now.Add(2*time.Hour)
	must(t, f.apply(store.Change{Number: 1, Kind: store.ChangeRules, Rules: rules}))
	_, err := f.Create(f.ctx(), f.request("a", "request", 1))
	refusal(t, err, store.NotOpen)
	f.advance(time.Hour)
	f.hold("a", "request", 1)
	f.advance(time.Hour)
	_, err = f.Create(f.ctx(), f.request("b", "request", 1))
	refusal(t, err, store.Closed)
	if c := f.counters(f.place)[0]; c.State != store.StateClosed {
		t.Errorf("state %d when its time is over, want CLOSED", c.State)
	}
	if h := f.hold("a", "request", 1); h.State != store.Lapsed { // what was granted is still answered
		t.Errorf("the repeat's hold is in state %d", h.State)
	}
}

// S01, S04: the last unit among many, over three replicas.
func TestLastUnit(t *testing.T) {
	t.Parallel()
	f := setup(t, 1)
	replicas := []*fixture{f, f.another(), f.another()}
	for round := range 20 {
		var granted, refused []string
		var mu sync.Mutex
		storetest.Together(30, func(i int) {
			name := fmt.Sprintf("%d-%d", round, i)
			_, err := replicas[i%3].Create(f.ctx(), f.request(name, "request", 1))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				granted = append(granted, name)
			case store.Refused(err, store.AllHeld) != nil:
				refused = append(refused, name)
			default:
				t.Errorf("Create: %v", err)
			}
		})
		if len(granted) != 1 || len(refused) != 29 {
			t.Fatalf("round %d: %d granted, %d refused", round, len(granted), len(refused))
		}
		f.cancel(store.Hold{ID: store.NewHoldID(f.place.Allotment, granted[0], "request")})
	}
	f.want("available 1, held 0")
}

// The same request many times at once is one hold.
func TestConcurrentRepeats(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	replicas := []*fixture{f, f.another()}
	var mu sync.Mutex
	tokens := map[store.Token]int{}
	storetest.Together(40, func(i int) {
		holds, err := replicas[i%2].Create(f.ctx(), f.request("buyer", "request", 2))
		if err != nil {
			t.Errorf("Create: %v", err)
			return
		}
		mu.Lock()
		tokens[holds[0].Token]++
		mu.Unlock()
	})
	if len(tokens) != 1 {
		t.Errorf("tokens %v, want one", tokens)
	}
	f.want("available 98, held 2, sequence 1")
}
