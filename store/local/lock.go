package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	pollFirst = 2 * time.Millisecond
	pollMost  = 50 * time.Millisecond

	// A server whose parent was killed is still shutting down for a moment.
	orphanPatience = 10 * time.Second
)

// lockFile takes the lock of a file, and waits for it as long as patience says.
func lockFile(ctx context.Context, path string, patience time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	err = poll(ctx, patience, func() error {
		ok, err := tryLock(f)
		if err != nil {
			return fmt.Errorf("lock %s: %w", path, err)
		}
		if !ok {
			return fmt.Errorf("lock %s: %w", path, ErrInUse)
		}
		return nil
	})
	if err != nil {
		_ = f.Close() // the lock's error says more
		return nil, err
	}
	return f, nil
}

// lock takes the folder for one server. The server inherits the open file and with it the lock. A holder whose
// parent is gone is on its way out and waited for, and so is our own former server, when restarting.
func (f *folder) lock(ctx context.Context, name string, restart bool) (*os.File, error) {
	path := filepath.Join(f.dir, name+".lock")
	server, parent := readHolder(path)
	patience := time.Duration(0)
	if restart || !alive(parent) {
		patience = orphanPatience
	}
	lock, err := lockFile(ctx, path, patience)
	if errors.Is(err, ErrInUse) {
		return nil, fmt.Errorf("%w: %s still runs there as process %d, started by process %d; "+
			"stop it, or choose another state folder", err, name, server, parent)
	}
	return lock, err
}

// noteHolder writes who holds the lock, for the message of whoever finds it taken.
func noteHolder(lock *os.File, server int) error {
	if err := lock.Truncate(0); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	_, err := lock.WriteAt(fmt.Appendf(nil, "%d %d\n", server, os.Getpid()), 0)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}

// readHolder returns zeros if nothing can be read: the message is then less helpful.
func readHolder(path string) (server, parent int) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0
	}
	_, _ = fmt.Sscan(string(text), &server, &parent)
	return server, parent
}

// poll calls try until it succeeds, in growing intervals, and returns its last error when time or the
// context is over.
func poll(ctx context.Context, patience time.Duration, try func() error) error {
	deadline := time.Now().Add(patience)
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for wait := pollFirst; ; wait = min(2*wait, pollMost) {
		err := try()
		if err == nil || !time.Now().Before(deadline) {
			return err
		}
		timer.Reset(min(wait, time.Until(deadline)))
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", ctx.Err(), err)
		case <-timer.C:
		}
	}
}
