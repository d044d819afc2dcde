package storetest

import (
	"testing"
	"time"
)

// Eventually calls cond until it returns nil, at once and then in growing intervals of at most 25 ms, and fails the
// test with its last error when the timeout is over. Call it from the test's own goroutine.
func Eventually(t testing.TB, timeout time.Duration, cond func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for wait := time.Millisecond; ; wait = min(2*wait, 25*time.Millisecond) {
		err := cond()
		if err == nil {
			return
		}
		left := time.Until(deadline)
		if left <= 0 {
			t.Fatalf("still not so after %v: %v", timeout, err)
		}
		<-time.After(min(wait, left))
	}
}
