package store

// Line is one line of a cart: a quantity of an allotment.
type Line struct {
	Allotment string
	Quantity  int64
}

// ConfirmHold asks to turn a hold into a sale.
type ConfirmHold struct {
	ID       HoldID
	OrderID  string
	Quantity int64  // 0: the whole hold; otherwise the rest is given back
	Token    *Token // if set, must be the hold's
}

// AdjustCapacity asks to change an allotment's capacity by Delta units.
type AdjustCapacity struct {
	Allotment string
	Delta     int64
	RequestID string
	DryRun    bool
}

// HoldFilter narrows ListHolds; empty fields match all.
type HoldFilter struct {
	Allotment string
	BuyerID   string
	States    []HoldState
}

// FindingKind is what reconcile found to be off.
type FindingKind int

// The kinds of findings.
const (
	FindingMissing  FindingKind = iota + 1 // the allotment has no state in Redis
	FindingEpoch                           // Redis and ledger disagree on the epoch
	FindingCapacity                        // Redis and ledger disagree on the capacity
	FindingSold                            // Redis and ledger disagree on the units sold
	FindingHeld                            // the counter is not the sum of the holds
	FindingFree                            // the free counter is not what the rest leaves
	FindingHold                            // a hold record is damaged, or decided otherwise in the ledger
	FindingBuyer                           // a buyer's totals are not the sum of its holds and sales
	FindingOversold                        // the ledger itself has sold more than its capacity
	FindingIndex                           // a hold is missing in, or left over in, an index
)

// Finding is one difference between Redis, the ledger and the holds, standing in two reads.
type Finding struct {
	Kind       FindingKind
	Allotment  string
	HoldID     string // with FindingHold and FindingIndex
	BuyerID    string // with FindingBuyer
	What       string
	Difference int64 // actual minus expected, in units; 0 where it is no number
	Expected   string
	Actual     string
	Action     string // what applying does, or did
}
