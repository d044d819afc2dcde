package cases

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
)

// How much more a server may have after healing than before: what is not given back grows with each call that meets a fault.
const (
	moreGoroutines = 100
	moreFiles      = 60
	moreHeapMiB    = 64               // and what busy servers leave for a collector that idle ones do not run
	vitalsLimit    = 15 * time.Second // idle connections and batches end in their time
)

// judgeVitals waits until each server has about as many goroutines, connections and as much memory as before.
func (s *Stage) judgeVitals(ctx context.Context, p *Played) {
	for i, server := range s.World.Servers {
		var problem string
		for began := s.now(); s.now()-began < vitalsLimit; {
			v, err := server.Vitals(ctx)
			if err != nil {
				problem = err.Error()
			} else if problem = unhealthy(s.before[i], v, s.load.Rate); problem == "" {
				break
			}
			if pause(ctx, 10*readEvery) != nil {
				break
			}
		}
		if problem != "" {
			p.fail("server %d is not back to normal after healing: %s", i+1, problem)
		}
	}
}

func unhealthy(before, after world.Vitals, rate int) string {
	for _, v := range []struct {
		what                string
		before, after, more float64
	}{
		{"goroutines", before.Goroutines, after.Goroutines, moreGoroutines},
		{"open files", before.Files, after.Files, moreFiles},
		{"MiB of heap", before.HeapMiB, after.HeapMiB, moreHeapMiB + float64(rate)/20},
	} {
		if v.after > v.before+v.more {
			return fmt.Sprintf("%.0f %s, before it had %.0f", v.after, v.what, v.before)
		}
	}
	return ""
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// count says what callers met.
func count(h *history.History, v *history.Verdict) record.Calls {
	c := record.Calls{Oversold: v.Oversold, Lost: v.Lost, Refused: v.Refusals, FalseNoes: v.ValidRefusals}
	for _, call := range h.Calls {
		switch {
		case call.Outcome == history.NoAnswer:
			c.Unknown++
		case call.Outcome == history.Trouble:
			c.Trouble++
		case call.Outcome == history.Done && call.Kind == history.ConfirmHold:
			c.Sold++
		case call.Outcome == history.Done:
			c.Granted++
		}
		if call.Kind == history.CreateHold {
			c.Requests++
		}
	}
	return c
}

// times measures how long things took while something was broken, and after.
func times(h *history.History, s *Scene) record.Times {
	var t record.Times
	var decided []time.Duration // when
	var took []time.Duration    // answers to requests sent meanwhile
	var calm []time.Duration    // and before
	for _, c := range h.Calls {
		if c.Kind != history.CreateHold {
			continue
		}
		if c.Outcome == history.Done || c.Outcome == history.Refused {
			decided = append(decided, c.Answered)
		}
		if len(h.Faults) > 0 && c.Sent < h.Faults[0].From-time.Second/2 && c.Outcome != history.NoAnswer {
			calm = append(calm, c.Answered-c.Sent)
		}
		if !within(h.Faults, c.Sent) || s.silent[c.Server] || (c.Server == "" && len(s.silent) > 0) {
			continue
		}
		if c.Outcome == history.NoAnswer {
			took = append(took, never)
			continue
		}
		took = append(took, c.Answered-c.Sent)
	}
	slices.Sort(decided)
	end := s.loadEnd
	t.P99, t.Calm = percentile99(took), percentile99(calm)
	for _, f := range h.Faults {
		t.Fault = max(t.Fault, ms(f.Until-f.From))
		gap, back := silence(decided, f, end)
		t.Unavailable, t.Recovery = max(t.Unavailable, ms(gap)), max(t.Recovery, ms(back))
		if s.switchedAt != 0 {
			f.From = s.switchedAt
			gap, _ = silence(decided, f, end)
			t.Switch = max(t.Switch, ms(gap))
		}
	}
	return t
}

// clearlyLate is more than a busy machine adds to the 100 ms that an answer may take.
const clearlyLate = time.Second

// answeredInTime looks whether callers were answered while nothing could be decided.
func answeredInTime(s *Scene, h *history.History) {
	if p99 := times(h, s).P99; p99 > ms(clearlyLate) {
		s.Wrong(fmt.Sprintf("answers took %.0f ms at p99 while the fault lasted", p99))
	}
}

// percentile99 is in milliseconds; of an answer that never came it is a minute.
func percentile99(took []time.Duration) float64 {
	n := len(took)
	if n == 0 {
		return 0
	}
	slices.Sort(took)
	return ms(min(took[min(n-1, n*99/100)], time.Minute))
}

func within(faults []history.Fault, at time.Duration) bool {
	return slices.ContainsFunc(faults, func(f history.Fault) bool { return f.From <= at && at <= f.Until })
}

// silence is the longest time between two decisions that overlaps with a fault or the second after it, and how long after
// its end the next one came; at the latest when the load ended.
func silence(decided []time.Duration, f history.Fault, end time.Duration) (gap, back time.Duration) {
	last := f.From
	back = never
	for _, at := range append(decided[:len(decided):len(decided)], end) {
		if at >= f.From && last <= f.Until+time.Second {
			gap = max(gap, at-max(last, f.From))
		}
		last = max(last, at)
		if at > f.Until {
			back = min(back, at-f.Until)
		}
	}
	if back == never {
		back = 0 // the fault outlasted the load
	}
	return gap, back
}
