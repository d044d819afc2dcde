// Package machine reads what processes and the machine's neighbours have used of its processors. It can be read on Linux
// only; elsewhere nothing is known.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const proc = "/proc"

// Reading is the state of the counters at one moment.
type Reading struct {
	at    time.Time
	total int64 // of all processors, in ticks
	idle  int64
	steal int64
	used  map[string]time.Duration
}

// Watch reads the counters of some processes, by name.
type Watch struct {
	root string
	pids map[string]int
}

// NewWatch watches the machine, this program, and the processes named.
func NewWatch(pids map[string]int) *Watch { return &Watch{root: proc, pids: pids} }

// Self names this program.
const Self = "launch"

// Read reads the counters.
func (w *Watch) Read() Reading {
	r := Reading{at: time.Now(), used: map[string]time.Duration{}}
	if text, err := os.ReadFile(w.root + "/stat"); err == nil {
		r.total, r.idle, r.steal = machineTime(string(text))
	}
	w.process(&r, Self, os.Getpid())
	for name, pid := range w.pids {
		w.process(&r, name, pid)
	}
	return r
}

func (w *Watch) process(r *Reading, name string, pid int) {
	text, err := os.ReadFile(w.root + "/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return
	}
	if p, err := parseStat(text); err == nil {
		r.used[name] = p.own
	}
}

// Usage is what was used between two readings.
type Usage struct {
	Took  time.Duration            `json:"took_ns"`
	Cores int                      `json:"cores"`
	Steal *float64                 `json:"steal,omitempty"` // part of the machine's time that its host gave to others; unset: not known
	Busy  *float64                 `json:"busy,omitempty"`  // part of the machine's time in which it was not idle; unset: not known
	CPU   map[string]time.Duration `json:"cpu_ns"`          // by process
}

// Since returns what was used since an earlier reading.
func (r Reading) Since(earlier Reading) Usage {
	u := Usage{Took: r.at.Sub(earlier.at), Cores: runtime.NumCPU(), CPU: map[string]time.Duration{}}
	if total := r.total - earlier.total; earlier.total > 0 && total > 0 {
		steal := float64(r.steal-earlier.steal) / float64(total)
		busy := 1 - float64(r.idle-earlier.idle)/float64(total)
		u.Steal, u.Busy = &steal, &busy
	}
	for name, used := range r.used {
		if before, ok := earlier.used[name]; ok {
			u.CPU[name] = used - before
		}
	}
	return u
}

// Percent writes a part for people.
func Percent(part *float64) string {
	if part == nil {
		return "not known"
	}
	return fmt.Sprintf("%.1f %%", *part*100)
}

// machineTime reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal; guests are
// part of the first two.
func machineTime(text string) (total, idle, steal int64) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, 0
	}
	var numbers [8]int64
	for i, field := range fields[1:9] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, 0
		}
		numbers[i] = n
		total += n
	}
	return total, numbers[3] + numbers[4], numbers[7]
}
