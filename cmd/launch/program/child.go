// Package program starts programs that end when we do: Holdfast servers on given stores, and others.
package program

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Child is a process that we started. On Linux it ends when we do, however that is.
type Child struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it ended; set before ended is closed
}

// Start starts it from a thread that lives until its end: the kernel tells a child of the end of the thread that
// started it, and Go ends threads as it likes.
func Start(cmd *exec.Cmd) (*Child, error) {
	cmd.SysProcAttr = endsWithUs()
	c := &Child{cmd: cmd, ended: make(chan struct{})}
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

// PID is the number of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// Err is how the process ended. It can be asked when Ended is closed.
func (c *Child) Err() error { return c.err }

// Kill ends it at once.
func (c *Child) Kill() { _ = c.cmd.Process.Kill() } // it may have ended

// Pause makes it stand still: its connections stay open, and nobody answers.
func (c *Child) Pause() error { return c.signal("STOP") }

// Resume lets it go on, with what has piled up in its sockets.
func (c *Child) Resume() error { return c.signal("CONT") }

// signal sends what has no name on every system that we build for.
func (c *Child) signal(name string) error {
	if output, err := exec.Command("kill", "-"+name, strconv.Itoa(c.PID())).CombinedOutput(); err != nil {
		return fmt.Errorf("kill -%s %d: %w: %s", name, c.PID(), err, output)
	}
	return nil
}

// Stop asks it to end, and makes it.
func (c *Child) Stop(patience time.Duration) error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	return c.Wait(patience)
}

// Wait waits until it ends, and makes it when that takes too long.
func (c *Child) Wait(patience time.Duration) error {
	select {
	case <-c.ended:
		return c.err
	case <-time.After(patience):
		c.Kill()
		<-c.ended
		return errors.Join(fmt.Errorf("%s had to be killed", c.cmd.Path), c.err)
	}
}
