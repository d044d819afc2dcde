package store

import (
	"context"
	"time"
)

// PlacedLine is a line of a cart with the place of its allotment.
type PlacedLine struct {
	Place
	Quantity int64
}

// PlacedHold is a hold with the place of its allotment.
type PlacedHold struct {
	Place
	ID HoldID
}

// CreateRequest asks for holds, all or nothing. The lines are of one group, one for each
// allotment, sorted by it.
type CreateRequest struct {
	BuyerID   string
	RequestID string
	Lines     []PlacedLine
}

// BeginRequest asks to pin the holds of a cart for an order, all or nothing.
type BeginRequest struct {
	OrderID  string
	Holds    []PlacedHold // of one group, one for each allotment
	Cart     []HoldID     // every hold of the cart; nil when alone
	Quantity int64        // 0: all of each; otherwise of the only hold
	Token    *Token       // if set, compared with the only hold's
	Lease    time.Duration
	Prompt   bool // a lapsed hold is not taken again
}

// Begun is a hold that confirm-begin, a shrink or a claim left CONFIRMING (or found SOLD).
type Begun struct {
	Hold
	Epoch int64 // under which the script ran
}

// ShrinkRequest asks to pin units that are to be taken off the capacity.
type ShrinkRequest struct {
	PlacedHold
	RequestID string
	Units     int64
	Lease     time.Duration
	DryRun    bool
}

// FinishLine brings the ledger's verdict on a hold back to Redis.
type FinishLine struct {
	PlacedHold
	Verdict Verdict
}

// Counters are an allotment's numbers in Redis at one moment.
type Counters struct {
	Place
	Epoch, Capacity, Available, Held, Confirming, Shrinking, Sold int64
	Version, Feed                                                 int64
	State                                                         AllotmentState
	NextLapse                                                     time.Time // zero: no live hold
	Now                                                           time.Time // by the clock of Redis
}

// Off is by how much the counters miss conservation, in units; 0 is right.
func (c Counters) Off() int64 {
	return c.Available + c.Held + c.Confirming + c.Shrinking + c.Sold - c.Capacity
}

// Shown is what callers are told of units held, those that are confirming or being taken off included, and sold. When a sale was
// cancelled before its confirm is finished, fewer than none are sold: so many of those that confirm are free again.
func Shown(held, sold int64) (int64, int64) { return held + min(sold, 0), max(sold, 0) }

// LapseDriver is what drove the release of lapsed holds.
type LapseDriver string

// The drivers of a lapse.
const (
	LapseByEvent LapseDriver = "event" // a keyspace notification
	LapseBySweep LapseDriver = "sweep" // a loop that reads the deadlines
	LapseByNeed  LapseDriver = "need"  // a request that needs the stock, or cancels the hold
)

// Work is what is due at an allotment.
type Work struct {
	Counters
	Server     string   // identity of the Redis that has it
	Lapsed     []HoldID // live holds whose deadline has passed
	Confirms   []HoldID // confirms and shrinks whose lease ran out
	Ended      []HoldID // ended holds to be forgotten
	Remembered int64    // ended holds in all
	Pending    int64    // confirms and shrinks under way in all
}

// Every method of Holds, Confirms and Upkeep returns *AdoptNeeded, having changed nothing, when an
// allotment's Redis state is missing, foreign or being adopted; ErrUnavailable when Redis could not
// be asked or did not answer in time (a write may have happened: repeat it with the same ids); and
// ErrQueueFull when too many wait. With a dead ctx they do nothing, or nothing is known of the result.

// Holds decides on stock.
type Holds interface {
	// Create gives the holds, or what the same request got before, as it is now. Refusals: as
	// CreateHold's in the API; InvalidField for a quantity above the allotment's rule.
	Create(ctx context.Context, r CreateRequest) ([]Hold, error)
	// Get returns a hold; HoldNotFound if there is no record.
	Get(ctx context.Context, h PlacedHold) (Hold, error)
	// Extend gives a live hold its duration from now. HoldNotFound, HoldLapsed, ExtensionLimit, ...
	Extend(ctx context.Context, h PlacedHold) (Hold, error)
	// Cancel ends a live hold and returns it; an ended one is returned as it is, but HoldSold and
	// HoldConfirming are refusals.
	Cancel(ctx context.Context, h PlacedHold) (Hold, error)
	// Counters reads the numbers of allotments of one group, after releasing what is due.
	Counters(ctx context.Context, places []Place) ([]Counters, error)
}

// Confirms takes holds towards the ledger and back.
type Confirms interface {
	// Begin pins the holds; a repeat with the same content finds them pinned or sold. Refusals
	// name the hold; HoldNotFound if there is no record.
	Begin(ctx context.Context, r BeginRequest) ([]Begun, error)
	// Finish ends the holds as the ledger decided; whatever has ended stays as it is.
	Finish(ctx context.Context, lines []FinishLine) error
	// Claim takes over those of the holds of one allotment whose lease ran out, for this long.
	Claim(ctx context.Context, p Place, ids []HoldID, lease time.Duration) ([]Begun, error)
	// Shrink pins the units, a repeat finds them pinned or taken off. CapacityInUse if they are not free.
	Shrink(ctx context.Context, r ShrinkRequest) (Begun, error)
}

// Upkeep is what loops do. All of it may be done twice.
type Upkeep interface {
	// Due names up to limit holds of each kind of work at allotments of one group, and notes the time.
	Due(ctx context.Context, places []Place, limit int) ([]Work, error)
	// Release ends those of the holds of one allotment whose deadline has passed, and returns how many those were.
	Release(ctx context.Context, p Place, ids []HoldID, by LapseDriver) (int, error)
	// Purge forgets those of the ended holds of one allotment whose time is over.
	Purge(ctx context.Context, p Place, ids []HoldID) error
	// Apply applies changes in order, and returns the epoch it ran under and the last number applied, which is
	// below that of the first change if one before it is missing.
	Apply(ctx context.Context, p Place, changes []Change) (epoch, feed int64, err error)
	// Leave removes a retired allotment in which nothing lives or is remembered and feed is applied, or whose
	// state is of another server and of no newer epoch than this; ErrStale if that is not so. Nothing there: it does nothing.
	Leave(ctx context.Context, p Place, epoch, feed int64) error
	// Asked returns how many requests for holds this replica sent to Redis for each allotment since the last call.
	Asked() map[string]int64
	// OnDamage names who is told of an allotment with a record that is missing or cannot be read: its units stay
	// taken until it is adopted. It must return at once.
	OnDamage(f func(Place))
}

// Past is what an adopt finds of an allotment's earlier state in Redis; 0 is not known.
type Past struct {
	Epoch, Feed, Sequence, Version int64
	Time                           time.Time // when a supervisor last noted the time
	Now                            time.Time
}

// Record is a hold's record as an adopt reads and sets it.
type Record struct {
	Hold
	Units int64     // pinned, while CONFIRMING
	Base  time.Time // while HELD: the adopt from which ExpireTime counts; zero: none
	Lease time.Time // while CONFIRMING
	Index time.Time // when it is next due: deadline, lease, or to be purged; zero: remove the record
}

// Kept is the record of an ended hold that an adopt leaves as it is.
type Kept struct {
	Tag   string
	Index time.Time // when it is to be purged
}

// BuyerEntry is a buyer's totals at an allotment.
type BuyerEntry struct {
	Key        BuyerKey
	Held, Sold int64
	Live       int64
	Tags       []string // of the newest live holds; of a scanned entry without that at home
	Home       string   // of a scanned entry: the tag of the hold whose record is beside it; empty: none
}

// Part is a part of a walk over an allotment's hashes.
type Part struct {
	Records []Record
	Buyers  []BuyerEntry
	Damaged []string // tags, or odd fields, that cannot be read; "*": a whole hash

	DamagedBuyers []BuyerKey // whose entries, and the records beside them, cannot be read
	Next          string     // cursor of the rest; empty: the hash is done
}

// Rebuild is the steps of an adopt in Redis. A claim is a random text; a step under a claim that
// was taken over, or on another server than that of Begin, returns ErrStale and changes nothing.
type Rebuild interface {
	// AdoptBegin stops every other script at this allotment. A nil Past: another claim is in
	// force, for as long as the duration says; or, with 0 and unless renew, the allotment need not be adopted (any more).
	AdoptBegin(ctx context.Context, p Place, claim string, lease time.Duration, renew bool) (*Past, time.Duration, error)
	// AdoptRenew prolongs the claim, if it is still in force.
	AdoptRenew(ctx context.Context, p Place, claim string, lease time.Duration) error
	// AdoptDrop gives the claim up, if it is still in force: the next need not wait for its lease. If it is unused, no other step
	// was taken under it, and the state that was in force before it is so again, if there was one: an earlier adopt may have been given
	// up after AdoptReset.
	AdoptDrop(ctx context.Context, p Place, claim string, unused bool) error
	// Scan walks buckets, each from its cursor (empty: the start). With an empty claim it may be used at any
	// time; for an adopt it removes what cannot be read.
	Scan(ctx context.Context, p Place, claim string, buckets []int, cursors []string) ([]Part, error)
	// AdoptReset empties the indexes. Nothing is in force from then on until AdoptEnd.
	AdoptReset(ctx context.Context, p Place, claim string) error
	// AdoptKeep sets the index alone of records of ended holds that are to stay as Scan found them.
	AdoptKeep(ctx context.Context, p Place, claim string, records []Kept) error
	// AdoptWrite sets records, with index and marker, and buyers' entries; of these it removes who has nothing.
	AdoptWrite(ctx context.Context, p Place, claim string, records []Record, buyers []BuyerEntry) error
	// AdoptEnd puts the counters and the rules in force.
	AdoptEnd(ctx context.Context, a Allotment, claim string, c Counters, sequence int64) error
}

// Places keeps, beside the ledger, where allotments are, so that a replica that starts while
// Postgres is down can decide.
type Places interface {
	// Place returns the place, found or not.
	Place(ctx context.Context, allotment string) (Place, bool, error)
	// SetPlace notes it.
	SetPlace(ctx context.Context, p Place) error
}

// Events tells of lapsed holds as Redis announces them. They are hints: late, repeated, or lost.
type Events interface {
	// Listen calls lapsed for each announced hold, and gap when it hears announcements of which it may have missed some before,
	// with what says whether a place is one of those. Both must return at once. It ends with ctx.
	Listen(ctx context.Context, lapsed func(HoldID), gap func(at func(Place) bool))
}
