package local

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ownDeathSignal: the kernel tells a server when we have ended.
const ownDeathSignal = true

// serverAttr makes a child run as the given user and get the signal when the thread that started it ends.
func serverAttr(as *identity, atOurEnd syscall.Signal) *syscall.SysProcAttr {
	attr := ownGroup()
	attr.Pdeathsig = atOurEnd
	setIdentity(attr, as)
	return attr
}

// processTable maps each process to its children.
func processTable() map[int][]int {
	table := make(map[int][]int)
	folders, _ := filepath.Glob("/proc/[0-9]*") // the pattern is fixed and right
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			continue
		}
		if p, ok := look(pid); ok {
			table[p.parent] = append(table[p.parent], pid)
		}
	}
	return table
}

// alive tells whether a process runs. Containers may have no init that waits for orphans, so that dead ones stay in
// the process table.
func alive(pid int) bool {
	p, ok := look(pid)
	return ok && p.state != "Z" && p.state != "X"
}

// isPostgres tells whether a process is a Postgres server: a number in an old file may be anybody's by now.
func isPostgres(pid int) bool {
	p, _ := look(pid)
	return p.name == "postgres" && alive(pid)
}

type processInfo struct {
	name, state string
	parent      int
}

// look reads "pid (name) state parent ...", where the name may hold anything, brackets too.
func look(pid int) (processInfo, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return processInfo{}, false // there is none
	}
	first, last := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if first < 0 || last < first {
		return processInfo{}, false
	}
	fields := strings.Fields(string(text[last+1:]))
	if len(fields) < 2 {
		return processInfo{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	return processInfo{name: string(text[first+1 : last]), state: fields[0], parent: parent}, err == nil
}
