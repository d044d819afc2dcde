package inventory

import (
	"reflect"
	"slices"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// epochVersions keeps an allotment's version rising over epochs, even if the last one is lost. An epoch's versions begin
// with the row's, which has risen since the allotment was last answered from its row (retiredAvailability).
const epochVersions = 1_000_000_000

// entryTags is how many live holds a buyer's entry names.
const entryTags = 16

// plan is what an adopt is going to set: each surviving hold as the ledger and the time that it had
// left say, and what follows from that. It is pure: the same input gives the same plan.
type plan struct {
	row       store.Allotment
	past      store.Past
	retention time.Duration

	records []store.Record // to be written
	kept    []store.Kept   // of ended holds that stay as they are
	buyers  map[store.BuyerKey]*store.BuyerEntry
	found   map[store.BuyerKey]store.BuyerEntry // as Redis has them

	held, confirming, shrinking int64
	live, dropped               int
	lostSales                   []string // hold ids
}

func newPlan(row store.Allotment, past store.Past, retention time.Duration) *plan {
	return &plan{
		row: row, past: past, retention: retention,
		buyers: map[store.BuyerKey]*store.BuyerEntry{}, found: map[store.BuyerKey]store.BuyerEntry{},
	}
}

// survivor decides on one record that Redis still has.
func (p *plan) survivor(r store.Record, o store.Outcome, decided bool) {
	if decided && (o.Verdict.Kind == store.VerdictSold || !r.Token.After(o.Verdict.Token)) {
		if h := decidedHold(r, o); reflect.DeepEqual(h, r.Hold) {
			p.kept = append(p.kept, store.Kept{Tag: r.ID.Tag, Index: p.purgeTime(o)})
		} else {
			p.records = append(p.records, p.endedRecord(h, o))
		}
		return
	}
	switch r.State {
	case store.Held:
		r.ExpireTime, r.Base = p.past.Now.Add(p.left(r)), p.past.Now
		if !r.ExpireTime.After(p.past.Now) {
			r.State = store.Lapsed
		}
	case store.Confirming:
		r.Lease = p.past.Now // due at once: a supervisor drives it on under the new epoch
	case store.Sold:
		p.lostSales = append(p.lostSales, r.ID.String())
		r.State, r.Ended = store.Cancelled, store.EndedByRoom // once: the next adopt finds no lost sale any more
	default:
		if r.Index.IsZero() || r.Index.After(p.past.Now.Add(p.retention)) {
			r.Index = p.past.Now.Add(p.retention)
		}
		p.kept = append(p.kept, store.Kept{Tag: r.ID.Tag, Index: r.Index})
		return
	}
	p.add(r)
}

// left is the time that a live hold had at the last moment at which Redis is known to have been there: when the
// allotment's time was last noted, or later, when the hold was made, or when an adopt that was not ended set its
// deadline anew (by a clock that may be behind the one it was made by). So an outage takes nothing from it, and gives
// it no more than it had when it was made. When it was extended is not known, but not that it had more left then than
// a hold of the allotment ever could.
func (p *plan) left(r store.Record) time.Duration {
	from := p.past.Time
	switch {
	case r.Base.After(from):
		from = r.Base
	case r.Base.IsZero() && r.CreateTime.After(from):
		from = r.CreateTime
	}
	if from.IsZero() {
		from = p.past.Now
	}
	return min(r.ExpireTime.Sub(from), p.row.LongestHold)
}

// decidedHold is a record as its outcome says. What it had taken under another token goes back by
// itself: only what is live is counted.
func decidedHold(r store.Record, o store.Outcome) store.Hold {
	h := outcomeHold(o)
	h.Quantity, h.Cart, h.CreateTime, h.ExpireTime = r.Quantity, r.Cart, r.CreateTime, r.ExpireTime
	if h.State == store.Sold && (r.Token != h.Token || r.State == store.Sold && r.Ended == store.SoldEarlier) {
		h.Ended = store.SoldEarlier
	}
	return h
}

// endedRecord is the record of a hold that the ledger decided.
func (p *plan) endedRecord(h store.Hold, o store.Outcome) store.Record {
	return store.Record{Hold: h, Index: p.purgeTime(o)}
}

// purgeTime is when a hold that the ledger decided is to be forgotten.
func (p *plan) purgeTime(o store.Outcome) time.Time {
	return later(o.DecidedAt.Add(p.retention), p.past.Now)
}

// damaged removes a record that cannot be read; if the ledger knows the hold, it is written anew.
func (p *plan) damaged(tag string) {
	if tag == "*" {
		return
	}
	p.records = append(p.records, store.Record{Hold: store.Hold{ID: store.HoldID{Allotment: p.row.Place.Allotment, Tag: tag}}})
}

func (p *plan) add(r store.Record) {
	switch r.State {
	case store.Held:
		r.Index = r.ExpireTime
	case store.Confirming:
		r.Index = r.Lease
	default:
		if r.Index.IsZero() || r.Index.After(p.past.Now.Add(p.retention)) {
			r.Index = p.past.Now.Add(p.retention)
		}
	}
	p.records = append(p.records, r)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// fit counts what is live. The oldest HELD that fit stay, the others end; CONFIRMING ones are the
// ledger's to refuse.
func (p *plan) fit() {
	slices.SortFunc(p.records, func(a, b store.Record) int {
		if a.Token.After(b.Token) {
			return 1
		}
		if b.Token.After(a.Token) {
			return -1
		}
		return 0
	})
	room := p.row.Capacity - p.row.Sold
	var held []*store.Record
	for i := range p.records {
		r := &p.records[i]
		switch {
		case r.State == store.Held:
			held = append(held, r)
		case r.State == store.Confirming && r.BuyerID == "":
			p.shrinking += r.Units
		case r.State == store.Confirming:
			p.confirming += r.Units
		default:
			continue
		}
		p.live++
	}
	room -= p.confirming + p.shrinking
	for _, r := range held {
		if p.held+r.Quantity > room {
			r.State, r.Index = store.Lapsed, p.past.Now.Add(p.retention)
			p.dropped++
			p.live--
			continue
		}
		p.held += r.Quantity
	}
	p.countBuyers()
}

func (p *plan) countBuyers() {
	for _, r := range p.records {
		units := r.Units
		if r.State == store.Held {
			units = r.Quantity
		} else if r.State != store.Confirming {
			continue
		}
		if r.BuyerID == "" {
			continue
		}
		e := p.entry(r.BuyerID)
		e.Held += units
		e.Live++
		e.Tags = append(e.Tags, r.ID.Tag)
		e.Tags = e.Tags[max(0, len(e.Tags)-entryTags):]
	}
}

func (p *plan) sold(buyer string, units int64) {
	if units != 0 {
		p.entry(buyer).Sold += units
	}
}

func (p *plan) entry(buyer string) *store.BuyerEntry {
	key := store.NewBuyerKey(p.row.Place.Allotment, buyer)
	e := p.buyers[key]
	if e == nil {
		e = &store.BuyerEntry{Key: key}
		p.buyers[key] = e
	}
	return e
}

// entries are those that Redis does not have yet; who has nothing any more gets an empty one.
func (p *plan) entries() map[store.BuyerKey]store.BuyerEntry {
	entries := map[store.BuyerKey]store.BuyerEntry{}
	for key, e := range p.buyers {
		if found, known := p.found[key]; !known || !sameEntry(found, *e) {
			entries[key] = *e
		}
	}
	for key, found := range p.found {
		empty := store.BuyerEntry{Key: key}
		if p.buyers[key] == nil && !sameEntry(found, empty) {
			entries[key] = empty
		}
	}
	return entries
}

// sameEntry says whether an entry that was found is the one that is wanted.
func sameEntry(found, wanted store.BuyerEntry) bool {
	listed := slices.DeleteFunc(slices.Clone(wanted.Tags), func(tag string) bool { return tag == found.Home })
	return found.Held == wanted.Held && found.Sold == wanted.Sold && found.Live == wanted.Live && slices.Equal(found.Tags, listed)
}

// counters are what the plan and the row make. Available is 0, not less, if what is confirming
// alone is too much: the ledger refuses the excess.
func (p *plan) counters(row store.Allotment) store.Counters {
	return store.Counters{
		Place: row.Place, Epoch: row.Epoch, Capacity: row.Capacity, Sold: row.Sold, Feed: row.Feed, State: row.State,
		Held: p.held, Confirming: p.confirming, Shrinking: p.shrinking,
		Available: max(0, row.Capacity-row.Sold-p.held-p.confirming-p.shrinking),
		Version:   max(p.past.Version+1, (row.Epoch-1)*epochVersions+row.Version),
	}
}
