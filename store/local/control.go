package local

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Stop ends the server gracefully: no session is waited for, everything acknowledged is written. If it has not
// ended when ctx is over, or after 20 seconds, it is killed, and an error says so. A paused server is resumed
// first, and one that has ended is fine. The folder stays.
func (s *server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end(ctx)
}

// Close stops the server and removes its folder if that was a temporary one. The server is then gone for good.
func (s *server) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.end(ctx)
	if s.spec.forget != nil {
		s.spec.forget()
	}
	return errors.Join(err, s.folder.remove())
}

// Kill ends the server and all of its children at once with SIGKILL. What they had given to the operating system stays, so
// this is the crash of a process, not a loss of power. It returns when the server itself is gone; its children
// may take a moment longer, and Restart waits for them.
func (s *server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	killTree(s.proc.Load())
	s.pause.dismiss()
	s.watchdog.dismiss()
	s.pause, s.watchdog = nil, nil
}

// Pause stops the server and all of its children with SIGSTOP, Postgres's sessions too: connections stay open, new
// ones are accepted by the kernel, and nobody answers. If this process ends meanwhile, the server still does.
func (s *server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proc.Load()
	if p.ended() {
		return fmt.Errorf("pause %s: it has ended", s.spec.name)
	}
	if s.pause != nil {
		return nil
	}
	guard, err := startGuard(signalName(signalResume), pauseTree(p.pid()))
	if err != nil {
		resumeTree(p.pid())
		return fmt.Errorf("pause %s: %w", s.spec.name, err)
	}
	s.pause = guard
	return nil
}

// Resume lets a paused server go on, with what has piled up in its sockets. One that is not paused is left alone.
func (s *server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resume()
}

func (s *server) resume() {
	if s.pause == nil {
		return
	}
	resumeTree(s.proc.Load().pid())
	s.pause.dismiss()
	s.pause = nil
}

// Restart starts the server again in the same folder and on the same port; it stops it first, if it still runs.
func (s *server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.end(ctx); err != nil {
		return fmt.Errorf("restart %s: %w", s.spec.name, err)
	}
	if err := s.start(ctx, true); err != nil {
		return fmt.Errorf("restart %s: %w", s.spec.name, err)
	}
	return nil
}

// end does Stop's work, with the lock held.
func (s *server) end(ctx context.Context) error {
	p := s.proc.Load()
	if p.ended() {
		return nil
	}
	defer func() {
		s.watchdog.dismiss()
		s.watchdog = nil
	}()
	s.resume()
	_ = p.cmd.Process.Signal(s.spec.stop) // fails only if it has ended
	timer := time.NewTimer(stopPatience)
	defer timer.Stop()
	var err error
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("still there after %v", stopPatience)
	}
	killTree(p)
	return fmt.Errorf("stop %s: %w: killed it", s.spec.name, err)
}

// killTree kills a process and its children, and waits for the end of the first. It is stopped before,
// so that it starts no more children and reaps none, whose numbers would then be free for others.
func killTree(p *process) {
	if p.ended() {
		return
	}
	_ = p.cmd.Process.Signal(signalPause) // fails only if it has ended
	for _, pid := range descendants(p.pid()) {
		kill(pid, syscall.SIGKILL)
	}
	_ = p.cmd.Process.Kill() // likewise
	<-p.exited
}

// pauseTree stops a process, then its children until a look finds no new one, and returns them all.
func pauseTree(pid int) []int {
	kill(pid, signalPause)
	stopped := []int{pid}
	seen := map[int]bool{pid: true}
	for fresh := true; fresh; {
		fresh = false
		for _, child := range descendants(pid) {
			if !seen[child] {
				kill(child, signalPause)
				seen[child], fresh = true, true
				stopped = append(stopped, child)
			}
		}
	}
	return stopped
}

// resumeTree resumes the children first: a parent that is back before them could reap them meanwhile.
func resumeTree(pid int) {
	for _, child := range descendants(pid) {
		kill(child, signalResume)
	}
	kill(pid, signalResume)
}

// descendants lists the children of a process, their children, and so on.
func descendants(pid int) []int {
	table := processTable()
	var found []int
	for queue := table[pid]; len(queue) > 0; queue = queue[1:] {
		found = append(found, queue[0])
		queue = append(queue, table[queue[0]]...)
	}
	return found
}

// signalName is the name by which kill(1) knows the few signals in use here.
func signalName(signal syscall.Signal) string {
	switch signal {
	case syscall.SIGINT:
		return "INT"
	case syscall.SIGTERM:
		return "TERM"
	default:
		return "CONT"
	}
}
