package compare

import (
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
)

// leastSpent is the least CPU time that says anything. Linux counts in ticks what a process spent for itself and in the
// kernel, each cut to whole ones, so that the difference of two readings is a tick or two off for each process that
// works, and a Postgres has one for each connection. Finer clocks (schedstat) tell nothing of processes that have ended.
const leastSpent = 10 * machine.Tick

// perDecision is how many microseconds of CPU a decision took; nil if all of them took too little to tell.
func perDecision(spent time.Duration, decisions int) *float64 {
	if spent < leastSpent {
		return nil
	}
	us := float64(spent.Microseconds()) / float64(decisions)
	return &us
}

// spentBy is how much CPU the servers have used so far; not known where one of them is not ours, or off Linux.
func spentBy(pids []int) (spent time.Duration, known bool) {
	if len(pids) == 0 {
		return 0, false
	}
	spent, err := machine.Spent(pids)
	return spent, err == nil
}
