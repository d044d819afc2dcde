package admin

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// screen is the part of a terminal that is drawn anew in place.
type screen struct {
	out   io.Writer
	size  func() (width, height int, err error)
	drawn int // lines that are there
}

// terminal is the screen that out is; nil: it is none.
func terminal(out io.Writer) *screen {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &screen{out: f, size: func() (int, int, error) { return term.GetSize(int(f.Fd())) }}
}

// draw replaces what is there. Lines are cut to the terminal's width, and their number to its height: what wraps or
// scrolls could not be replaced.
func (s *screen) draw(v *view, now time.Time) error {
	width, height, err := s.size()
	if err != nil || width < 1 || height < 3 {
		width, height = 80, 24
	}
	lines := v.lines(now)
	if len(lines) > height-1 {
		left := len(lines) - (height - 2)
		lines = append(lines[:height-2], fmt.Sprintf("and %d more lines: make the window higher", left))
	}
	var frame strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&frame, "\x1b[%dA", s.drawn)
	}
	for _, line := range lines {
		if runes := []rune(line); len(runes) > width {
			line = string(runes[:width])
		}
		frame.WriteString("\r\x1b[K" + line + "\n")
	}
	frame.WriteString("\x1b[J")
	s.drawn = len(lines)
	_, err = io.WriteString(s.out, frame.String())
	return err
}

// leave takes the ^C of whoever interrupts it off the line after the last.
func (s *screen) leave() { fmt.Fprint(s.out, "\r\x1b[K") }
