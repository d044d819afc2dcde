package ledger

import (
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// book is what a ledger step has read under the row locks, and what it has decided since: later
// confirms of a batch see the decisions on earlier ones.
type book struct {
	now        time.Time
	allotments map[string]*balance
	outcomes   map[store.HoldID]store.Outcome
	orders     map[orderAt]string    // hold under which an order bought from an allotment
	adjusted   map[requestAt]bool    // request ids that changed a capacity
	changed    map[store.HoldID]bool // the outcomes to write
}

func newBook() book {
	return book{
		allotments: map[string]*balance{}, outcomes: map[store.HoldID]store.Outcome{},
		orders: map[orderAt]string{}, adjusted: map[requestAt]bool{}, changed: map[store.HoldID]bool{},
	}
}

// balance is an allotment's row, with the units that this step has sold and taken off.
type balance struct {
	capacity, sold, epoch int64
	newlySold, newlyShut  int64
}

type (
	orderAt   struct{ allotment, order string }
	requestAt struct{ allotment, request string }
)

func (a *balance) room() int64 { return a.capacity - a.newlyShut - a.sold - a.newlySold }

// judge decides one confirm: all its lines together or none.
func (b *book) judge(c store.Confirm) []store.Verdict {
	verdicts := make([]store.Verdict, len(c.Lines))
	open, refused, stale := b.standing(c, verdicts)
	if stale {
		return verdicts
	}
	kinds := make([]store.VerdictKind, len(open))
	others := make([]string, len(open))
	for n, i := range open {
		kinds[n], others[n] = b.tentative(c, c.Lines[i])
		refused = refused || kinds[n] != store.VerdictSold
	}
	for n, i := range open {
		if refused && kinds[n] == store.VerdictSold {
			b.undo(c, c.Lines[i])
			kinds[n] = store.VerdictRefusedCart
		}
		verdicts[i] = b.put(c, c.Lines[i], kinds[n], others[n])
	}
	return verdicts
}

// standing fills in the verdicts that earlier outcomes give, and returns the lines that are still
// open, whether one that stands refuses the cart, and whether a line is stale, which leaves
// everything as it is.
//
// An outcome row speaks before epoch and capacity: a confirm that the supervisor has driven on
// meanwhile must find its end whatever has happened since.
func (b *book) standing(c store.Confirm, verdicts []store.Verdict) (open []int, refused, stale bool) {
	for i, line := range c.Lines {
		outcome, exists := b.outcomes[line.ID]
		switch {
		case exists && outcome.Verdict.Kind == store.VerdictSold:
			verdicts[i] = outcome.Verdict
			refused = refused || outcome.OrderID != c.OrderID
		case exists && (outcome.Verdict.Token == line.Token || line.Gone):
			verdicts[i] = outcome.Verdict
			refused = true
		default:
			verdicts[i] = store.Verdict{Kind: store.VerdictStale}
			open = append(open, i)
			stale = stale || b.superseded(line) || exists && outcome.Verdict.Token.After(line.Token)
		}
	}
	return open, refused, stale
}

// superseded says that line ran under another epoch than its allotment's. It may be of a Redis that
// has gone back in time, so neither its hold nor its being gone counts.
func (b *book) superseded(line store.ConfirmLine) bool {
	allotment, exists := b.allotments[line.ID.Allotment]
	return !exists || allotment.epoch != line.Epoch
}

// tentative judges an open line by itself, and takes what it needs if that is there: until undo,
// later lines and confirms see it as taken.
func (b *book) tentative(c store.Confirm, line store.ConfirmLine) (store.VerdictKind, string) {
	allotment, at := b.allotments[line.ID.Allotment], orderAt{line.ID.Allotment, c.OrderID}
	switch {
	case line.Gone:
		return store.VerdictRefusedCart, ""
	case line.Shrink && b.adjusted[requestAt{line.ID.Allotment, line.RequestID}]:
		return store.VerdictRefusedOrder, ""
	case !line.Shrink && b.orders[at] != "":
		return store.VerdictRefusedOrder, b.orders[at]
	case allotment.room() < line.Quantity:
		return store.VerdictRefusedRoom, ""
	case line.Shrink:
		allotment.newlyShut += line.Quantity
		b.adjusted[requestAt{line.ID.Allotment, line.RequestID}] = true
	default:
		allotment.newlySold += line.Quantity
		b.orders[at] = line.ID.String()
	}
	return store.VerdictSold, ""
}

// undo gives back what tentative took.
func (b *book) undo(c store.Confirm, line store.ConfirmLine) {
	allotment := b.allotments[line.ID.Allotment]
	if line.Shrink {
		allotment.newlyShut -= line.Quantity
		delete(b.adjusted, requestAt{line.ID.Allotment, line.RequestID})
	} else {
		allotment.newlySold -= line.Quantity
		delete(b.orders, orderAt{line.ID.Allotment, c.OrderID})
	}
}

// put notes the outcome of a line, to be written and to be seen by later confirms.
func (b *book) put(c store.Confirm, line store.ConfirmLine, kind store.VerdictKind, other string) store.Verdict {
	outcome := store.Outcome{
		ID: line.ID, Verdict: store.Verdict{Kind: kind, Token: line.Token, Other: other},
		BuyerID: line.BuyerID, RequestID: line.RequestID, OrderID: c.OrderID, Quantity: line.Quantity,
		Held: line.Held, Cart: line.Cart, CreateTime: line.CreateTime, Shrink: line.Shrink, DecidedAt: b.now,
	}
	if kind == store.VerdictSold {
		outcome.Verdict.Sale = saleOf(outcome)
	}
	b.outcomes[line.ID] = outcome
	b.changed[line.ID] = true
	return outcome.Verdict
}
