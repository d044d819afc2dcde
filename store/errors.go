package store

import (
	"errors"
	"fmt"
	"time"
)

// Reason is why a request was refused: the final business answers and the caller's mistakes.
// The texts are those of the API's ErrorReason.
type Reason string

// The reasons that stores and use cases give. See ErrorReason in the proto for their meaning.
const (
	SoldOut           Reason = "SOLD_OUT"
	AllHeld           Reason = "ALL_HELD"
	HoldConfirming    Reason = "HOLD_CONFIRMING"
	OrderExists       Reason = "ORDER_EXISTS"
	BuyerLimit        Reason = "BUYER_LIMIT"
	NotOpen           Reason = "NOT_OPEN"
	Paused            Reason = "PAUSED"
	Closed            Reason = "CLOSED"
	HoldLapsed        Reason = "HOLD_LAPSED"
	HoldCancelled     Reason = "HOLD_CANCELLED"
	HoldSold          Reason = "HOLD_SOLD"
	SaleCancelled     Reason = "SALE_CANCELLED"
	ExtensionLimit    Reason = "EXTENSION_LIMIT"
	RequestMismatch   Reason = "REQUEST_MISMATCH"
	OrderMismatch     Reason = "ORDER_MISMATCH"
	StaleToken        Reason = "STALE_TOKEN"
	StaleEtag         Reason = "STALE_ETAG"
	CapacityInUse     Reason = "CAPACITY_IN_USE"
	DifferentGroups   Reason = "DIFFERENT_GROUPS"
	AllotmentNotFound Reason = "ALLOTMENT_NOT_FOUND"
	AllotmentExists   Reason = "ALLOTMENT_EXISTS"
	HoldNotFound      Reason = "HOLD_NOT_FOUND"
	SaleNotFound      Reason = "SALE_NOT_FOUND"
)

// Refusal is a definite "no" with the facts that justify it. Nothing was changed. Fields that a
// reason does not need are zero.
type Refusal struct {
	Reason    Reason
	Allotment string

	Requested, Capacity, Sold, Held, Version int64
	NextLapse                                time.Time

	HoldID        string        // the buyer's own live hold, the hold of ORDER_EXISTS, or the hold asked for
	HoldRemaining time.Duration // of the buyer's own live hold

	Limit, BuyerHeld, BuyerSold int64
	OpensAt, ClosesAt           time.Time
	OrderID                     string
	SmallestCapacity            int64
	Field                       string // what differs, for REQUEST_MISMATCH
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s (allotment %s)", r.Reason, r.Allotment)
}

// Refused returns the refusal in err's chain with this reason, or nil.
func Refused(err error, reason Reason) *Refusal {
	var r *Refusal
	if errors.As(err, &r) && r.Reason == reason {
		return r
	}
	return nil
}

// InvalidField is a caller's value that only a store can judge, such as a quantity above the
// allotment's rule. Nothing was changed.
type InvalidField struct {
	Field   string // as the proto names it
	Problem string // what is wrong and what is allowed
}

func (e *InvalidField) Error() string { return e.Field + ": " + e.Problem }

// Trouble: nothing was decided, or it is not known. The caller repeats with the same ids.
var (
	// ErrUnavailable: a store could not be reached, did not answer in time, or refused to work.
	// A write may or may not have happened; repeating it with the same ids is safe.
	ErrUnavailable = errors.New("store unavailable")
	// ErrQueueFull: too many requests are waiting. Nothing was done.
	ErrQueueFull = errors.New("queue full")
	// ErrRebuilding: the allotment's Redis state is being adopted; nothing was decided.
	ErrRebuilding = errors.New("allotment is being rebuilt")
	// ErrResultUnknown: the step began and its end is not known yet; the supervisor ends it.
	ErrResultUnknown = errors.New("result not known yet")
	// ErrStale: the write ran under an epoch, claim or row version that is no longer the current
	// one. Nothing was changed.
	ErrStale = errors.New("superseded")
	// ErrConstraint: the database refused what must never be asked of it. Always a bug.
	ErrConstraint = errors.New("ledger constraint violated")
)

// Rejection is why a store that answers refuses to work, as when it is out of memory: nothing was done. (Or, if its replicas did not
// acknowledge it, that is not known.) It goes with ErrUnavailable.
type Rejection struct {
	Store string // as people call it: Redis
	Kind  string // one of few, and no secret: OOM
	Err   error  // what the store said
}

func (e *Rejection) Error() string {
	return e.Store + " refuses to work (" + e.Kind + "): " + e.Err.Error()
}

// Unwrap returns what the store said.
func (e *Rejection) Unwrap() error { return e.Err }

// AdoptNeeded says that the Redis state of these allotments is missing, foreign or being
// adopted. Nothing was changed for any of them.
type AdoptNeeded struct{ Places []Place }

func (e *AdoptNeeded) Error() string {
	return fmt.Sprintf("%d allotments must be adopted, %s first", len(e.Places), e.Places[0].Allotment)
}
