// Package store holds the values, the outcomes and the small interfaces that the parts of
// Holdfast share. It knows no driver, no protobuf and no status code: store/holds (Redis) and
// store/ledger (Postgres) implement the interfaces, server/inventory uses them.
package store

import "time"

// AllotmentState says whether an allotment gives new holds. The numbers are stored.
type AllotmentState int

// The states of an allotment. PAUSED and CLOSED stop new holds only (CLOSED extensions too):
// what was promised can still be confirmed and cancelled.
const (
	StateOpen   AllotmentState = 1
	StatePaused AllotmentState = 2
	StateClosed AllotmentState = 3
)

// LateConfirm says what a confirm that comes after the deadline gets. The numbers are stored.
type LateConfirm int

// The policies for late confirms.
const (
	LateAccept LateConfirm = 1 // taken again if the stock is still free
	LateReject LateConfirm = 2 // always refused as HOLD_LAPSED
)

// Limits of the values of an allotment, as proto/holdfast/v1/allotment.proto has them.
const (
	MaxCapacity            = 1_000_000_000
	DefaultHoldDuration    = 120 * time.Second
	DefaultMaxHoldDuration = 360 * time.Second
	DefaultMaxPerHold      = 10
)

// Rules are the settings of an allotment that an operator may change while it sells.
type Rules struct {
	State           AllotmentState
	LateConfirm     LateConfirm
	HoldDuration    time.Duration // how long a new or extended hold lasts
	MaxHoldDuration time.Duration // in all, from creation, however often extended
	MaxPerHold      int64         // units in one hold
	MaxPerBuyer     int64         // units held and sold of one buyer; 0: no limit
	OpensAt         time.Time     // zero: at once
	ClosesAt        time.Time     // zero: never
}

// Place says where an allotment's state is kept in Redis. It never changes.
type Place struct {
	Allotment string
	Group     string
	Buckets   int // number of hashes that its hold records are spread over; a power of two
}

// Allotment is a row of the ledger: a limited resource opened for sale.
type Allotment struct {
	Place
	Rules
	LongestHold time.Duration // the longest HoldDuration it has had: no hold has ever had more time left

	Capacity   int64
	Sold       int64
	Epoch      int64 // generation of its Redis state; 0: never in Redis yet
	EpochTime  time.Time
	Feed       int64 // number of its last change that goes to Redis
	Version    int64 // rises with each change by an operator, and with each cancelled sale while retired; the etag
	Retired    bool  // closed, left Redis, answered from the ledger
	CreateTime time.Time
	UpdateTime time.Time
}

// Token is a hold's fencing token: given at creation, kept for its life.
type Token struct {
	Epoch    int64
	Sequence int64
}

// After says that a hold with token t was made after one with token u.
func (t Token) After(u Token) bool {
	return t.Epoch > u.Epoch || t.Epoch == u.Epoch && t.Sequence > u.Sequence
}

// HoldState is the state of a hold. The numbers are stored.
type HoldState int

// The states of a hold.
const (
	Held       HoldState = 1
	Confirming HoldState = 2
	Sold       HoldState = 3
	Cancelled  HoldState = 4
	Lapsed     HoldState = 5
)

// Hold is a quantity taken for a buyer until a deadline, as Redis (or, long after, the ledger) knows it.
type Hold struct {
	ID         HoldID
	BuyerID    string // empty: the pinned units of a shrink
	RequestID  string
	Quantity   int64 // units held when it was created; Pinned says how many of them were sold
	State      HoldState
	Token      Token
	CreateTime time.Time
	ExpireTime time.Time
	Remaining  time.Duration // until ExpireTime, by the clock of Redis; 0 unless HELD
	OrderID    string        // set while CONFIRMING and SOLD
	Ended      EndReason     // why a CANCELLED hold ended; SoldEarlier
	Pinned     *Pinned       // set while CONFIRMING and SOLD
	Cart       string        // fingerprint of the cart it was created in; empty: it was alone
}

// EndReason says more of how a hold ended, most of all why it was cancelled. The numbers are stored.
type EndReason int

// The reasons for CANCELLED.
const (
	EndedByCaller EndReason = 0
	EndedByOrder  EndReason = 1 // the order had bought from this allotment under another hold
	EndedByRoom   EndReason = 2 // the ledger had no room: Redis was wrong
	EndedByCart   EndReason = 3 // another line of its cart was refused
	// SoldEarlier is of a SOLD hold: the sale is that of an earlier hold of the same id, whose record had been purged.
	SoldEarlier EndReason = 4
)

// Pinned is what confirm-begin noted in a CONFIRMING hold.
type Pinned struct {
	Quantity int64    // units to be sold; the rest of the hold goes back at finish
	Cart     []HoldID // every hold of the cart, this one included; nil when alone
}

// Availability is what can be said of an allotment's stock at one moment.
type Availability struct {
	Allotment string
	Capacity  int64
	Available int64 // never below 0
	Held      int64 // confirming and pending shrinks included
	Sold      int64
	Version   int64
	State     AllotmentState
	NextLapse time.Time // earliest deadline; zero: no live hold
	ReadTime  time.Time
}

// Sale is a row of the ledger.
type Sale struct {
	ID         HoldID
	BuyerID    string
	OrderID    string
	Quantity   int64 // sold, cancelled units included
	Cancelled  int64
	Token      Token
	RequestID  string // of the hold
	SoldTime   time.Time
	CancelTime time.Time // of the last cancellation; zero: none
}
