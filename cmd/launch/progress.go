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

// phase is how far a rehearsal is. It only goes on.
type phase int

const (
	asking phase = iota
	paying
	lapsing
	finishing
	checking
)

// waits is what a rehearsal waits for; empty while requests come.
func (p phase) waits() string {
	return [...]string{
		asking: "", paying: "waiting for late answers and payments", lapsing: "waiting for lapses",
		finishing: "waiting up to " + about(finishTime) + " for confirms under way", checking: "checking",
	}[p]
}

func (r *rehearsal) begin(next phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = max(r.phase, next)
}

func (r *rehearsal) now() phase {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase
}

// showProgress says every second how the load is getting on, until the function that it returns is called. On a terminal
// it is one line that changes.
func (r *rehearsal) showProgress(what string, open *load.Open) (stop func()) {
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
			line := fmt.Sprintf("%s %3.0f s", what, open.Now().Seconds()) +
				progressLine(r.now(), now, now.Answered-last.Answered, r.lastStock())
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

// progressLine says what happened in the last second. s is nil until the stock has been read.
func progressLine(at phase, p load.Progress, answered int64, s *history.Stock) string {
	count := figures.Count[int64]
	line := ""
	if what := at.waits(); what != "" {
		line = "  " + what
	}
	line += fmt.Sprintf("  %s/s  granted %s  sold %s  refused %s", count(answered), count(p.Granted), count(p.Sold), count(p.Refused))
	if p.Trouble > 0 {
		line += "  trouble " + count(p.Trouble)
	}
	line += fmt.Sprintf("  waiting %s", count(p.Waiting))
	if answered > 0 {
		line += fmt.Sprintf("  p99 %s ms", figures.Millis(float64(p.P99.Microseconds())/1000))
	}
	if s != nil {
		line += fmt.Sprintf("  stock %s, held %s, sold %s", count(s.Available), count(s.Held), count(s.Sold))
	}
	return line
}
