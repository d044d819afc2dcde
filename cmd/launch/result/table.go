package result

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
)

// Print writes the result for people.
func (r *Result) Print(out io.Writer) error {
	s := r.Settings
	fmt.Fprintf(out, "launch %s on %s, allotment %s\n", r.Preset, strings.Join(r.Addresses, ", "), r.Allotment)
	fmt.Fprintf(out, "%s units, %s requests in %s s, holds of %s s, seed %d\n\n",
		figures.Count(s.Capacity), figures.Count(s.Requests), figures.Short(s.Seconds), figures.Short(s.Window), s.Seed)

	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")+"\t") }
	row("rate, requests per second", "offered", "sent", "decided")
	row("holdfast", figures.Count(r.Rates.Offered), rate(r.Rates.Sent, r.Rates), rate(r.Rates.Decided, r.Rates))
	if r.Noop != nil {
		row("no-op", figures.Count(r.Noop.Rates.Offered), rate(r.Noop.Rates.Sent, r.Noop.Rates), rate(r.Noop.Rates.Decided, r.Noop.Rates))
	}
	row()
	row("outcome", "calls", "units")
	for _, o := range r.Outcomes {
		row(strings.TrimSpace(o.Call+" "+o.Name+" "+o.Why), figures.Count(o.Calls), figures.Count(o.Units))
	}
	row()
	row("latency in ms", "p50", "p90", "p99", "p99.9", "max", "over 100 ms")
	latencyRow := func(name string, l Latency) {
		if l.Count > 0 {
			row(name, figures.Millis(l.P50), figures.Millis(l.P90), figures.Millis(l.P99), figures.Millis(l.P999), figures.Millis(l.Max), figures.Count(l.Over))
		}
	}
	latencyRow("decisions", r.Decisions)
	latencyRow("confirms", r.Confirms)
	if r.Noop != nil {
		latencyRow("no-op", r.Noop.Decisions)
	}
	latencyRow("sent late by", r.Late)
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, line := range r.notes() {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintln(out)
	return r.printVerdict(out)
}

// notes are what does not fit into a table.
func (r *Result) notes() []string {
	var lines []string
	if r.Noop != nil {
		lines = append(lines, fmt.Sprintf("p99 of decisions: %.2f times the no-op's", r.Noop.Ratio))
	}
	if s := r.AfterLoad; s != nil {
		lines = append(lines, fmt.Sprintf("at %s s, when the first try of each request had its answer (later ones may not): %s available, %s held, %s sold; held + sold = %s of %s",
			figures.Short(s.Seconds), figures.Count(s.Available), figures.Count(s.Held), figures.Count(s.Sold), figures.Count(s.Held+s.Sold), figures.Count(s.Capacity)))
	}
	if s := r.End; s != nil {
		lines = append(lines, fmt.Sprintf("in the end: %s available, %s held, %s sold",
			figures.Count(s.Available), figures.Count(s.Held), figures.Count(s.Sold)))
	}
	if r.Holds.Granted > 0 {
		lines = append(lines, fmt.Sprintf("paid for: %.1f %% of the holds", 100*float64(r.Holds.Confirmed)/float64(r.Holds.Granted)))
	}
	if r.Reconnects > 0 {
		lines = append(lines, fmt.Sprintf("connections replaced: %d", r.Reconnects))
	}
	if r.Usage.Took > 0 { // it was not broken off
		lines = append(lines, UsageText(r.Usage, r.DecidedInTime()))
	}
	if r.Noop != nil {
		lines = append(lines, "no-op: "+UsageText(r.Noop.Usage, r.Noop.Rates.Decisions))
	}
	return lines
}

// DecidedInTime is how many requests were decided while the load's CPU time was read; 0: that is not known, since many were
// decided later.
func (r *Result) DecidedInTime() int64 {
	if !r.Served.Quick {
		return 0
	}
	return r.Rates.Decisions
}

// UsageText says what the machine did in the time of so many decisions.
func UsageText(u machine.Usage, decisions int64) string {
	parts := []string{fmt.Sprintf("%d cores for %s s: busy %s, steal %s", u.Cores, figures.Short(u.Took.Seconds()), machine.Percent(u.Busy), machine.Percent(u.Steal))}
	names := make([]string, 0, len(u.CPU))
	for name := range u.CPU {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		part := fmt.Sprintf("%s %.2f cores", name, u.CPU[name].Seconds()/u.Took.Seconds())
		if decisions > 0 {
			part += fmt.Sprintf(" (%.1f us for each request)", float64(u.CPU[name].Microseconds())/float64(decisions))
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

func (r *Result) printVerdict(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, p := range r.Verdict.Promises {
		kept := "kept"
		switch {
		case p.Breaches > 0:
			kept = "BROKEN " + figures.Count(p.Breaches) + " times"
		case !p.Kept:
			kept = "NOT KNOWN"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.ID, p.Name, kept, p.Facts)
	}
	met := "met"
	if !r.Served.Quick {
		met = "NOT MET"
	}
	fmt.Fprintf(w, "R7\tquick\t%s\t%s\n", met, r.ServedText())
	if err := w.Flush(); err != nil {
		return err
	}
	for _, p := range r.Verdict.Promises {
		if p.Unknown != "" {
			fmt.Fprintf(out, "  %s: %s\n", p.ID, p.Unknown)
		}
		for _, example := range p.Examples {
			fmt.Fprintf(out, "  %s: %s\n", p.ID, example)
		}
	}
	for _, doubt := range r.Doubts() {
		fmt.Fprintln(out, "  R7:", doubt)
	}
	_, err := fmt.Fprintf(out, "\n%s; oversold %s; %s refused, %s of them while enough was free\n",
		r.Headline(), figures.Count(r.Verdict.Oversold), figures.Count(r.Verdict.Refusals), figures.Count(r.Verdict.ValidRefusals))
	return err
}

// Headline is the verdict in a few words.
func (r *Result) Headline() string {
	switch {
	case r.Verdict.Broken():
		return "a promise was BROKEN"
	case !r.Verdict.Kept():
		return "whether every promise was kept could NOT be FOUND OUT"
	case r.Interrupted:
		return fmt.Sprintf("INTERRUPTED: %s of %s requests had been sent, and what they were told keeps R1 to R6",
			figures.Count(r.Rates.Requests), figures.Count(r.Settings.Requests))
	case !r.Served.Quick:
		return "R1 to R6 were kept, but buyers were NOT SERVED as R7 says"
	default:
		return "every promise was kept"
	}
}

// rate is a rate with how much it is of what was offered.
func rate(n float64, r Rates) string {
	return fmt.Sprintf("%s (%.2f %%)", figures.Count(n), 100*n/r.Offered)
}
