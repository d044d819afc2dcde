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
	// Quick tells whether R7 was met: 99.9 % were told, and 99 % of all answers took no more than 100 ms.
	Quick bool `json:"quick"`
}

// ServedOf looks at every buyer's calls for a hold, which took so long.
func ServedOf(calls []*history.Call, took Latency) Served {
	told := map[int32]bool{}
	for _, c := range calls {
		if c.Kind == history.CreateHold {
			told[c.Buyer] = told[c.Buyer] || c.Outcome == history.Done || c.Outcome == history.Refused
		}
	}
	s := Served{Buyers: int64(len(told))}
	for _, yes := range told {
		if yes {
			s.Told++
		}
	}
	limit := float64(decisionLimit) / float64(time.Millisecond)
	s.Quick = s.Told > 0 && float64(s.Told) >= wantTold*float64(s.Buyers) && took.P99 <= limit
	return s
}

// ServedText says how buyers were served.
func (r *Result) ServedText() string {
	s := r.Served
	return fmt.Sprintf("%s buyers: %s told yes or no, %s never; p99 %s ms, %s of %s answers took more than 100 ms", figures.Count(s.Buyers),
		figures.Count(s.Told), figures.Count(s.Buyers-s.Told), figures.Millis(r.Decisions.P99), figures.Count(r.Decisions.Over), figures.Count(r.Decisions.Count))
}

// Doubts are why figures may say more of the machine than of Holdfast.
func (r *Result) Doubts() []string {
	var all []string
	if busy := r.Usage.Busy; busy != nil && *busy >= full {
		all = append(all, "the machine was full: what waited may have waited for it; give the generator, or the stores, cores of their own, or lower --requests")
	}
	if r.Late.P99 > tardy {
		all = append(all, fmt.Sprintf("the generator was late: a request in a hundred was sent %s ms late or more, which is counted as Holdfast's", figures.Millis(r.Late.P99)))
	}
	return all
}
