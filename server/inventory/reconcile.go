package inventory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// Reconcile compares Redis, the ledger and the holds of an allotment, twice, and returns what
// stands in both: what differs only once was traffic. With apply, an allotment with findings is
// adopted, which makes every number anew from the ledger and the holds that survive.
func (v *Inventory) Reconcile(ctx context.Context, id string, apply bool) ([]store.Finding, bool, error) {
	row, err := v.ledger.Allotment(ctx, id)
	if err != nil || row.Retired {
		return nil, false, err
	}
	findings, err := v.standing(ctx, row.Place)
	if err != nil || !apply || len(findings) == 0 {
		return findings, false, err
	}
	if err := v.adopter.renew(ctx, row.Place); err != nil {
		return nil, false, fmt.Errorf("adopt: %w", err)
	}
	for i := range findings {
		if findings[i].Kind != store.FindingOversold {
			findings[i].Action = "adopted: made anew from the ledger and the surviving holds"
		}
	}
	return findings, true, nil
}

func (v *Inventory) standing(ctx context.Context, p store.Place) ([]store.Finding, error) {
	first, err := v.compare(ctx, p)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	second, err := v.compare(ctx, p)
	if err != nil {
		return nil, err
	}
	again := map[store.Finding]bool{}
	for _, f := range second {
		again[identity(f)] = true
	}
	var both []store.Finding
	for _, f := range first {
		if again[identity(f)] {
			both = append(both, f)
		}
	}
	return both, nil
}

// identity is what makes a finding the same in two readings. Under traffic the numbers move while
// what they are off by stands; only a buyer's, which are not read in one moment, must be the very same.
func identity(f store.Finding) store.Finding {
	if f.Kind != store.FindingBuyer {
		f.Expected, f.Actual = "", ""
	}
	return f
}

// comparison is one reading of an allotment: Redis, ledger, Redis.
type comparison struct {
	row      store.Allotment
	counters store.Counters
	outcomes map[string]store.Outcome
	sums     map[store.BuyerKey]*buyerSum
	entries  map[store.BuyerKey]store.BuyerEntry
	damaged  map[store.BuyerKey]bool

	findings                    []store.Finding
	sumHeld, sumPinned, sumGone int64
}

// buyerSum is the units of a buyer that the holds and the ledger make.
type buyerSum struct {
	name         string // empty: neither knows it
	held, bought int64
}

const compareTries = 5 // readings of an allotment in which something changes meanwhile

func (v *Inventory) compare(ctx context.Context, p store.Place) ([]store.Finding, error) {
	for try := 1; ; try++ {
		findings, changed, err := v.compareOnce(ctx, p)
		var needed *store.AdoptNeeded
		if errors.As(err, &needed) {
			return []store.Finding{{
				Kind: store.FindingMissing, Allotment: p.Allotment, What: "no state in Redis that may be used",
				Expected: "counters of this server's identity", Action: adopting,
			}}, nil
		}
		if err != nil || !changed || try == compareTries {
			return findings, err
		}
	}
}

const adopting = "adopt: make every number anew from the ledger and the surviving holds"

func (v *Inventory) compareOnce(ctx context.Context, p store.Place) (findings []store.Finding, changed bool, err error) {
	before, err := v.redis.Counters(ctx, []store.Place{p})
	if err != nil {
		return nil, false, err
	}
	c := &comparison{counters: before[0], sums: map[store.BuyerKey]*buyerSum{}, entries: map[store.BuyerKey]store.BuyerEntry{}, damaged: map[store.BuyerKey]bool{}}
	records, err := c.read(ctx, v, p)
	if err != nil {
		return nil, false, err
	}
	for _, r := range records {
		c.record(r)
	}
	c.buyers()
	after, err := v.redis.Counters(ctx, []store.Place{p})
	if err != nil {
		return nil, false, err
	}
	changed = after[0].Version != before[0].Version
	c.totals(changed)
	return c.findings, changed, nil
}

func (c *comparison) read(ctx context.Context, v *Inventory, p store.Place) ([]store.Record, error) {
	var records []store.Record
	seen := map[string]bool{}
	err := v.walk(ctx, p, "", func(part store.Part) error { // which may meet what is in a growing hash twice
		for _, r := range part.Records {
			if !seen[r.ID.Tag] {
				seen[r.ID.Tag], records = true, append(records, r)
			}
		}
		for _, e := range part.Buyers {
			c.entries[e.Key] = e
		}
		for _, key := range part.DamagedBuyers {
			c.damaged[key] = true
			c.sum(key, "")
		}
		for _, field := range part.Damaged {
			c.hold(store.FindingHold, store.HoldID{Allotment: p.Allotment, Tag: field}.String(), "its record cannot be read", 0, "a record", "damaged")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c.row, err = v.ledger.Allotment(ctx, p.Allotment); err != nil {
		return nil, err
	}
	c.outcomes = map[string]store.Outcome{}
	for first := 0; first < len(records); first += lookupBatch {
		var tags []string
		for _, r := range records[first:min(first+lookupBatch, len(records))] {
			tags = append(tags, r.ID.Tag)
		}
		found, err := v.ledger.Outcomes(ctx, p.Allotment, tags)
		if err != nil {
			return nil, err
		}
		for tag, o := range found {
			c.outcomes[tag] = o
		}
	}
	return records, v.ledger.BuyerTotals(ctx, p.Allotment, c.counters.Feed, func(buyer string, sold int64) error {
		c.sum(store.NewBuyerKey(p.Allotment, buyer), buyer).bought += sold
		return nil
	})
}

// record looks at one hold, and adds up.
func (c *comparison) record(r store.Record) {
	o, decided := c.outcomes[r.ID.Tag]
	decided = decided && (o.Verdict.Kind == store.VerdictSold || !r.Token.After(o.Verdict.Token))
	switch r.State {
	case store.Held:
		c.sumHeld += r.Quantity
		c.sum(r.ID.BuyerKey(), r.BuyerID).held += r.Quantity
		if decided {
			c.hold(store.FindingHold, r.ID.String(), "is HELD, but the ledger decided it", 0, "ended", "HELD")
		}
		if !r.Index.Equal(r.ExpireTime) {
			c.hold(store.FindingIndex, r.ID.String(), "its deadline is not in the index, so it would not lapse", 0, timeText(r.ExpireTime), timeText(r.Index))
		}
	case store.Confirming:
		if r.BuyerID == "" {
			c.sumGone += r.Units
		} else {
			c.sumPinned += r.Units
			c.sum(r.ID.BuyerKey(), r.BuyerID).held += r.Units
		}
		if r.Index.IsZero() {
			c.hold(store.FindingIndex, r.ID.String(), "its lease is not in the index, so nobody would drive it on", 0, "a lease", "none")
		}
	case store.Sold:
		if !decided {
			c.hold(store.FindingHold, r.ID.String(), "is SOLD in Redis, but the ledger has no sale: has Postgres gone back in time?", -r.Quantity, "a sale", "none")
		}
	}
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return t.Format(time.RFC3339Nano)
}

// totals compares the counters with the ledger and with the sums of the holds. Those are of several
// moments if something changed meanwhile; then the counters, which are of one, are compared among themselves.
func (c *comparison) totals(changed bool) {
	n, row := c.counters, c.row
	c.number(store.FindingEpoch, "epoch", row.Epoch, n.Epoch)
	if n.Feed == row.Feed {
		if shrunk := n.Capacity - row.Capacity; shrunk < 0 || shrunk > n.Shrinking {
			c.number(store.FindingCapacity, "capacity", row.Capacity, n.Capacity)
		}
		if sold := row.Sold - n.Sold; sold < 0 || sold > n.Confirming {
			c.number(store.FindingSold, "units sold", row.Sold, n.Sold)
		}
	}
	c.number(store.FindingHeld, "units held", c.sumHeld, n.Held)
	c.number(store.FindingHeld, "units confirming", c.sumPinned, n.Confirming)
	c.number(store.FindingHeld, "units in pending shrinks", c.sumGone, n.Shrinking)
	live := c.sumHeld + c.sumPinned + c.sumGone
	if changed {
		live = n.Held + n.Confirming + n.Shrinking
	}
	c.number(store.FindingFree, "units available", n.Capacity-n.Sold-live, n.Available)
	if over := row.Sold - row.Capacity; over > 0 {
		c.findings = append(c.findings, store.Finding{
			Kind: store.FindingOversold, Allotment: c.row.Place.Allotment, What: "the ledger has sold more than the capacity",
			Difference: over, Expected: "at most " + strconv.FormatInt(row.Capacity, 10), Actual: strconv.FormatInt(row.Sold, 10),
			Action: "none: cancel sales or add capacity; nothing is sold meanwhile",
		})
	}
}

// sum is what the holds and the ledger make of a buyer.
func (c *comparison) sum(k store.BuyerKey, name string) *buyerSum {
	s := c.sums[k]
	if s == nil {
		s = &buyerSum{}
		c.sums[k] = s
	}
	if s.name == "" {
		s.name = name
	}
	return s
}

// buyers compares the buyers' entries with that; who has holds or sales must have one.
func (c *comparison) buyers() {
	for key, e := range c.entries {
		s := c.sum(key, "")
		c.buyer(s.name, "units held of a buyer", s.held, e.Held)
		c.buyer(s.name, "units sold of a buyer", s.bought, e.Sold)
	}
	for key, s := range c.sums {
		if c.damaged[key] {
			c.add(store.Finding{Kind: store.FindingBuyer, BuyerID: s.name, What: "a buyer's entry cannot be read", Expected: "an entry", Actual: "damaged"})
			continue
		}
		if _, found := c.entries[key]; !found {
			c.buyer(s.name, "units held of a buyer", s.held, 0)
			c.buyer(s.name, "units sold of a buyer", s.bought, 0)
		}
	}
}

func (c *comparison) buyer(id, what string, expected, actual int64) {
	if expected != actual {
		f := difference(store.FindingBuyer, what, expected, actual)
		f.BuyerID = id
		c.add(f)
	}
}

func (c *comparison) number(kind store.FindingKind, what string, expected, actual int64) {
	if expected != actual {
		c.add(difference(kind, what, expected, actual))
	}
}

func difference(kind store.FindingKind, what string, expected, actual int64) store.Finding {
	return store.Finding{
		Kind: kind, What: what, Difference: actual - expected,
		Expected: strconv.FormatInt(expected, 10), Actual: strconv.FormatInt(actual, 10),
	}
}

// hold notes a difference in one hold.
func (c *comparison) hold(kind store.FindingKind, id, what string, difference int64, expected, actual string) {
	c.add(store.Finding{Kind: kind, HoldID: id, What: what, Difference: difference, Expected: expected, Actual: actual})
}

// add notes a difference that adopting repairs.
func (c *comparison) add(f store.Finding) {
	f.Allotment, f.Action = c.counters.Allotment, adopting
	c.findings = append(c.findings, f)
}
