package seldom

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestSeldom: of a hundred warnings in a second one is logged, and the next tells of the others.
func TestSeldom(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var line Line
	start := time.Now()
	for i := range 100 {
		line.Log(log, slog.LevelWarn, start.Add(time.Duration(i)*every/100), "trouble", slog.Int("number", i))
	}
	line.Log(log, slog.LevelWarn, start.Add(every), "trouble", slog.Int("number", 100))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "number=0") || !strings.Contains(lines[1], "number=100 not_logged_since_the_last=99") {
		t.Errorf("logged %q", lines)
	}
}
