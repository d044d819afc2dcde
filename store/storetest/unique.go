package storetest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// UniqueID returns an allotment id that no other call in this test binary returns, with the test's name in it.
func UniqueID(t testing.TB) string {
	t.Helper()
	return uniqueName(t, "-")
}

var names atomic.Int64 // how many uniqueName has given out

// uniqueName fits the rule for allotment ids, [a-z0-9][a-z0-9-]{0,62}, with another separator if need be, and
// Postgres's limit of 63 bytes.
func uniqueName(t testing.TB, separator string) string {
	t.Helper()
	const most = 40
	var name strings.Builder
	for _, r := range strings.ToLower(strings.TrimPrefix(t.Name(), "Test")) {
		if name.Len() == most {
			break
		}
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			name.WriteRune(r)
		} else if name.Len() > 0 {
			name.WriteString(separator)
		}
	}
	return fmt.Sprintf("t%s%s%s%d", separator, name.String(), separator, names.Add(1))
}
