package history

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

const window = 10 * time.Second

// forged is a history that is made up: five units; buyers 0 and 1 hold two each, buyer 2 one. Buyer 0 buys, buyer 1
// repeats the request and lets the hold lapse, buyer 2 lets it lapse; buyer 3 is refused meanwhile and gets one unit
// later; buyer 4 meets trouble.
type forged struct {
	*History
	quantities []int64
	sequence   int64
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func forge() *forged {
	f := &forged{quantities: []int64{2, 2, 1, 1, 1, 2}}
	f.History = &History{Allotment: "a", Capacity: 5, Window: window, Buyer: f.buyer}
	for i := range 3 {
		f.granted(i, ms(100*i), ms(100*i+20))
	}
	f.refused(3, ms(300), ms(320), AllHeld, Numbers{Capacity: 5, Held: 5, Requested: 1})
	f.sold(0, ms(1000), ms(1050))
	f.again(1, ms(2000), ms(2010), Held)
	f.granted(3, ms(10_500), ms(10_520))
	f.again(1, ms(11_000), ms(11_010), Lapsed)
	f.add(&Call{Buyer: 4, Sent: ms(11_500), Answered: ms(11_600), Outcome: Trouble, Code: codes.Unavailable, Reason: "STORE_UNAVAILABLE"})
	f.Stocks = []Stock{
		{Sent: ms(400), Answered: ms(410), Capacity: 5, Held: 5},
		{Sent: ms(1100), Answered: ms(1110), Capacity: 5, Held: 3, Sold: 2},
		{Sent: ms(11_100), Answered: ms(11_110), Capacity: 5, Available: 2, Held: 1, Sold: 2},
	}
	f.end()
	return f
}

func (f *forged) buyer(i int32) Buyer {
	return Buyer{
		ID: fmt.Sprint("buyer-", i), Request: fmt.Sprint("request-", i), Order: fmt.Sprint("order-", i), Quantity: f.quantities[i],
	}
}

func (f *forged) add(c *Call) *Call {
	c.Intended = c.Sent
	f.Calls = append(f.Calls, c)
	return c
}

func (f *forged) hold(i int, state State, sequence int64, left time.Duration) *Hold {
	b := f.buyer(int32(i))
	return &Hold{
		ID: fmt.Sprint("hold-", i), Buyer: b.ID, Request: b.Request, Quantity: b.Quantity, State: state,
		Token: Token{Epoch: 1, Sequence: sequence}, Remaining: left,
	}
}

func (f *forged) granted(i int, sent, answered time.Duration) *Call {
	f.sequence++
	return f.add(&Call{Buyer: int32(i), Sent: sent, Answered: answered, Outcome: Done, Hold: f.hold(i, Held, f.sequence, window)})
}

// again repeats a request.
func (f *forged) again(i int, sent, answered time.Duration, state State) *Call {
	first := f.first(i)
	h := *first.Hold
	h.State, h.Remaining = state, 0
	if state == Held {
		h.Remaining = first.Answered + window - answered
	}
	return f.add(&Call{Buyer: int32(i), Sent: sent, Answered: answered, Outcome: Done, Repeat: true, Hold: &h})
}

func (f *forged) first(i int) *Call {
	for _, c := range f.Calls {
		if c.Buyer == int32(i) && c.Kind == CreateHold && c.Outcome == Done {
			return c
		}
	}
	return nil
}

func (f *forged) refused(i int, sent, answered time.Duration, why Reason, n Numbers) *Call {
	return f.add(&Call{Buyer: int32(i), Sent: sent, Answered: answered, Outcome: Refused, Code: codes.FailedPrecondition, Reason: why, Numbers: n})
}

func (f *forged) sale(i int) Sale {
	h := f.first(i).Hold
	return Sale{HoldID: h.ID, Order: f.buyer(int32(i)).Order, Quantity: h.Quantity, Token: h.Token}
}

func (f *forged) sold(i int, sent, answered time.Duration) *Call {
	s := f.sale(i)
	return f.add(&Call{Kind: ConfirmHold, Buyer: int32(i), Sent: sent, Answered: answered, Outcome: Done, Sale: &s})
}

// end is what the server says when all holds are at their end.
func (f *forged) end() {
	f.Final = &Final{
		Capacity: 5, Settled: true, Sales: []Sale{f.sale(0)},
		Stock: Stock{Sent: ms(30_000), Answered: ms(30_010), Capacity: 5, Available: 3, Sold: 2},
	}
	for i, state := range []State{Sold, Lapsed, Lapsed, Lapsed} {
		h := *f.first(i).Hold
		h.State, h.Remaining = state, 0
		f.Final.Holds = append(f.Final.Holds, h)
	}
}

// broken returns the promises that were broken.
func (v *Verdict) broken() map[string]*Promise {
	found := map[string]*Promise{}
	for _, p := range v.Promises {
		if !p.Kept {
			found[p.ID] = p
		}
	}
	return found
}

func TestKept(t *testing.T) {
	v := Judge(forge().History)
	for id, p := range v.broken() {
		t.Errorf("%s: %q", id, p.Examples)
	}
	if !v.Kept() || v.Peak != 5 || v.PeakAt != ms(220) || v.Oversold != 0 || v.Refusals != 1 || v.ValidRefusals != 0 {
		t.Errorf("verdict %+v", v)
	}
}
