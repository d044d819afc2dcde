//go:build failpoints

package main

// testVariables are read by builds for tests only.
func testVariables() []string { return []string{"HOLDFAST_FAILPOINT"} }
