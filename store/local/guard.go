package local

import (
	"fmt"
	"io"
	"os/exec"
	"strconv"
)

// guard is a shell that waits for our end, however it comes, and then sends one signal to some
// processes. It notices through a pipe that only we hold open.
//
// Paused servers need it, since a stopped process does not act on the parent-death signal until it is
// continued; so do all servers where there is no such signal.
type guard struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

// startGuard takes a signal's name as kill(1) knows it. It is started from any thread and without a
// parent-death signal, as it must outlive us.
func startGuard(signal string, pids []int) (*guard, error) {
	args := []string{"-c", `read _; kill -s "$0" "$@" 2>/dev/null`, signal}
	for _, pid := range pids {
		args = append(args, strconv.Itoa(pid))
	}
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = ownGroup()
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe to guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	return &guard{cmd: cmd, pipe: pipe}, nil
}

// dismiss ends the guard before it has sent anything. A nil guard is fine.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	_ = g.cmd.Process.Kill() // fails only if it is gone already
	_ = g.pipe.Close()
	_ = g.cmd.Wait() // "signal: killed", as meant
}
