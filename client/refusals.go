package client

import (
	"strconv"
	"time"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// SoldOut is SOLD_OUT: fewer units are unsold than were asked for. It is so until a sale is cancelled or the capacity grows.
type SoldOut struct {
	Refusal

	AllotmentID          string
	Capacity, Sold, Held int64
	Requested            int64
	Version              int64     // of the allotment's numbers
	NextLapse            time.Time // of the earliest deadline of a hold; zero: not known
}

// AllHeld is ALL_HELD: enough is unsold, but too much of it held. Some may come back at NextLapse.
type AllHeld struct {
	Refusal

	AllotmentID          string
	Capacity, Sold, Held int64
	Requested            int64
	Version              int64     // of the allotment's numbers
	NextLapse            time.Time // of the earliest deadline of a hold; zero: not known
	HoldID               string    // this buyer's own live hold, to go on with; empty: none
	HoldRemaining        time.Duration
}

// BuyerLimit is BUYER_LIMIT: with what was asked for the buyer would have more than the allotment allows one to have.
type BuyerLimit struct {
	Refusal

	AllotmentID                 string
	Limit, BuyerHeld, BuyerSold int64
	Requested                   int64
	HoldID                      string // the buyer's live hold, to go on with; empty: none
	HoldRemaining               time.Duration
}

// NotOpen is NOT_OPEN: the sale begins at OpensAt.
type NotOpen struct {
	Refusal

	AllotmentID       string
	OpensAt, ClosesAt time.Time // zero: not set
}

// Paused is PAUSED: an operator has stopped the sale, and may let it go on.
type Paused struct {
	Refusal

	AllotmentID       string
	OpensAt, ClosesAt time.Time // zero: not set
}

// Closed is CLOSED: the sale is over.
type Closed struct {
	Refusal

	AllotmentID       string
	OpensAt, ClosesAt time.Time // zero: not set
}

// HoldLapsed is HOLD_LAPSED: the hold's deadline has passed, and its units could not be taken again. Or a repeat found the hold so.
type HoldLapsed struct {
	Refusal

	AllotmentID, HoldID string
}

// HoldCancelled is HOLD_CANCELLED: the hold was given back before, or refused for good. Or a repeat found it so.
type HoldCancelled struct {
	Refusal

	AllotmentID, HoldID string
}

// HoldSold is HOLD_SOLD: the hold is a sale, which can be neither extended nor given back as a hold. CancelSale cancels it.
type HoldSold struct {
	Refusal

	AllotmentID, HoldID string
	OrderID             string // empty: not known
}

// OrderExists is ORDER_EXISTS: the order bought from the allotment before, under HoldID. The hold that was to be confirmed is cancelled.
type OrderExists struct {
	Refusal

	AllotmentID, OrderID string
	HoldID               string // of the earlier sale
}

// OrderMismatch is ORDER_MISMATCH: the hold was or is being confirmed under another order id, which stands.
type OrderMismatch struct {
	Refusal

	AllotmentID, HoldID string
	OrderID             string // the one that stands
}

// RequestMismatch is REQUEST_MISMATCH: the ids were used before with other content, which stands. A bug of the caller's.
type RequestMismatch struct {
	Refusal

	Field string // the first that differs
}

// InvalidRequest is a request that breaks rules of its fields. A bug of the caller's.
type InvalidRequest struct {
	Refusal

	Fields []FieldProblem
}

// FieldProblem is one rule that is broken.
type FieldProblem struct{ Field, Problem string }

// refusalOf gives a final answer its type.
func refusalOf(a *answer) error {
	r, f := Refusal{Reason: a.reason, Metadata: a.metadata, status: a.status}, facts(a.metadata)
	allotment, hold, order := f["allotment_id"], f["hold_id"], f["order_id"]
	switch a.reason {
	case pb.ErrorReason_ERROR_REASON_UNSPECIFIED:
		return invalidOf(r, a)
	case pb.ErrorReason_ERROR_REASON_SOLD_OUT:
		return SoldOut{
			r, allotment, f.number("capacity"), f.number("sold"), f.number("held"), f.number("requested"), f.number("version"),
			f.time("next_lapse_time"),
		}
	case pb.ErrorReason_ERROR_REASON_ALL_HELD:
		return AllHeld{
			r, allotment, f.number("capacity"), f.number("sold"), f.number("held"), f.number("requested"), f.number("version"),
			f.time("next_lapse_time"), hold, f.seconds("hold_remaining_seconds"),
		}
	case pb.ErrorReason_ERROR_REASON_BUYER_LIMIT:
		return BuyerLimit{
			r, allotment, f.number("limit"), f.number("buyer_held"), f.number("buyer_sold"), f.number("requested"),
			hold, f.seconds("hold_remaining_seconds"),
		}
	case pb.ErrorReason_ERROR_REASON_NOT_OPEN:
		return NotOpen{r, allotment, f.time("opens_at"), f.time("closes_at")}
	case pb.ErrorReason_ERROR_REASON_PAUSED:
		return Paused{r, allotment, f.time("opens_at"), f.time("closes_at")}
	case pb.ErrorReason_ERROR_REASON_CLOSED:
		return Closed{r, allotment, f.time("opens_at"), f.time("closes_at")}
	case pb.ErrorReason_ERROR_REASON_HOLD_LAPSED:
		return HoldLapsed{r, allotment, hold}
	case pb.ErrorReason_ERROR_REASON_HOLD_CANCELLED:
		return HoldCancelled{r, allotment, hold}
	case pb.ErrorReason_ERROR_REASON_HOLD_SOLD:
		return HoldSold{r, allotment, hold, order}
	case pb.ErrorReason_ERROR_REASON_ORDER_EXISTS:
		return OrderExists{r, allotment, order, hold}
	case pb.ErrorReason_ERROR_REASON_ORDER_MISMATCH:
		return OrderMismatch{r, allotment, hold, order}
	case pb.ErrorReason_ERROR_REASON_REQUEST_MISMATCH:
		return RequestMismatch{r, f["field"]}
	default:
		return r
	}
}

func invalidOf(r Refusal, a *answer) error {
	if len(a.fields) == 0 {
		return r
	}
	invalid := InvalidRequest{Refusal: r}
	for _, v := range a.fields {
		invalid.Fields = append(invalid.Fields, FieldProblem{Field: v.GetField(), Problem: v.GetDescription()})
	}
	return invalid
}

// facts are metadata. What is not there, or not as documented, is zero.
type facts map[string]string

func (f facts) number(key string) int64 {
	n, _ := strconv.ParseInt(f[key], 10, 64)
	return n
}

func (f facts) time(key string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, f[key])
	return t
}

func (f facts) seconds(key string) time.Duration {
	s, _ := strconv.ParseFloat(f[key], 64)
	return time.Duration(s * float64(time.Second))
}
