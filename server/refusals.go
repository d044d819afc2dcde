package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-inventory/holdfast/store"
)

// refusalText is the code of a refusal and its text for people. The text names no buyer. An unknown reason
// has code Unknown.
func refusalText(r *store.Refusal) (codes.Code, string) {
	switch r.Reason {
	case store.SoldOut:
		return codes.FailedPrecondition, fmt.Sprintf("allotment %s: %d asked for, %d of %d are unsold",
			r.Allotment, r.Requested, max(r.Capacity-r.Sold, 0), r.Capacity)
	case store.AllHeld:
		return codes.FailedPrecondition, fmt.Sprintf("allotment %s: %d asked for, %d are unsold, %d of them held",
			r.Allotment, r.Requested, max(r.Capacity-r.Sold, 0), r.Held)
	case store.BuyerLimit:
		return codes.FailedPrecondition, fmt.Sprintf("allotment %s: a buyer may have %d, this one has %d held and %d sold",
			r.Allotment, r.Limit, r.BuyerHeld, r.BuyerSold)
	case store.NotOpen:
		return codes.FailedPrecondition, "allotment " + r.Allotment + " is not open yet"
	case store.Paused:
		return codes.FailedPrecondition, "allotment " + r.Allotment + " is paused"
	case store.Closed:
		return codes.FailedPrecondition, "allotment " + r.Allotment + " is closed"
	case store.CapacityInUse:
		return codes.FailedPrecondition, fmt.Sprintf("allotment %s: what is sold or held stays; the smallest possible capacity is %d",
			r.Allotment, r.SmallestCapacity)
	case store.StaleEtag:
		return codes.Aborted, "allotment " + r.Allotment + " has changed: read it again"
	case store.DifferentGroups:
		return codes.InvalidArgument, "allotment " + r.Allotment + " is of another group than the others"
	case store.AllotmentNotFound:
		return codes.NotFound, "no allotment " + r.Allotment
	case store.AllotmentExists:
		return codes.AlreadyExists, "allotment " + r.Allotment + " exists with other content: " + r.Field
	case store.RequestMismatch:
		return codes.InvalidArgument, "the same ids were used before with other content: " + r.Field
	}
	return holdRefusalText(r)
}

func holdRefusalText(r *store.Refusal) (codes.Code, string) {
	switch r.Reason {
	case store.HoldConfirming:
		return codes.Unavailable, "a confirm of the hold is under way: repeat later"
	case store.HoldLapsed:
		return codes.FailedPrecondition, "the hold has lapsed"
	case store.HoldCancelled:
		return codes.FailedPrecondition, "the hold was cancelled"
	case store.HoldSold:
		return codes.FailedPrecondition, "the hold has been sold"
	case store.ExtensionLimit:
		return codes.FailedPrecondition, "the hold has reached its maximum duration"
	case store.SaleCancelled:
		return codes.FailedPrecondition, "the sale was cancelled before"
	case store.OrderExists:
		return codes.AlreadyExists, "this order bought from allotment " + r.Allotment + " before; the hold is cancelled"
	case store.OrderMismatch:
		return codes.AlreadyExists, "the hold was confirmed under another order id"
	case store.StaleToken:
		return codes.Aborted, "the fencing token is not the hold's"
	case store.HoldNotFound:
		return codes.NotFound, "no such hold"
	case store.SaleNotFound:
		return codes.NotFound, "the hold has no sale"
	default:
		return codes.Unknown, ""
	}
}

// facts gathers an ErrorInfo's metadata.
type facts []fact

type fact struct{ key, value string }

// refusalMetadata is what error_reason.proto promises for each reason.
func refusalMetadata(r *store.Refusal) facts {
	f := make(facts, 0, 8)
	switch r.Reason {
	case store.HoldNotFound, store.SaleNotFound:
	default:
		f.text("allotment_id", r.Allotment)
	}
	switch r.Reason {
	case store.SoldOut, store.AllHeld:
		f.stock(r)
		f.number("version", r.Version)
		f.number("requested", r.Requested)
		f.time("next_lapse_time", r.NextLapse)
		if r.Reason == store.AllHeld {
			f.liveHold(r)
		}
	case store.BuyerLimit:
		f.number("limit", r.Limit)
		f.number("buyer_held", r.BuyerHeld)
		f.number("buyer_sold", r.BuyerSold)
		f.number("requested", r.Requested)
		f.liveHold(r)
	case store.NotOpen, store.Paused, store.Closed:
		f.time("opens_at", r.OpensAt)
		f.time("closes_at", r.ClosesAt)
	case store.CapacityInUse:
		f.stock(r)
		f.number("smallest_capacity", r.SmallestCapacity)
	case store.StaleEtag:
		if r.Version > 0 {
			f.text("etag", formatEtag(r.Version))
			f.number("capacity", r.Capacity)
		}
	case store.AllotmentExists:
		f.text("field", r.Field)
	case store.AllotmentNotFound:
	default:
		f.hold(r)
	}
	return f
}

// hold gathers what is said of one hold or sale.
func (f *facts) hold(r *store.Refusal) {
	f.text("hold_id", r.HoldID)
	switch r.Reason {
	case store.HoldConfirming, store.HoldSold, store.OrderExists, store.OrderMismatch, store.SaleCancelled:
		f.text("order_id", r.OrderID)
	case store.ExtensionLimit:
		if r.HoldRemaining > 0 {
			f.seconds("hold_remaining_seconds", r.HoldRemaining)
		}
	case store.RequestMismatch:
		f.text("field", r.Field)
	}
}

func (f *facts) stock(r *store.Refusal) {
	f.number("capacity", r.Capacity)
	f.number("sold", r.Sold)
	f.number("held", r.Held)
}

func (f *facts) liveHold(r *store.Refusal) {
	if r.HoldID == "" {
		return
	}
	f.text("hold_id", r.HoldID)
	f.seconds("hold_remaining_seconds", r.HoldRemaining)
}

func (f *facts) text(key, value string) {
	if value != "" {
		*f = append(*f, fact{key, strings.ToValidUTF8(value, "\uFFFD")})
	}
}

func (f *facts) number(key string, value int64) { f.text(key, strconv.FormatInt(value, 10)) }

func (f *facts) time(key string, t time.Time) {
	if !t.IsZero() {
		f.text(key, t.UTC().Format(time.RFC3339Nano))
	}
}

func (f *facts) seconds(key string, d time.Duration) {
	f.text(key, strconv.FormatFloat(d.Round(time.Millisecond).Seconds(), 'f', -1, 64))
}
