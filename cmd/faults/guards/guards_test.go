package guards

import (
	"os"
	"testing"
)

// TestTexts: each guard is where the table says, once, so that it can be taken out.
func TestTexts(t *testing.T) {
	t.Parallel()
	for _, g := range All {
		text, err := os.ReadFile("../../../" + g.File)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Remove(string(text)); err != nil {
			t.Error(err)
		}
	}
}
