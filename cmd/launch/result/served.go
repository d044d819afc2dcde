package result

import (
	"fmt"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
)

// R7's figures. Whether they are met depends on the machine and the load, too, so they are told beside the promises that
// must be kept everywhere.
const (
	wantTold = 0.999 // of the buyers
	full     = 0.95  // of the cores: from here on, what waits may wait for the machine
	tardy    = 10    // milliseconds that a request in a hundred was sent late: from here on, the generator was too slow
)

// Served is how buyers were served, who each sent one request, some of them several times.
type Served struct {
	Buyers int64 `json:"buyers"`
	Told   int64 `json:"told"` // they got a hold, or a refusal, in the end
	// Paying counts the buyers who confirmed their holds, PayingTold those of them who were told in the end whether it is a sale.
	Paying     int64 `json:"paying"`
	PayingTold int64 `json:"paying_told"`
	// Quick tells whether R7 was met: 99.9 % were told, of those who paid likewise, and 99 % of all answers to requests for holds took
	// no more than 100 ms.
	Quick bool `json:"quick"`
}

// ServedOf looks at every buyer's calls. Those for a hold took so long.
func ServedOf(calls []*history.Call, took Latency) Served {
	var s Served
	s.Buyers, s.Told = told(calls, history.CreateHold)
	s.Paying, s.PayingTold = told(calls, history.ConfirmHold)
	limit := float64(decisionLimit) / float64(time.Millisecond)
	s.Quick = s.Told > 0 && enough(s.Told, s.Buyers) && enough(s.PayingTold, s.Paying) && took.P99 <= limit
	return s
}

func enough(told, of int64) bool { return float64(told) >= wantTold*float64(of) }

// told counts the buyers who called, and those who got a final answer.
func told(calls []*history.Call, kind history.Kind) (buyers, told int64) {
	by := map[int32]bool{}
	for _, c := range calls {
		if c.Kind == kind {
			by[c.Buyer] = by[c.Buyer] || c.Decided()
		}
	}
	for _, yes := range by {
		if yes {
			told++
		}
	}
	return int64(len(by)), told
}

// ServedText says how buyers were served.
func (r *Result) ServedText() string {
	s := r.Served
	return fmt.Sprintf("%s buyers: %s told yes or no, %s never; p99 %s ms, %s of %s answers took more than 100 ms; %s paid, %s of them never told",
		figures.Count(s.Buyers), figures.Count(s.Told), figures.Count(s.Buyers-s.Told), figures.Millis(r.Decisions.P99),
		figures.Count(r.Decisions.Over), figures.Count(r.Decisions.Count), figures.Count(s.Paying), figures.Count(s.Paying-s.PayingTold))
}

// Doubts are what there is to know where buyers were not served: what kept them from it.
func (r *Result) Doubts() []string {
	var all []string
	if r.Served.Quick {
		return nil
	}
	if rates := r.Rates; rates.Decided < wantTold*rates.Offered {
		all = append(all, fmt.Sprintf("more came than was decided: of %s requests a second %s, the first time that they were sent",
			figures.Count(rates.Offered), figures.Count(rates.Decided)))
	}
	if s := r.Served; !enough(s.PayingTold, s.Paying) {
		all = append(all, fmt.Sprintf("%s of %s buyers who paid were not told whether it is a sale", figures.Count(s.Paying-s.PayingTold), figures.Count(s.Paying)))
	}
	if busy := r.Usage.Busy; busy != nil && *busy >= full {
		all = append(all, "the machine was full, by this or by other programs: what waited may have waited for it")
	}
	if r.Late.P99 > tardy {
		all = append(all, fmt.Sprintf("the generator was late: a request in a hundred was sent %s ms late or more, which is counted as Holdfast's", figures.Millis(r.Late.P99)))
	}
	return all
}
