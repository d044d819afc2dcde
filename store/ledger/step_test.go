package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-inventory/holdfast/store"
)

const other = "other" // a second allotment of the group

// The lines of the step table.
var (
	one, two       = line(show, 1, 1), line(show, 2, 1)
	big            = line(show, 3, 11)
	away, awayBig  = line(other, 4, 1), line(other, 4, 11)
	staleLine      = with(line(show, 5, 1), func(l *store.ConfirmLine) { l.Epoch = 7 })
	staleAway      = with(away, func(l *store.ConfirmLine) { l.Epoch = 7 })
	gone           = with(away, func(l *store.ConfirmLine) { l.Gone, l.Quantity, l.BuyerID = true, 0, "" })
	goneStale      = with(gone, func(l *store.ConfirmLine) { l.Epoch = 7 })
	oneLater       = with(one, func(l *store.ConfirmLine) { l.Token.Sequence = 100 })
	oneEarlier     = with(one, func(l *store.ConfirmLine) { l.Token.Sequence = 0 })
	awayLater      = with(away, func(l *store.ConfirmLine) { l.Token.Sequence = 100 })
	oneStale       = with(one, func(l *store.ConfirmLine) { l.Epoch = 7 })
	oneGone        = with(one, func(l *store.ConfirmLine) { l.Gone, l.Token = true, store.Token{} })
	bigStale       = with(big, func(l *store.ConfirmLine) { l.Epoch = 7 })
	bigLater       = with(big, func(l *store.ConfirmLine) { l.Token.Sequence, l.Quantity = 100, 2 })
	bigLaterEpoch  = with(big, func(l *store.ConfirmLine) { l.Token.Epoch, l.Token.Sequence, l.Quantity = 2, 1, 2 })
	unknown        = line("nowhere", 6, 1)
	cut4, cut11    = shrink(show, "cut-4", 4), shrink(show, "cut-11", 11)
	cut4Stale      = with(cut4, func(l *store.ConfirmLine) { l.Epoch = 7 })
	cutLikeGrowth  = shrink(show, "grow-1", 4)
	sameBuyerAgain = with(two, func(l *store.ConfirmLine) { l.BuyerID = one.BuyerID })
)

func with(l store.ConfirmLine, change func(*store.ConfirmLine)) store.ConfirmLine {
	change(&l)
	return l
}

// said is a verdict in short: kind, order of the sale, other hold.
type said struct {
	Kind  store.VerdictKind
	Order string
	Other string
}

const (
	sold         = store.VerdictSold
	refusedOrder = store.VerdictRefusedOrder
	refusedRoom  = store.VerdictRefusedRoom
	refusedCart  = store.VerdictRefusedCart
	stale        = store.VerdictStale
)

// step is a confirm, what the ledger says of it, and what it has written after it.
type step struct {
	sold    int64 // of show, after the step
	rows    int64 // outcomes in all, after the step
	confirm store.Confirm
	want    []said
}

func expect(sold, rows int64, c store.Confirm, want ...said) step { return step{sold, rows, c, want} }

func yes(order string) said          { return said{Kind: sold, Order: order} }
func no(kind store.VerdictKind) said { return said{Kind: kind} }
func boughtBefore(under store.ConfirmLine) said {
	return said{Kind: refusedOrder, Other: under.ID.String()}
}

var stepTable = []struct {
	name  string
	steps []step
}{
	{"sold", []step{expect(1, 1, order("o1", one), yes("o1"))}},
	{"repeat", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(1, 1, order("o1", one), yes("o1")),
	}},
	{"repeat under an old epoch", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(1, 1, order("o1", oneStale), yes("o1")),
	}},
	{"repeat under another order", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(1, 1, order("o2", one), yes("o1")),
	}},
	{"sold, then another token", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(1, 1, order("o1", oneLater), yes("o1")),
	}},
	{"stale", []step{
		expect(0, 0, order("o1", staleLine), no(stale)),
		expect(1, 1, order("o1", line(show, 5, 1)), yes("o1")),
	}},
	{"unknown allotment", []step{expect(0, 0, order("o1", unknown), no(stale))}},
	{"order bought before", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(1, 2, order("o1", two), boughtBefore(one)),
		expect(1, 2, order("o1", two), boughtBefore(one)),
	}},
	{"the order of another allotment", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(1, 2, order("o1", away), yes("o1")),
	}},
	{"two orders of a buyer", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(2, 2, order("o2", sameBuyerAgain), yes("o2")),
	}},
	{"no room", []step{expect(0, 1, order("o1", big), no(refusedRoom))}},
	{"the last units go once", []step{
		expect(6, 1, order("o1", line(show, 7, 6)), yes("o1")),
		expect(6, 2, order("o2", line(show, 8, 6)), no(refusedRoom)),
		expect(10, 3, order("o3", line(show, 9, 4)), yes("o3")),
	}},
	{"refusal stands for its token", []step{
		expect(0, 1, order("o1", big), no(refusedRoom)),
		expect(0, 1, order("o2", with(big, func(l *store.ConfirmLine) { l.Quantity = 1 })), no(refusedRoom)),
	}},
	{"refusal stands under an old epoch", []step{
		expect(0, 1, order("o1", big), no(refusedRoom)),
		expect(0, 1, order("o1", bigStale), no(refusedRoom)),
	}},
	{"refusal gives way to a later token", []step{
		expect(0, 1, order("o1", big), no(refusedRoom)),
		expect(2, 1, order("o1", bigLater), yes("o1")),
	}},
	{"refusal gives way to a later epoch's token", []step{
		expect(0, 1, order("o1", big), no(refusedRoom)),
		expect(2, 1, order("o1", bigLaterEpoch), yes("o1")),
	}},
	{"refusal replaced by another one", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(1, 2, order("o2", big), no(refusedRoom)),
		expect(1, 2, order("o1", bigLater), boughtBefore(one)),
		expect(1, 2, order("o9", bigLater), boughtBefore(one)),
	}},
	{"refusal outlives an earlier token", []step{
		expect(1, 1, order("o1", two), yes("o1")),
		expect(1, 2, order("o1", one), boughtBefore(two)),
		expect(1, 2, order("o2", oneEarlier), no(stale)),
		expect(1, 2, order("o2", one), boughtBefore(two)),
	}},
	{"gone alone", []step{
		expect(0, 1, order("o1", gone), no(refusedCart)),
		expect(0, 1, order("o1", awayLater), yes("o1")),
	}},
	{"gone after its sale", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(1, 1, order("o1", oneGone), yes("o1")),
	}},

	{"cart sold", []step{
		expect(1, 2, order("o1", one, away), yes("o1"), yes("o1")),
		expect(1, 2, order("o1", one, away), yes("o1"), yes("o1")),
	}},
	{"cart with a stale line", []step{expect(0, 0, order("o1", one, staleAway), no(stale), no(stale))}},
	{"cart with a stale line and no room", []step{expect(0, 0, order("o1", big, staleAway), no(stale), no(stale))}},
	{"cart without room", []step{
		expect(0, 2, order("o1", one, awayBig), no(refusedCart), no(refusedRoom)),
		expect(0, 2, order("o1", one, away), no(refusedCart), no(refusedRoom)),
	}},
	{"cart whose order bought before", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(1, 3, order("o1", away, two), no(refusedCart), boughtBefore(one)),
	}},
	{"cart with a gone line", []step{expect(0, 2, order("o1", one, gone), no(refusedCart), no(refusedCart))}},
	{"cart with a line gone in a superseded Redis", []step{
		expect(0, 0, order("o1", one, goneStale), no(stale), no(stale)),
	}},
	{"cart with a line sold before", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(1, 2, order("o1", one, away), yes("o1"), yes("o1")),
	}},
	{"cart with a line sold, then gone", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(1, 2, order("o1", oneGone, away), yes("o1"), yes("o1")),
	}},
	{"cart with a line sold and one refused", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(1, 2, order("o1", one, awayBig), yes("o1"), no(refusedRoom)),
	}},
	{"cart with a line sold and one stale", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(1, 1, order("o1", one, staleAway), yes("o1"), no(stale)),
	}},
	{"cart with a line of another order", []step{
		expect(1, 1, order("o1", one), yes("o1")),
		expect(1, 2, order("o2", one, away), yes("o1"), no(refusedCart)),
	}},
	{"cart with a line refused before", []step{
		expect(0, 1, order("o1", big), no(refusedRoom)),
		expect(0, 2, order("o2", big, away), no(refusedRoom), no(refusedCart)),
	}},
	{"cart with a line refused, now gone", []step{
		expect(1, 1, order("o2", two), yes("o2")),
		expect(1, 2, order("o2", one), boughtBefore(two)),
		expect(1, 3, order("o3", oneGone, away), boughtBefore(two), no(refusedCart)),
	}},
	{"cart with two holds of one allotment", []step{
		expect(0, 2, order("o1", one, two), no(refusedCart), boughtBefore(one)),
	}},

	{"shrink", []step{
		expect(0, 1, order("", cut4), yes("")),
		expect(0, 1, order("", cut4), yes("")),
		expect(0, 1, order("", cut4Stale), yes("")),
	}},
	{"shrink below what is sold", []step{expect(0, 1, order("", cut11), no(refusedRoom))}},
	{"shrink under an old epoch", []step{expect(0, 0, order("", cut4Stale), no(stale))}},
	{"shrink under the request of a growth", []step{expect(0, 1, order("", cutLikeGrowth), no(refusedOrder))}},
	{"two shrinks, and a sale that has no room", []step{
		expect(0, 1, order("", cut4), yes("")),
		expect(0, 2, order("", shrink(show, "cut-6", 6)), yes("")),
		expect(0, 3, order("o1", one), no(refusedRoom)),
	}},
}

// eachStep runs f with each entry of the table, on a ledger that reads first and on one that does not. show and other have
// 10 units each.
func eachStep(t *testing.T, run func(f *fixture, steps []step)) {
	t.Parallel()
	for _, c := range stepTable {
		for name, readFirst := range map[string]bool{"": false, ", reading first": true} {
			t.Run(c.name+name, func(t *testing.T) {
				t.Parallel()
				run(setupSteps(t, func(o *Options) { o.ReadFirst = readFirst }), c.steps)
			})
		}
	}
}

// TestLedgerStep is the table of the ledger step: each verdict, and the rules of carts.
func TestLedgerStep(t *testing.T) {
	eachStep(t, func(f *fixture, steps []step) {
		for i, s := range steps {
			f.checkStep(i, s, f.settle(s.confirm))
		}
	})
}

// TestLedgerStepInOneBatch: what is decided earlier in a transaction counts as if it had been committed.
func TestLedgerStepInOneBatch(t *testing.T) {
	eachStep(t, func(f *fixture, steps []step) {
		confirms := make([]store.Confirm, len(steps))
		for i, s := range steps {
			confirms[i] = s.confirm
		}
		transactions := 0
		f.mark = func(point string) {
			if point == "ledger-before-commit" {
				transactions++
			}
		}
		results := f.together(confirms...)
		most := 2 // what was assumed, and what was read
		if f.opts.ReadFirst {
			most = 1 // the database would have had to stop the first one
		}
		if transactions > most {
			f.t.Errorf("%d transactions, want at most %d", transactions, most)
		}
		for i, s := range steps {
			s.sold, s.rows = steps[len(steps)-1].sold, steps[len(steps)-1].rows
			if results[i].err != nil {
				f.t.Fatal(results[i].err)
			}
			f.checkStep(i, s, results[i].verdicts)
		}
	})
}

func setupSteps(t *testing.T, change ...func(*Options)) *fixture {
	f := setup(t, 9, change...)
	f.create(other, 10)
	if _, _, err := f.Grow(t.Context(), store.Adjustment{Allotment: show, RequestID: "grow-1", Delta: 1}); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) checkStep(i int, s step, verdicts []store.Verdict) {
	f.t.Helper()
	got := make([]said, len(verdicts))
	for n, v := range verdicts {
		got[n] = said{v.Kind, v.Sale.OrderID, v.Other}
	}
	if diff := cmp.Diff(s.want, got); diff != "" {
		f.t.Errorf("step %d: verdicts (-want +got):\n%s", i, diff)
	}
	if got := f.allotment(show).Sold; got != s.sold {
		f.t.Errorf("step %d: sold %d, want %d", i, got, s.sold)
	}
	if got := f.number(`select count(*) from outcomes`); got != s.rows {
		f.t.Errorf("step %d: %d outcomes, want %d", i, got, s.rows)
	}
}
