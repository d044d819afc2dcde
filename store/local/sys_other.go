//go:build unix && !linux

package local

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// ownDeathSignal: there is none here, so a guard stands in.
const ownDeathSignal = false

// serverAttr makes a child run as the given user.
func serverAttr(as *identity, _ syscall.Signal) *syscall.SysProcAttr {
	attr := ownGroup()
	setIdentity(attr, as)
	return attr
}

// processTable maps each process to its children.
func processTable() map[int][]int {
	table := make(map[int][]int)
	text, err := exec.Command("/bin/ps", "-axo", "pid=,ppid=").Output()
	if err != nil {
		return table
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue
		}
		pid, err1 := strconv.Atoi(fields[0])
		parent, err2 := strconv.Atoi(fields[1])
		if err1 == nil && err2 == nil {
			table[parent] = append(table[parent], pid)
		}
	}
	return table
}

// alive tells whether a process runs: one that has ended stays in the process table until it is waited for.
func alive(pid int) bool {
	state := ps(pid, "stat=")
	return state != "" && !strings.HasPrefix(state, "Z")
}

// isPostgres tells whether a process is a Postgres server: a number in an old file may be anybody's by now.
func isPostgres(pid int) bool { return strings.Contains(ps(pid, "comm="), "postgres") && alive(pid) }

func ps(pid int, column string) string {
	text, err := exec.Command("/bin/ps", "-o", column, "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "" // there is no such process
	}
	return strings.TrimSpace(string(text))
}
