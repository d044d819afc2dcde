package compare

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// child is a process that we started. On Linux it ends when we do, however that is.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it ended; set before ended is closed
}

// startChild starts it from a thread that lives until its end: the kernel tells a child of the end of the thread that
// started it, and Go ends threads as it likes.
func startChild(cmd *exec.Cmd) (*child, error) {
	cmd.SysProcAttr = endsWithUs()
	c := &child{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
		}
		close(c.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop asks it to end, and makes it.
func (c *child) stop(patience time.Duration) error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	return c.wait(patience)
}

func (c *child) wait(patience time.Duration) error {
	select {
	case <-c.ended:
		return c.err
	case <-time.After(patience):
		_ = c.cmd.Process.Kill() // it may have ended
		<-c.ended
		return errors.Join(fmt.Errorf("%s had to be killed", c.cmd.Path), c.err)
	}
}
