package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
	"github.com/holdfast-inventory/holdfast/cmd/launch/load"
)

const (
	// How long the check takes, on the machine of docs/performance.md.
	checkAtLeast  = time.Second
	checkEach     = 10 * time.Microsecond // for each request
	noopTakesMore = time.Second           // than the load: it starts a program
)

// outlook is a line that says what will happen, and about how long it takes.
func (s *crowdSettings) outlook(preset string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "launch %s: ", preset)
	total := time.Duration(0)
	if s.Noop {
		total = s.Duration + noopTakesMore
		fmt.Fprintf(&b, "the load without payments to a server that decides nothing, %s; ", about(total))
	}
	fmt.Fprintf(&b, "%s requests in %s", figures.Count(s.Requests), about(s.Duration))
	end := s.Duration
	if paid := s.lastHold() + time.Duration(load.ThinkMost*float64(s.scaled())); s.Completion > 0 && paid > end {
		end = paid
		fmt.Fprintf(&b, ", payments until %s", about(end))
	}
	if lapsed := s.lastHold() + s.scaled() + settleTime; s.Lapses && lapsed > end {
		end = lapsed
		fmt.Fprintf(&b, ", lapses until %s", about(end))
	}
	total += end + checkAtLeast + time.Duration(s.Requests)*checkEach
	fmt.Fprintf(&b, ", and the check: about %s in all", about(total))
	return b.String()
}

// lastHold is about when the last hold is granted, after the first request: when the stock is gone, unless holds lapse
// and leave some of it to those who come later.
func (s *crowdSettings) lastHold() time.Duration {
	wanted := float64(s.Requests) * (1 - s.Repeat) * (1 + s.Two)
	lapsesMeanwhile := s.Completion < 1 && s.scaled() < s.Duration
	if wanted <= float64(s.Capacity) || lapsesMeanwhile {
		return s.Duration
	}
	return time.Duration(float64(s.Duration) * float64(s.Capacity) / wanted)
}

// about writes a time to the second, and a shorter one as it is.
func about(d time.Duration) string {
	if d < time.Second {
		return d.String()
	}
	return figures.Count(math.Ceil(d.Seconds())) + " s"
}
