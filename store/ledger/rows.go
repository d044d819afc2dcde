package ledger

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
)

// The texts stored in outcomes.
const (
	verdictSold    = "SOLD"
	verdictRefused = "REFUSED"
	kindSale       = "SALE"
	kindShrink     = "SHRINK"
	reasonOrder    = "ORDER"
	reasonRoom     = "ROOM"
	reasonCart     = "CART"
)

// longestHold is the longest hold duration that an allotment's holds may have been made with. A release that does not know
// the column leaves it 0 and may have shortened the duration since, but not have made holds that last longer than the most.
const longestHold = `greatest(coalesce(nullif(longest_hold_ms, 0), max_hold_duration_ms), hold_duration_ms)`

const allotmentColumns = `id, group_id, buckets, capacity, sold, epoch, epoch_time, feed, version, state, late_confirm,
	hold_duration_ms, max_hold_duration_ms, ` + longestHold + `, max_per_hold, max_per_buyer, opens_at, closes_at,
	retired_at IS NOT NULL, create_time, update_time`

func scanAllotment(row pgx.Row, a *store.Allotment) error {
	var hold, maxHold, longest int64
	var opens, closes, raised *time.Time
	err := row.Scan(&a.Allotment, &a.Group, &a.Buckets, &a.Capacity, &a.Sold, &a.Epoch, &raised, &a.Feed, &a.Version,
		&a.State, &a.LateConfirm, &hold, &maxHold, &longest, &a.MaxPerHold, &a.MaxPerBuyer, &opens, &closes,
		&a.Retired, &a.CreateTime, &a.UpdateTime)
	if err != nil {
		return err
	}
	a.HoldDuration, a.MaxHoldDuration = time.Duration(hold)*time.Millisecond, time.Duration(maxHold)*time.Millisecond
	a.LongestHold = time.Duration(longest) * time.Millisecond
	a.OpensAt, a.ClosesAt, a.EpochTime = fromNull(opens), fromNull(closes), fromNull(raised)
	a.CreateTime, a.UpdateTime = a.CreateTime.UTC(), a.UpdateTime.UTC()
	return nil
}

// collectAllotments reads all rows, in their order, into list, replacing what an earlier run put there.
func collectAllotments(list *[]store.Allotment) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*list = nil
		for rows.Next() {
			var a store.Allotment
			if err := scanAllotment(rows, &a); err != nil {
				return err
			}
			*list = append(*list, a)
		}
		return nil
	}
}

const outcomeColumns = `hold_id, verdict, kind, buyer_id, request_id, order_id, quantity, cancelled_quantity,
	held, cart, hold_create_time, token_epoch, token_sequence, coalesce(refused_reason, ''), coalesce(other_hold, ''), decided_at, cancel_time`

func scanOutcome(row pgx.Row, o *store.Outcome) error {
	var id, verdict, kind, reason, other string
	var token store.Token
	var cancelled int64
	var cancelTime, createTime *time.Time
	err := row.Scan(&id, &verdict, &kind, &o.BuyerID, &o.RequestID, &o.OrderID, &o.Quantity, &cancelled,
		&o.Held, &o.Cart, &createTime, &token.Epoch, &token.Sequence, &reason, &other, &o.DecidedAt, &cancelTime)
	if err != nil {
		return err
	}
	if o.ID, err = store.ParseHoldID(id); err != nil {
		return fmt.Errorf("outcome %q: %w", id, err)
	}
	o.Shrink, o.CreateTime, o.DecidedAt = kind == kindShrink, fromNull(createTime), o.DecidedAt.UTC()
	o.Verdict = store.Verdict{Token: token, Other: other}
	if o.Verdict.Kind = kindOf(verdict, reason); o.Verdict.Kind == 0 {
		return fmt.Errorf("outcome %q: verdict %q %q", id, verdict, reason)
	}
	if o.Verdict.Kind == store.VerdictSold {
		o.Verdict.Sale = saleOf(*o)
		o.Verdict.Sale.Cancelled, o.Verdict.Sale.CancelTime = cancelled, fromNull(cancelTime)
	}
	return nil
}

// collectOutcomes reads all rows, in their order, into list, replacing what an earlier run put there.
func collectOutcomes(list *[]store.Outcome) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*list = nil
		for rows.Next() {
			var o store.Outcome
			if err := scanOutcome(rows, &o); err != nil {
				return err
			}
			*list = append(*list, o)
		}
		return nil
	}
}

// saleOf is the uncancelled sale that a SOLD outcome stands for.
func saleOf(o store.Outcome) store.Sale {
	return store.Sale{
		ID: o.ID, BuyerID: o.BuyerID, OrderID: o.OrderID, Quantity: o.Quantity,
		Token: o.Verdict.Token, RequestID: o.RequestID, SoldTime: o.DecidedAt,
	}
}

func kindOf(verdict, reason string) store.VerdictKind {
	switch {
	case verdict == verdictSold:
		return store.VerdictSold
	case reason == reasonOrder:
		return store.VerdictRefusedOrder
	case reason == reasonRoom:
		return store.VerdictRefusedRoom
	case reason == reasonCart:
		return store.VerdictRefusedCart
	}
	return 0
}

// textsOf is kindOf the other way.
func textsOf(k store.VerdictKind) (verdict, reason string) {
	switch k {
	case store.VerdictRefusedOrder:
		return verdictRefused, reasonOrder
	case store.VerdictRefusedRoom:
		return verdictRefused, reasonRoom
	case store.VerdictRefusedCart:
		return verdictRefused, reasonCart
	}
	return verdictSold, ""
}

// rulesText is how rules are kept in the feed, and in what an allotment was created with. Fields may
// be added; a row written before reads as zero there.
type rulesText struct {
	State       store.AllotmentState `json:"state"`
	LateConfirm store.LateConfirm    `json:"late_confirm"`
	HoldMS      int64                `json:"hold_duration_ms"`
	MaxHoldMS   int64                `json:"max_hold_duration_ms"`
	MaxPerHold  int64                `json:"max_per_hold"`
	MaxPerBuyer int64                `json:"max_per_buyer"`
	OpensAt     time.Time            `json:"opens_at"`
	ClosesAt    time.Time            `json:"closes_at"`
}

func encodeRules(r store.Rules) rulesText {
	return rulesText{
		State: r.State, LateConfirm: r.LateConfirm,
		HoldMS: r.HoldDuration.Milliseconds(), MaxHoldMS: r.MaxHoldDuration.Milliseconds(),
		MaxPerHold: r.MaxPerHold, MaxPerBuyer: r.MaxPerBuyer,
		OpensAt: stored(r.OpensAt), ClosesAt: stored(r.ClosesAt),
	}
}

func (t rulesText) rules() store.Rules {
	return store.Rules{
		State: t.State, LateConfirm: t.LateConfirm,
		HoldDuration: time.Duration(t.HoldMS) * time.Millisecond, MaxHoldDuration: time.Duration(t.MaxHoldMS) * time.Millisecond,
		MaxPerHold: t.MaxPerHold, MaxPerBuyer: t.MaxPerBuyer, OpensAt: t.OpensAt, ClosesAt: t.ClosesAt,
	}
}

// asJSON is for values whose encoding cannot fail.
func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "null" // refused by the table
	}
	return string(text)
}

// stored is t as a timestamptz column gives it back.
func stored(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

func toNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func fromNull(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func notFound(id string) error {
	return &store.Refusal{Reason: store.AllotmentNotFound, Allotment: id}
}
