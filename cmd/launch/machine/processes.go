package machine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tick is the unit of CPU times in /proc, wherever Go runs on Linux.
const Tick = 10 * time.Millisecond

// Spent is how much CPU the processes and all that descend from them have used, with those that have ended and were
// waited for: a Postgres has a process for each connection.
func Spent(pids []int) (time.Duration, error) { return spent(proc, pids) }

func spent(root string, pids []int) (time.Duration, error) {
	all, children := make(map[int]time.Duration), make(map[int][]int)
	files, _ := filepath.Glob(filepath.Join(root, "[0-9]*", "stat")) // the pattern is right
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has just ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		p, err := parseStat(text)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		all[pid] = p.own + p.waited
		children[p.parent] = append(children[p.parent], pid)
	}
	var sum time.Duration
	for next := slices.Clone(pids); len(next) > 0; {
		pid := next[0]
		used, ok := all[pid]
		if !ok {
			return 0, fmt.Errorf("process %d is not there", pid)
		}
		sum += used
		next = append(next[1:], children[pid]...)
	}
	return sum, nil
}

// process is what Linux tells of one: its CPU time, and that of children that have ended and that it waited for.
type process struct {
	parent      int
	own, waited time.Duration
}

// parseStat reads "pid (name) state parent ...", where the name may hold anything, brackets too.
func parseStat(text []byte) (process, error) {
	const parentField, firstTime, times = 1, 11, 4
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < firstTime+times {
		return process{}, fmt.Errorf("not the stat of a process: %q", text)
	}
	parent, err := strconv.Atoi(fields[parentField])
	if err != nil {
		return process{}, err
	}
	var used [times]time.Duration // in user code and in the kernel, then the same of children
	for i := range used {
		ticks, err := strconv.ParseInt(fields[firstTime+i], 10, 64)
		if err != nil {
			return process{}, err
		}
		used[i] = time.Duration(ticks) * Tick
	}
	return process{parent: parent, own: used[0] + used[1], waited: used[2] + used[3]}, nil
}
