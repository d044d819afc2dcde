package holds

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// withSecond adds another allotment to the fixture's group.
func (f *fixture) withSecond(capacity int64, rules ...func(*store.Rules)) store.Place {
	f.t.Helper()
	return f.allot(storetest.UniqueID(f.t), f.place.Group, capacity, rules...)
}

// cartOf takes a cart that must be granted: q1 of the first allotment, q2 of the second.
func (f *fixture) cartOf(buyer, request string, second store.Place, q1, q2 int64) []store.Hold {
	f.t.Helper()
	holds, err := f.Create(f.ctx(), cart(buyer, request, line(f.place, q1), line(second, q2)))
	if err != nil {
		f.t.Fatalf("Create cart: %v", err)
	}
	return holds
}

func TestCartIsGranted(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	second := f.withSecond(20)
	holds := f.cartOf("buyer", "request", second, 2, 3)
	if len(holds) != 2 || holds[0].Quantity != 2 || holds[1].Quantity != 3 || holds[1].ID.Allotment != second.Allotment {
		t.Fatalf("holds %+v", holds)
	}
	if holds[0].Cart == "" || holds[0].Cart != holds[1].Cart {
		t.Errorf("fingerprints %q and %q", holds[0].Cart, holds[1].Cart)
	}
	f.want("available 8, held 2")
	f.wantAt(second, "available 17, held 3")
}

func TestCartIsAllOrNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		second func(*fixture) store.Place
		q      int64
		reason store.Reason
	}{
		{"sold out", func(f *fixture) store.Place { return f.withSecond(2) }, 3, store.SoldOut},
		{"held", func(f *fixture) store.Place {
			p := f.withSecond(3)
			must(f.t, errOf(f.Create(f.ctx(), cart("other", "request", line(p, 1)))))
			return p
		}, 3, store.AllHeld},
		{"limit", func(f *fixture) store.Place { return f.withSecond(10, limited(2)) }, 3, store.BuyerLimit},
		{"paused", func(f *fixture) store.Place {
			return f.withSecond(10, func(r *store.Rules) { r.State = store.StatePaused })
		}, 1, store.Paused},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 10)
			second := c.second(f)
			before := f.dump(f.place.Group)
			_, err := f.Create(f.ctx(), cart("buyer", "request", line(f.place, 1), line(second, c.q)))
			if no := refusal(t, err, c.reason); no.Allotment != second.Allotment || no.Requested != c.q {
				t.Errorf("the refusal is about %d of %s, want %d of %s", no.Requested, no.Allotment, c.q, second.Allotment)
			}
			f.unchanged(before, f.place.Group, "a refused cart")
		})
	}
	t.Run("quantity", func(t *testing.T) {
		t.Parallel()
		f := setup(t, 10)
		second := f.withSecond(10, func(r *store.Rules) { r.MaxPerHold = 2 })
		before := f.dump(f.place.Group)
		_, err := f.Create(f.ctx(), cart("buyer", "request", line(f.place, 1), line(second, 3)))
		invalidField(t, err, "quantity")
		f.unchanged(before, f.place.Group, "a refused cart")
	})
	t.Run("adopting", func(t *testing.T) {
		t.Parallel()
		f := setup(t, 10)
		second := f.withSecond(10)
		f.adoptBegin(second, "claim")
		before := f.dump(f.place.Group)
		_, err := f.Create(f.ctx(), cart("buyer", "request", line(f.place, 1), line(second, 1)))
		adoptNeeded(t, err, second)
		f.unchanged(before, f.place.Group, "a cart with a shut line")
	})
}

func TestCartRepeat(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	second, third := f.withSecond(10), f.withSecond(10)
	first := f.cartOf("buyer", "request", second, 2, 3)
	f.cancel2(first[1])
	before := f.dump(f.place.Group)
	again := f.cartOf("buyer", "request", second, 2, 3)
	if again[0].Token != first[0].Token || again[0].State != store.Held || again[1].State != store.Cancelled {
		t.Errorf("the repeat got %+v", again)
	}
	for name, lines := range map[string][]store.PlacedLine{
		"another quantity":          {line(f.place, 2), line(second, 4)},
		"one line more":             {line(f.place, 2), line(second, 3), line(third, 1)},
		"a line known, one not":     {line(f.place, 2), line(third, 1)},
		"one line of it, alone":     {line(f.place, 2)},
		"another line of it, alone": {line(second, 3)},
	} {
		_, err := f.Create(f.ctx(), cart("buyer", "request", lines...))
		if no := store.Refused(err, store.RequestMismatch); no == nil || no.Field != "lines" {
			t.Errorf("%s: got %v, %+v, want REQUEST_MISMATCH of the lines", name, err, no)
		}
	}
	f.unchanged(before, f.place.Group, "a repeat")
	// A cart that holds a line which was made alone.
	must(t, errOf(f.Create(f.ctx(), cart("buyer", "alone", line(f.place, 1)))))
	_, err := f.Create(f.ctx(), cart("buyer", "alone", line(f.place, 1), line(second, 1)))
	refusal(t, err, store.RequestMismatch)
}

func (f *fixture) cancel2(h store.Hold) {
	f.t.Helper()
	must(f.t, errOf(f.Cancel(f.ctx(), store.PlacedHold{Place: f.placeOf(h.ID), ID: h.ID})))
}

// Lapsed holds of any line's allotment are released on need.
func TestCartReleasesOnNeed(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	second := f.withSecond(100)
	for i := range 100 {
		f.cartOf("buyer", fmt.Sprint(i), second, 1, 1)
	}
	f.advance(holdTime)
	f.cartOf("buyer", "late", second, 100, 100)
	f.want("available 0, held 100")
	f.wantAt(second, "available 0, held 100")
}

// S12: a cart that must fail hides nothing from a request that fits, not for a moment.
func TestFailingCartHidesNothing(t *testing.T) {
	t.Parallel()
	f := setup(t, 2)
	second := f.withSecond(0)
	other := f.another()
	for i := range 100 {
		storetest.Together(2, func(who int) {
			if who == 0 {
				_, err := f.Create(f.ctx(), cart("x", fmt.Sprint(i), line(f.place, 2), line(second, 1)))
				if store.Refused(err, store.SoldOut) == nil && store.Refused(err, store.AllHeld) == nil {
					t.Errorf("the cart: %v", err)
				}
				return
			}
			holds, err := other.Create(f.ctx(), f.request("b", fmt.Sprint(i), 2))
			if err != nil {
				t.Errorf("round %d: %v", i, err)
				return
			}
			if _, err := other.Cancel(f.ctx(), f.placed(holds[0])); err != nil {
				t.Errorf("round %d: Cancel: %v", i, err)
			}
		})
	}
}

// send runs ops in one batch, as if they had arrived together.
func (f *fixture) send1(requests ...store.CreateRequest) []*op {
	f.t.Helper()
	var ops []*op
	for _, r := range requests {
		places := make([]store.Place, len(r.Lines))
		ids := make([]store.HoldID, len(r.Lines))
		for i, l := range r.Lines {
			places[i], ids[i] = l.Place, store.NewHoldID(l.Allotment, r.BuyerID, r.RequestID)
		}
		o := createOp(r, places, ids)
		o.ctx, o.done = f.ctx(), make(chan struct{})
		ops = append(ops, o)
	}
	f.run(queue{lane: laneCreate}, ops)
	for i, o := range ops {
		<-o.done
		if o.err != nil {
			f.t.Fatalf("request %d: %v", i, o.err)
		}
	}
	return ops
}

func statuses(ops []*op) (all []status) {
	for _, o := range ops {
		all = append(all, o.reply[0].status())
	}
	return all
}

// In a batch, later requests see what earlier ones took: stock, buyers' totals, records, deadlines.
func TestBatchSeesEarlierOnes(t *testing.T) {
	t.Parallel()
	f := setup(t, 5, limited(3))
	second := f.withSecond(1)
	requests := []store.CreateRequest{
		f.request("a", "1", 2),
		f.request("a", "2", 2), // over the limit
		f.request("a", "1", 2), // a repeat
		f.request("a", "1", 1), // with other content
		f.request("b", "1", 2),
		cart("c", "1", line(f.place, 1), line(second, 1)),
		cart("d", "1", line(second, 1)),
		f.request("b", "2", 1), // held by a, b and c
		f.request("d", "2", 1),
	}
	ops := f.send1(requests...)
	want := []status{
		statusOK, statusBuyerLimit, statusKnown, statusMismatch, statusOK, statusOK, statusAllHeld, statusAllHeld, statusAllHeld,
	}
	if diff := cmp.Diff(want, statuses(ops)); diff != "" {
		t.Fatalf("statuses (-want +got):\n%s", diff)
	}
	f.want("available 0, held 5, sequence 3")

	own := func(i int, held string) {
		t.Helper()
		r := requests[i]
		var no *store.Refusal
		err := f.createError(r, []store.HoldID{store.NewHoldID(r.Lines[0].Allotment, r.BuyerID, r.RequestID)}, ops[i])
		if !errors.As(err, &no) {
			t.Fatalf("request %d: %v", i, err)
		}
		if no.HoldID != held {
			t.Errorf("request %d names hold %q, want %q", i, no.HoldID, held)
		}
		if no.Reason == store.AllHeld && no.NextLapse.IsZero() {
			t.Errorf("request %d: no next lapse, though all is held by live holds", i)
		}
	}
	own(1, store.NewHoldID(f.place.Allotment, "a", "1").String())
	own(7, store.NewHoldID(f.place.Allotment, "b", "1").String())
	own(8, "")
}

// A damaged record fails its own line, and a damaged entry of a buyer, or record beside it, that buyer's lines.
func TestBatchWithDamage(t *testing.T) {
	t.Parallel()
	f := setup(t, 100)
	f.hold("a", "0", 1)
	second := f.hold("a", "1", 1)
	f.hold("b", "1", 1)
	beside := f.hold("c", "1", 1)
	f.damageRecord(second.ID, "rubbish")
	f.damageBuyer("b", "rubbish")
	f.damageRecord(beside.ID, "rubbish")
	ops := f.send1(f.request("x", "1", 1), f.request("a", "1", 1), f.request("b", "2", 1), f.request("a", "2", 1),
		f.request("c", "2", 1), f.request("d", "1", 1))
	want := []status{statusOK, statusDamaged, statusDamaged, statusOK, statusDamaged, statusOK}
	if diff := cmp.Diff(want, statuses(ops)); diff != "" {
		t.Fatalf("statuses (-want +got):\n%s", diff)
	}
	_, err := f.Create(f.ctx(), f.request("a", "1", 1))
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a damaged record: %v, want ErrUnavailable", err)
	}
	f.places = nil
	f.broken()
}

// A batch is bounded by its lines: many large carts do not keep Redis from everyone else in one go.
func TestCartsAreHeavy(t *testing.T) {
	t.Parallel()
	f := setup(t, 1000, onRedis(storetest.NewRedis(t, local.RedisOptions{}).URL()))
	const carts, lines = 80, 30
	places := []store.PlacedLine{line(f.place, 1)}
	for i := 1; i < lines; i++ {
		places = append(places, line(f.allot(fmt.Sprintf("%s-%d", f.place.Allotment, i), f.place.Group, 1000), 1))
	}
	before := f.evalsha()
	storetest.Together(carts, func(i int) {
		if _, err := f.Create(f.ctx(), cart(fmt.Sprint("buyer-", i), "request", places...)); err != nil {
			t.Errorf("cart %d: %v", i, err)
		}
	})
	if calls := f.evalsha() - before; calls < carts*lines/batchMost {
		t.Errorf("%d carts of %d lines in %d calls, want at least %d", carts, lines, calls, carts*lines/batchMost)
	}
	if w := createOp(cart("b", "r", places...), make([]store.Place, lines), nil).weight(); w != lines {
		t.Errorf("a cart of %d lines weighs %d", lines, w)
	}
	f.want(fmt.Sprintf("held %d", carts))
}
