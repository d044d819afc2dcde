// Package history keeps every call of a launch, and judges afterwards whether the promises were kept: from what
// callers were told and when, and from what the server says in the end.
//
// All times are of one clock, the rehearsal's own, counted from its start. What the server did for a call, it did
// at some moment between the call's sending and its answer; nothing else is known, and nothing else is assumed.
package history

import (
	"time"

	"google.golang.org/grpc/codes"
)

// Kind is what a call asks for.
type Kind uint8

// The kinds of calls.
const (
	CreateHold Kind = iota
	ConfirmHold
)

// Outcome is how a call ended.
type Outcome uint8

// The outcomes of calls.
const (
	NoAnswer Outcome = iota // it may have been carried out or not, or may yet be
	Done                    // a hold or a sale was answered
	Refused                 // a final answer
	Trouble                 // nothing final: it may have been carried out or not
)

// Reason is an ErrorReason as it is sent, or the name of a code where no reason was given.
type Reason string

// The reasons that the verdict knows.
const (
	SoldOut    Reason = "SOLD_OUT"
	AllHeld    Reason = "ALL_HELD"
	HoldLapsed Reason = "HOLD_LAPSED"
)

// Call is one attempt of a buyer.
type Call struct {
	Kind    Kind
	Outcome Outcome
	Attempt uint8 // 0: the first; others repeat what met trouble
	Repeat  bool  // a request that was sent before, sent again on purpose
	Buyer   int32
	Server  string // that answered; empty: none did

	Intended time.Duration // when it should have been sent
	Sent     time.Duration // it was sent not before
	Answered time.Duration // it was answered not after

	Code    codes.Code
	Reason  Reason  // of a refusal or a trouble
	Numbers Numbers // of SOLD_OUT and ALL_HELD
	Hold    *Hold   // what CreateHold answered
	Sale    *Sale   // what ConfirmHold answered
}

// Latency is how long the answer took from when the call should have been sent.
func (c *Call) Latency() time.Duration { return c.Answered - c.Intended }

// Decided tells whether the call got a final answer.
func (c *Call) Decided() bool { return c.Outcome == Done || c.Outcome == Refused }

// Numbers are those that a refusal proves itself with.
type Numbers struct{ Capacity, Sold, Held, Requested int64 }

// State of a hold.
type State uint8

// The states of holds, as the API numbers them.
const (
	Held State = iota + 1
	Confirming
	Sold
	Cancelled
	Lapsed
)

// Token is a fencing token.
type Token struct{ Epoch, Sequence int64 }

// Before tells whether t is of an earlier hold.
func (t Token) Before(u Token) bool {
	return t.Epoch < u.Epoch || (t.Epoch == u.Epoch && t.Sequence < u.Sequence)
}

// Hold is one as it was answered.
type Hold struct {
	ID        string
	Buyer     string
	Request   string
	Quantity  int64
	State     State
	Token     Token
	Remaining time.Duration // of a live one, until its deadline
	Order     string
}

// Sale is one as it was answered.
type Sale struct {
	HoldID    string
	Order     string
	Quantity  int64
	Cancelled int64
	Token     Token
}

// Stock is what GetAvailability answered.
type Stock struct {
	Sent, Answered                  time.Duration
	Capacity, Available, Held, Sold int64
}

// Buyer is what a buyer asks with.
type Buyer struct {
	ID, Request, Order string
	Quantity           int64
}

// Final is what the server says when all is over.
type Final struct {
	Stock    Stock
	Capacity int64 // by the ledger
	Sales    []Sale
	Holds    []Hold
	Findings []Finding // of a dry run of ReconcileAllotment
	Settled  bool      // every deadline had passed, and every confirm was answered
}

// Finding is a difference that a dry run of ReconcileAllotment names.
type Finding struct {
	What       string
	Buyer      string // whose totals are off; empty: it is not about one buyer's
	Difference int64  // in units: what is there less what should be
}

// History is a launch.
type History struct {
	Allotment string
	Capacity  int64
	Window    time.Duration // how long a hold lasts
	Buyer     func(int32) Buyer
	Calls     []*Call // in the order of sending
	Stocks    []Stock // in the order of sending
	Final     *Final  // nil: it could not be read
	Faults    []Fault // what was broken on purpose
	// Forgive names breaches that those faults are bound to bring, by a part of their text.
	Forgive []string
}
