package inventory

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/failpoint"
)

const (
	scanBuckets = 64   // most hashes walked in one call, and
	scanRecords = 512  // how many records it should find: a call of many takes Redis too long
	scanEmpty   = 512  // most hashes walked in one call while none is there: buyers are spread evenly, so few will be
	writeBatch  = 256  // records or buyers set in one call
	keepBatch   = 1000 // records indexed in one call
	lookupBatch = 1000 // outcomes read in one statement
)

// rebuild is one adopt under a claim: from what survives in Redis and what the ledger knows to new
// counters. Every step in Redis checks the claim; all of it may be done twice.
type rebuild struct {
	v     *Inventory
	row   store.Allotment
	claim string
	past  store.Past

	seen   map[string]bool          // tags of the records that survive
	recent map[string]store.Outcome // by tag: those of the retention that no survivor has had yet

	plan     *plan
	raised   bool // the epoch is; before that, nothing is changed
	wentBack bool // Postgres: Redis knew a newer epoch, change or sale
}

func (r *rebuild) run(ctx context.Context) error {
	p := r.row.Place
	if p.Group != p.Allotment {
		r.v.supervisor.setHint(ctx, p) // perhaps on another master: that it is away keeps this one from nothing
	} else if err := r.v.redis.SetPlace(ctx, p); err != nil {
		return err
	}
	failpoint.Hit("adopt-after-begin")
	row, wentBack, err := r.v.o.Background.RaiseEpoch(ctx, p.Allotment, r.row.Epoch, r.past.Epoch, r.past.Feed)
	if wentBack {
		r.rewound(ctx, nil)
	}
	if err != nil {
		return err
	}
	r.row, r.raised = row, true
	failpoint.Hit("adopt-after-raise")
	r.plan = newPlan(r.row, r.past, r.v.o.Retention)
	// Neither changes any more: the epoch is raised, and the claim keeps others out.
	if err := r.sales(ctx); err != nil {
		return err
	}
	if err := r.survivors(ctx); err != nil {
		return err
	}
	r.plan.fit()
	if len(r.plan.lostSales) > 0 {
		r.rewound(ctx, r.plan.lostSales)
		if _, err = r.v.o.Background.Pause(ctx, p.Allotment, r.row.Epoch); err != nil {
			return err
		}
		r.row.State = store.StatePaused // its feed row, and what came before it, is applied afterwards
	}
	if err := r.write(ctx); err != nil {
		return err
	}
	failpoint.Hit("adopt-before-end")
	return r.v.redis.AdoptEnd(ctx, r.row, r.claim, r.plan.counters(r.row), r.past.Sequence)
}

// rewound tells that Postgres has gone back in time, and which holds' sales it has lost. That is counted and logged at once: if this
// adopt fails, the next may not see it.
func (r *rebuild) rewound(ctx context.Context, lost []string) {
	if !r.wentBack {
		r.v.metrics.rewinds.Add(ctx, 1)
	}
	r.wentBack = true
	r.v.log.Error("Postgres has gone back in time: sales or changes that Redis knows are missing; unless it is CLOSED, the allotment is paused by its adopt, until an operator resumes it",
		slog.String("allotment", r.row.Place.Allotment), slog.Int("sales_missing", len(lost)),
		slog.Any("holds", lost[:min(len(lost), lostLogged)]))
}

// survivors walks the records that Redis still has, and compares them with the ledger, so many at a time.
func (r *rebuild) survivors(ctx context.Context) error {
	r.seen = map[string]bool{}
	var records []store.Record
	err := r.v.walk(ctx, r.row.Place, r.claim, func(part store.Part) error {
		for _, tag := range part.Damaged {
			r.plan.damaged(tag)
		}
		for _, e := range part.Buyers {
			r.plan.found[e.Key] = e
		}
		for _, record := range part.Records {
			if !r.seen[record.ID.Tag] { // a walk may meet a record twice
				r.seen[record.ID.Tag] = true
				records = append(records, record)
			}
		}
		if len(records) < lookupBatch {
			return nil
		}
		defer func() { records = records[:0] }()
		return r.decide(ctx, records)
	})
	if err != nil {
		return err
	}
	r.seen = nil
	return r.decide(ctx, records)
}

// sales reads the holds that ended in the ledger within the retention, and what each buyer has of all sales.
func (r *rebuild) sales(ctx context.Context) error {
	id := r.row.Place.Allotment
	r.recent = map[string]store.Outcome{}
	for after, since := "", time.Now().Add(-r.v.o.Retention); ; {
		outcomes, err := r.v.o.Background.RecentOutcomes(ctx, id, since, after, lookupBatch)
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			r.recent[o.ID.Tag] = o
			since, after = o.DecidedAt, o.ID.String()
		}
		if len(outcomes) < lookupBatch {
			break
		}
	}
	return r.v.o.Background.BuyerTotals(ctx, id, r.row.Feed, func(buyer string, sold int64) error {
		r.plan.sold(buyer, sold)
		return nil
	})
}

// walk calls f with every part of the hashes of an allotment. It takes few of them at first, and more while
// they hold little.
func (v *Inventory) walk(ctx context.Context, p store.Place, claim string, f func(store.Part) error) error {
	for first, width := 0, 4; first < p.Buckets; {
		last := min(first+width, p.Buckets)
		found, err := v.walkBuckets(ctx, p, claim, first, last, f)
		if err != nil {
			return err
		}
		first, width = last, nextWidth(width, found)
	}
	return nil
}

// nextWidth is how many hashes to walk in one call after one of so many has found so many records.
func nextWidth(width, found int) int {
	switch {
	case found == 0:
		return min(2*width, scanEmpty)
	case found > scanRecords:
		width = max(1, width/2)
	case found < scanRecords/2:
		width *= 2
	}
	return min(width, scanBuckets)
}

// walkBuckets walks some hashes to their end and returns how many entries it found.
func (v *Inventory) walkBuckets(ctx context.Context, p store.Place, claim string, first, last int,
	f func(store.Part) error,
) (found int, err error) {
	var buckets []int
	var cursors []string
	for i := first; i < last; i++ {
		buckets, cursors = append(buckets, i), append(cursors, "")
	}
	for len(buckets) > 0 {
		parts, err := v.redis.Scan(ctx, p, claim, buckets, cursors)
		if err != nil {
			return found, err
		}
		var more []int
		cursors = cursors[:0]
		for i, part := range parts {
			found += len(part.Records) + len(part.Buyers)/2
			if err := f(part); err != nil {
				return found, err
			}
			if part.Next != "" {
				more, cursors = append(more, buckets[i]), append(cursors, part.Next)
			}
		}
		buckets = more
	}
	return found, nil
}

// decide compares survivors with the ledger.
func (r *rebuild) decide(ctx context.Context, survivors []store.Record) error {
	for records := range slices.Chunk(survivors, lookupBatch) {
		older, err := r.older(ctx, records)
		if err != nil {
			return err
		}
		for _, record := range records {
			tag := record.ID.Tag
			o, found := r.recent[tag]
			if !found {
				o, found = older[tag]
			}
			delete(r.recent, tag)
			r.plan.survivor(record, o, found)
		}
	}
	return nil
}

// older looks up those of the records of which no recent outcome is known.
func (r *rebuild) older(ctx context.Context, records []store.Record) (map[string]store.Outcome, error) {
	var tags []string
	for _, record := range records {
		if _, known := r.recent[record.ID.Tag]; !known {
			tags = append(tags, record.ID.Tag)
		}
	}
	if len(tags) == 0 {
		return nil, nil
	}
	return r.v.o.Background.Outcomes(ctx, r.row.Place.Allotment, tags)
}

func (r *rebuild) write(ctx context.Context) error {
	p := r.row.Place
	if err := r.v.redis.AdoptReset(ctx, p, r.claim); err != nil {
		return err
	}
	failpoint.Hit("adopt-after-reset")
	for kept := range slices.Chunk(r.plan.kept, keepBatch) {
		if err := r.v.redis.AdoptKeep(ctx, p, r.claim, kept); err != nil {
			return err
		}
	}
	buyers := r.plan.entries()
	for records := range slices.Chunk(r.plan.records, writeBatch) {
		if err := r.writeRecords(ctx, records, buyers); err != nil {
			return err
		}
	}
	if err := r.writeEnded(ctx, buyers); err != nil {
		return err
	}
	for others := range slices.Chunk(slices.Collect(maps.Values(buyers)), writeBatch) {
		if err := r.v.redis.AdoptWrite(ctx, p, r.claim, nil, others); err != nil {
			return err
		}
	}
	return nil
}

// writeEnded writes the holds of which Redis has no record and the ledger a recent outcome.
func (r *rebuild) writeEnded(ctx context.Context, buyers map[store.BuyerKey]store.BuyerEntry) error {
	batch := make([]store.Record, 0, writeBatch)
	for _, o := range r.recent {
		batch = append(batch, r.plan.endedRecord(outcomeHold(o), o))
		if len(batch) < writeBatch {
			continue
		}
		if err := r.writeRecords(ctx, batch, buyers); err != nil {
			return err
		}
		batch = batch[:0]
	}
	if len(batch) == 0 {
		return nil
	}
	return r.writeRecords(ctx, batch, buyers)
}

// writeRecords writes a buyer's entry with the first of its records, which is mostly the only one and beside it, and takes it
// off those that are left.
func (r *rebuild) writeRecords(ctx context.Context, records []store.Record, left map[store.BuyerKey]store.BuyerEntry) error {
	var theirs []store.BuyerEntry
	for _, record := range records {
		key := record.ID.BuyerKey()
		if e, found := left[key]; found {
			theirs = append(theirs, e)
			delete(left, key)
		}
	}
	return r.v.redis.AdoptWrite(ctx, r.row.Place, r.claim, records, theirs)
}
