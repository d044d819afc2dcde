package main

import (
	"os"
	"strings"
	"testing"
)

// TestTexts: each guard is where the table says, once, so that `go run ./scripts/guards` can take it out.
func TestTexts(t *testing.T) {
	t.Parallel()
	for _, g := range guards {
		text, err := os.ReadFile("../../" + g.file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), g.with); n != 1 {
			t.Errorf("guard %s: %s has its text %d times, want once", g.name, g.file, n)
		}
	}
}
