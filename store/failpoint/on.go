//go:build failpoints

// Package failpoint marks the gaps between two steps of a protocol, where a process may die.
// In a normal build a mark is nothing; built with the tag failpoints, a test can stop there.
package failpoint

import (
	"os"
	"sync/atomic"
)

// exitCode is that of a process killed by SIGKILL, as a shell reports it.
const exitCode = 137

var hook atomic.Pointer[func(point string)]

// Hit marks a crash point: it kills the process when HOLDFAST_FAILPOINT names it, and tells the
// hook of an in-process test.
func Hit(point string) {
	if os.Getenv("HOLDFAST_FAILPOINT") == point {
		os.Exit(exitCode)
	}
	if f := hook.Load(); f != nil {
		(*f)(point)
	}
}

// Set makes f be called at each crash point; nil removes it. For tests in one process.
func Set(f func(point string)) {
	if f == nil {
		hook.Store(nil)
		return
	}
	hook.Store(&f)
}
