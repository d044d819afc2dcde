package guards

import (
	"os"
	"slices"
	"testing"
)

// TestTexts: each guard is where the table says, once, so that it can be taken out.
func TestTexts(t *testing.T) {
	t.Parallel()
	for _, g := range append(slices.Clone(All), next) {
		text, err := os.ReadFile("../../../" + g.File)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Remove(string(text)); err != nil {
			t.Error(err)
		}
	}
}
