package compare

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// procTick is the unit of CPU times in /proc, on every Linux that Go runs on.
const procTick = 10 * time.Millisecond

// procTable reads what Linux tells of its processes. Elsewhere there is no such folder, and CPU times are not known.
type procTable struct{ root string }

// spent is how much CPU the processes and all that descend from them have used, with those that have ended and were
// waited for: a Postgres has a process for each connection.
func (p procTable) spent(pids []int) (time.Duration, error) {
	all, children := make(map[int]time.Duration), make(map[int][]int)
	files, _ := filepath.Glob(filepath.Join(p.root, "[0-9]*", "stat")) // the pattern is right
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has just ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		parent, used, err := parseStat(text)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		all[pid] = used
		children[parent] = append(children[parent], pid)
	}
	var sum time.Duration
	for next := pids; len(next) > 0; {
		pid := next[0]
		used, ok := all[pid]
		if !ok {
			return 0, fmt.Errorf("process %d is not there", pid)
		}
		sum += used
		next = append(next[1:len(next):len(next)], children[pid]...)
	}
	return sum, nil
}

// parseStat reads "pid (name) state parent ...", where the name may hold anything, brackets too. The times are the process's
// own, and those of children that it waited for.
func parseStat(text []byte) (parent int, used time.Duration, err error) {
	const parentField, firstTime, times = 1, 11, 4
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < firstTime+times {
		return 0, 0, fmt.Errorf("not the stat of a process: %q", text)
	}
	if parent, err = strconv.Atoi(fields[parentField]); err != nil {
		return 0, 0, err
	}
	for _, field := range fields[firstTime : firstTime+times] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, err
		}
		used += time.Duration(ticks) * procTick
	}
	return parent, used, nil
}

// leastSpent is the least CPU time that says anything. Linux counts in ticks what a process spent for itself and in the
// kernel, each cut to whole ones, so that the difference of two readings is a tick or two off for each process that
// works, and a Postgres has one for each connection. Finer clocks (schedstat) tell nothing of processes that have ended.
const leastSpent = 10 * procTick

// perDecision is how many microseconds of CPU a decision took; nil if all of them took too little to tell.
func perDecision(spent time.Duration, decisions int) *float64 {
	if spent < leastSpent {
		return nil
	}
	us := float64(spent.Microseconds()) / float64(decisions)
	return &us
}
