package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/load"
)

const progressEvery = time.Second

// showProgress says every second how the load is getting on, until the function that it returns is called. On a terminal
// it is one line that changes.
func (r *rehearsal) showProgress(what string, open *load.Open, stock func() *history.Stock) (stop func()) {
	end := make(chan struct{})
	var printer sync.WaitGroup
	terminal := isTerminal(r.errOut)
	printer.Go(func() {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		var last load.Progress
		for {
			select {
			case <-ticker.C:
			case <-end:
				if terminal {
					fmt.Fprint(r.errOut, "\r\x1b[K")
				}
				return
			}
			now := open.Progress()
			line := progressLine(what, open.Now(), now, now.Answered-last.Answered, stock)
			last = now
			if terminal {
				fmt.Fprintf(r.errOut, "\r\x1b[K%s", line)
			} else {
				fmt.Fprintln(r.errOut, line)
			}
		}
	})
	return func() {
		close(end)
		printer.Wait()
	}
}

// progressLine says what happened in the last second.
func progressLine(what string, at time.Duration, p load.Progress, answered int64, stock func() *history.Stock) string {
	count := figures.Count[int64]
	line := fmt.Sprintf("%s %3.0f s  %s/s  granted %s  sold %s  refused %s", what, at.Seconds(), count(answered),
		count(p.Granted), count(p.Sold), count(p.Refused))
	if p.Trouble > 0 {
		line += "  trouble " + count(p.Trouble)
	}
	line += fmt.Sprintf("  waiting %s", count(p.Waiting))
	if answered > 0 {
		line += fmt.Sprintf("  p99 %s ms", figures.Millis(float64(p.P99.Microseconds())/1000))
	}
	if stock == nil {
		return line
	}
	if s := stock(); s != nil {
		line += fmt.Sprintf("  stock %s, held %s, sold %s", count(s.Available), count(s.Held), count(s.Sold))
	}
	return line
}
