//go:build !failpoints

// Package failpoint marks the gaps between two steps of a protocol, where a process may die.
// In a normal build a mark is nothing; built with the tag failpoints, a test can stop there.
package failpoint

// Hit marks a crash point.
func Hit(string) {}
