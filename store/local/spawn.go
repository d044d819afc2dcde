package local

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
)

// process is a started child.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
	err    error         // how it ended; set before exited is closed
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan<- error
}

// spawner starts children from one goroutine that keeps its OS thread for the life of the process. The
// kernel's parent-death signal is sent when the thread that started the child ends, and Go ends threads as
// it likes: without this a server could be stopped while we live.
var spawner = sync.OnceValue(func() chan<- spawnRequest {
	requests := make(chan spawnRequest)
	go func() {
		runtime.LockOSThread()
		for request := range requests {
			request.result <- request.cmd.Start()
		}
	}()
	return requests
})

// spawn starts cmd and waits for its end in the background.
func spawn(cmd *exec.Cmd) (*process, error) {
	result := make(chan error, 1)
	spawner() <- spawnRequest{cmd, result}
	if err := <-result; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}
