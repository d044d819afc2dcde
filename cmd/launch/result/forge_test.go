package result

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
)

const begin = 100 * time.Millisecond

// forge is a launch of 1,000 requests in a second: the first 100 get a hold of one unit, half of which are sold, every
// tenth of the others meets trouble, and the last has no answer.
func forge() *history.History {
	h := &history.History{
		Allotment: "launch-test", Capacity: 100, Window: 2 * time.Second,
		Buyer: func(b int32) history.Buyer {
			return history.Buyer{ID: fmt.Sprint("b", b), Request: fmt.Sprint("r", b), Order: fmt.Sprint("o", b), Quantity: 1}
		},
	}
	for i := range 1000 {
		at := begin + time.Duration(i)*time.Millisecond
		c := &history.Call{
			Buyer: int32(i), Intended: at, Sent: at + 500*time.Microsecond, Answered: at + time.Duration(1+i%20)*time.Millisecond,
		}
		switch {
		case i < 100:
			b := h.Buyer(c.Buyer)
			c.Outcome = history.Done
			c.Hold = &history.Hold{
				ID: fmt.Sprint("h", i), Buyer: b.ID, Request: b.Request, Quantity: 1, State: history.Held,
				Token: history.Token{Epoch: 1, Sequence: int64(i + 1)}, Remaining: h.Window,
			}
		case i == 999:
			c.Answered = 0
		case i%10 == 0:
			c.Outcome, c.Code, c.Reason = history.Trouble, codes.Unavailable, "STORE_UNAVAILABLE"
		default:
			c.Outcome, c.Code, c.Reason = history.Refused, codes.FailedPrecondition, history.AllHeld
			c.Numbers = history.Numbers{Capacity: 100, Held: 100, Requested: 1}
		}
		h.Calls = append(h.Calls, c)
	}
	for i := range 50 {
		at := 1200*time.Millisecond + time.Duration(i)*time.Millisecond
		hold := h.Calls[i].Hold
		h.Calls = append(h.Calls, &history.Call{
			Kind: history.ConfirmHold, Buyer: int32(i), Intended: at, Sent: at, Answered: at + 30*time.Millisecond, Outcome: history.Done,
			Sale: &history.Sale{HoldID: hold.ID, Order: h.Buyer(int32(i)).Order, Quantity: 1, Token: hold.Token},
		})
	}
	for i := range 40 {
		at := time.Duration(i) * 100 * time.Millisecond
		s := history.Stock{Sent: at, Answered: at + time.Millisecond, Capacity: 100, Held: 100}
		if i < 2 {
			s.Held, s.Available = 0, 100
		}
		h.Stocks = append(h.Stocks, s)
	}
	return h
}

// forged is the result of the forged launch.
func forged() *Result {
	h := forge()
	steal, busy := 0.012, 0.87
	usage := machine.Usage{
		Took: time.Second, Cores: 2, Steal: &steal, Busy: &busy, CPU: map[string]time.Duration{machine.Self: 20 * time.Millisecond},
	}
	r := &Result{
		Preset: "onsale", Started: time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC), Addresses: []string{"127.0.0.1:1", "127.0.0.1:2"},
		Allotment: h.Allotment, Settings: Settings{Requests: 1000, Seconds: 1, Capacity: 100, Window: 2},
		Rates: RatesOf(h.Calls, begin, time.Second, 1000), Outcomes: OutcomesOf(h), Decisions: Decisions(h.Calls),
		Confirms: Confirms(h.Calls), Late: Late(h.Calls), Usage: usage, Verdict: history.Judge(h), Series: SeriesOf(h),
		AfterLoad: &Stock{Capacity: 100, Held: 50, Sold: 50}, End: &Stock{Capacity: 100, Available: 50, Sold: 50},
		Noop: &Noop{Rates: RatesOf(h.Calls, begin, time.Second, 1000), Decisions: Decisions(h.Calls), Late: Late(h.Calls), Usage: usage, Ratio: 1},
	}
	r.Holds = HoldsOf(r.Outcomes, 20*time.Second)
	r.Served = ServedOf(h.Calls, r.Decisions)
	return r
}
