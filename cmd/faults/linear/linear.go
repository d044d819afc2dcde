// Package linear checks whether a small history of one allotment is linearizable: whether there is an order of all calls, each
// somewhere between its sending and its answer, in which one counter would have given every answer.
package linear

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// Kind is what a call asks for.
type Kind uint8

// The kinds of calls.
const (
	Create Kind = iota
	Confirm
	Cancel
)

// Outcome is what a caller was told in the end. One that asks again with the same ids makes one call.
type Outcome uint8

// The outcomes of calls.
const (
	Unknown Outcome = iota // nothing: it may have been carried out, may not have been, or may yet be
	Done
	Refused
)

// Call is one of a buyer, who holds once and confirms or cancels that.
type Call struct {
	Client         int
	Kind           Kind
	Outcome        Outcome
	Buyer          int // from 0
	Quantity       int
	Sent, Answered time.Duration
}

// Verdict is what the checker found.
type Verdict string

// The verdicts.
const (
	Linearizable Verdict = "linearizable"
	Not          Verdict = "not linearizable"
	NotChecked   Verdict = "not checked, the checker's time was over"
)

// What a buyer has: a byte of the state.
const (
	none = iota
	held
	sold
	cancelled
)

// state is what each buyer has, and what is free.
type state struct {
	buyers string
	free   int
}

func (s state) with(buyer int, has byte, taken int) state {
	buyers := []byte(s.buyers)
	buyers[buyer] = has
	return state{string(buyers), s.free - taken}
}

// apply returns what the call would have made of a state and answered; done is false where it would have been refused.
func (s state) apply(c *Call) (next state, done bool) {
	switch has := s.buyers[c.Buyer]; {
	case c.Kind == Create && has == none && s.free >= c.Quantity:
		return s.with(c.Buyer, held, c.Quantity), true
	case c.Kind == Create && has == none:
		return s, false
	case c.Kind == Create:
		return s, true
	case c.Kind == Confirm && has == held:
		return s.with(c.Buyer, sold, 0), true
	case c.Kind == Cancel && has == held:
		return s.with(c.Buyer, cancelled, -c.Quantity), true
	}
	return s, false
}

// Check looks for such an order, for at most so long. No hold may lapse meanwhile.
func Check(capacity, buyers int, calls []Call, limit time.Duration) Verdict {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{string(make([]byte, buyers)), capacity}} },
		Step: func(from, input, _ any) []any {
			s, c := from.(state), input.(*Call)
			next, done := s.apply(c)
			switch {
			case c.Outcome == Unknown && next != s:
				return []any{s, next}
			case c.Outcome == Unknown || done == (c.Outcome == Done):
				return []any{next}
			}
			return nil
		},
	}
	operations := make([]porcupine.Operation, len(calls))
	for i := range calls {
		c := &calls[i]
		operations[i] = porcupine.Operation{ClientId: c.Client, Input: c, Call: int64(c.Sent), Return: int64(c.Answered)}
		if c.Outcome == Unknown {
			operations[i].Return = math.MaxInt64
		}
	}
	switch porcupine.CheckOperationsTimeout(model.ToModel(), operations, limit) {
	case porcupine.Ok:
		return Linearizable
	case porcupine.Illegal:
		return Not
	default:
		return NotChecked
	}
}
