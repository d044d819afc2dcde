package history

import (
	"fmt"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
)

// judgeEnd compares what buyers were told with what the server says in the end.
func (t *trial) judgeEnd() {
	f := t.Final
	if f == nil {
		for _, p := range []*Promise{t.oversold, t.conserved} {
			p.Kept, p.Unknown = false, "what was sold and held in the end could not be read"
		}
		return
	}
	sold := t.judgeSales(f)
	t.judgeList(f)
	t.judgeUnfinished(f)
	t.judgeNotTold(f)
	t.judgeOversold("the ledger", sold)
	t.oversold.Facts = fmt.Sprintf("%s sold of %s", figures.Count(sold), figures.Count(t.Capacity))
	t.judgeReading(&f.Stock)
	if f.Capacity != t.Capacity {
		t.conserved.broken("the ledger has a capacity of %d, and %d were opened for sale", f.Capacity, t.Capacity)
	}
	if f.Settled {
		t.judgeRest(f, sold)
	}
	t.conserved.Facts += fmt.Sprintf("; in the end %s available + %s held + %s sold = %s",
		figures.Count(f.Stock.Available), figures.Count(f.Stock.Held), figures.Count(f.Stock.Sold), figures.Count(f.Stock.Capacity))
}

// judgeRest: with nothing in flight and no hold left, what is not sold is available.
func (t *trial) judgeRest(f *Final, sold int64) {
	s := f.Stock
	if s.Sold != sold || s.Held != 0 || s.Available != t.Capacity-sold {
		t.conserved.broken("with every hold at its end, %d available + %d held + %d sold, and the ledger has sold %d of %d",
			s.Available, s.Held, s.Sold, sold, t.Capacity)
	}
}

// judgeSales compares the ledger's sales with the confirms, and returns the units sold.
func (t *trial) judgeSales(f *Final) int64 {
	buyers := map[string]*life{} // by hold
	for _, l := range t.lives {
		if l.hold != nil {
			buyers[l.hold.ID] = l
		}
	}
	var units int64
	seen, orders := map[string]bool{}, map[string]bool{}
	for _, s := range f.Sales {
		units += s.Quantity - s.Cancelled
		if seen[s.HoldID] || orders[s.Order] {
			t.once.broken("hold %s, order %s: more than one sale", s.HoldID, s.Order)
		}
		seen[s.HoldID], orders[s.Order] = true, true
		l := buyers[s.HoldID]
		switch {
		case l == nil || l.asked == never:
			t.once.broken("hold %s, order %s: a sale that nobody asked for", s.HoldID, s.Order)
		case l.confirmed == never && !l.open:
			t.hold.broken("hold %s, order %s: a sale whose confirm was refused", s.HoldID, s.Order)
		case s.Quantity != l.quantity || s.Cancelled != 0 || s.Order != t.Buyer(l.buyer).Order:
			t.once.broken("hold %s: %d units asked for under order %s, sold: %+v", s.HoldID, l.quantity, t.Buyer(l.buyer).Order, s)
		case s.Token != l.hold.Token && !t.isLost(l):
			t.fenced.broken("hold %s has token %v, its sale %v", s.HoldID, l.hold.Token, s.Token)
		}
	}
	for _, l := range t.lives {
		if l.soldTold != never && l.hold != nil && !seen[l.hold.ID] {
			t.hold.broken("hold %s: its buyer was told that it is sold, and the ledger has no sale of it", l.hold.ID)
		}
	}
	t.once.Facts += fmt.Sprintf("; %s sales, %s units confirmed", figures.Count(len(f.Sales)), figures.Count(t.confirmed))
	return units
}

// judgeList compares the server's holds with those that buyers were told of.
func (t *trial) judgeList(f *Final) {
	type key struct{ buyer, request string }
	listed := map[string]Hold{}
	live := map[key]string{}
	for _, h := range f.Holds {
		listed[h.ID] = h
		k := key{h.Buyer, h.Request}
		if other, there := live[k]; there && other != h.ID {
			t.once.broken("buyer %s has holds %s and %s of the same request", h.Buyer, other, h.ID)
		}
		live[k] = h.ID
	}
	for _, l := range t.lives {
		if l.hold == nil {
			continue
		}
		h, there := listed[l.hold.ID]
		switch {
		case !there && t.isLost(l):
		case !there:
			t.hold.broken("hold %s: the server does not know it any more", l.hold.ID)
		case h.Quantity != l.quantity || (h.Token != l.hold.Token && !t.isLost(l)):
			t.hold.broken("hold %s: %d units %v were answered, the server has %d %v", h.ID, l.quantity, l.hold.Token, h.Quantity, h.Token)
		case l.soldTold != never && h.State != Sold && !f.isUnfinished(h):
			t.hold.broken("hold %s: its buyer was told that it is sold, and it is %s", h.ID, h.State)
		case l.pinTold != never && (h.State == Held || h.State == Lapsed) && !t.isLost(l):
			t.hold.broken("hold %s: it is %s, though its confirm had begun", h.ID, h.State)
		case h.State == Cancelled:
			t.hold.broken("hold %s is cancelled, which nobody asked for", h.ID)
		case f.Settled && (h.State == Held || h.State == Confirming):
			t.hold.broken("hold %s: its deadline has passed, and it is %s", h.ID, h.State)
		}
	}
}

// isUnfinished tells whether a hold's confirm was under way in a reading that is not settled. The ledger may have decided it
// and its buyer been told so: Redis is told later, by a supervisor if need be.
func (f *Final) isUnfinished(h Hold) bool { return !f.Settled && h.State == Confirming }

// judgeUnfinished counts the confirms that were under way, and looks at what a reconcile found beside them.
func (t *trial) judgeUnfinished(f *Final) {
	unfinished, units := 0, map[string]int64{} // by buyer
	for _, h := range f.Holds {
		if f.isUnfinished(h) {
			unfinished++
			units[h.Buyer] += h.Quantity
		}
	}
	if unfinished > 0 {
		t.hold.Facts += fmt.Sprintf("; confirms not finished yet in the end: %s", figures.Count(unfinished))
	}
	for _, finding := range f.Findings {
		// The ledger has what Redis does not have yet of this buyer.
		if missing := -finding.Difference; missing > 0 && missing <= units[finding.Buyer] {
			continue
		}
		t.conserved.broken("ReconcileAllotment: %s", finding.What)
	}
}

// judgeNotTold looks for what the server has and buyers cannot know of: holds that only refused requests can have made, and
// holds and sales that do not fit together.
func (t *trial) judgeNotTold(f *Final) {
	mayHave := map[string]*life{} // by buyer
	for _, l := range t.lives {
		if l.from != never {
			mayHave[t.Buyer(l.buyer).ID] = l
		}
	}
	sold := map[string]bool{}
	for _, s := range f.Sales {
		sold[s.HoldID] = true
	}
	for _, h := range f.Holds {
		l := mayHave[h.Buyer]
		switch {
		case l == nil || h.Request != t.Buyer(l.buyer).Request:
			t.once.broken("hold %s of buyer %s, request %s: the server has it, and every such request was refused", h.ID, h.Buyer, h.Request)
		case f.Settled && (h.State == Sold) != sold[h.ID]:
			t.hold.broken("hold %s is %s, and whether the ledger has a sale of it: %t", h.ID, h.State, sold[h.ID])
		}
	}
}

// String is a state's name.
func (s State) String() string {
	names := [...]string{"of no state", "HELD", "CONFIRMING", "SOLD", "CANCELLED", "LAPSED"}
	if int(s) < len(names) {
		return names[s]
	}
	return "of an unknown state"
}
