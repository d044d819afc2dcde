package window

import (
	"fmt"
	"strings"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
)

// Unserved counts the buyers of a run who did not get what they were there for. Because of them fewer holds were paid for
// than buyers were to pay for.
type Unserved struct {
	Buyers     int64 // in all
	NeverTold  int64 // of them: whether they have a hold
	PaidUntold int64 // of them: they paid, and were never told whether it is a sale
	PaidLate   int64 // of them: they paid, and were refused since their holds had lapsed
}

// few is the share of buyers that may be served badly without a word: what R7 allows.
const few = 0.001

func (f *runFile) unserved() Unserved {
	s := f.Served
	u := Unserved{Buyers: s.Buyers, NeverTold: s.Buyers - s.Told, PaidUntold: s.Paying - s.PayingTold}
	for _, o := range f.Outcomes {
		if o.Call == "confirm" && o.Name == "refused" && o.Why == "HOLD_LAPSED" {
			u.PaidLate += o.Calls
		}
	}
	return u
}

// warning says why the share of holds that were paid for in the run is too low; empty: it is not.
func (r Run) warning() string {
	u := r.Unserved
	var why []string
	add := func(part, whole int64, what string) {
		if float64(part) > few*float64(whole) {
			why = append(why, figures.Count(part)+" "+what)
		}
	}
	add(u.NeverTold, u.Buyers, fmt.Sprintf("of %s buyers were never told whether they have a hold", figures.Count(u.Buyers)))
	add(u.PaidUntold, r.HoldsGranted, "paid and were never told whether it is a sale")
	add(u.PaidLate, r.HoldsGranted, "paid and were refused with HOLD_LAPSED")
	if len(why) == 0 {
		return ""
	}
	return "That share is TOO LOW, since the run could not serve everybody: " + strings.Join(why, ", ") +
		". Take it from a run at a rate that this machine keeps up with.\n"
}
