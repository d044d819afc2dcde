package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
)

// Row is what the page says of a case beside its result.
type Row struct {
	Case                               string // such as F05, or F09-none
	Title, Deployment, Fault, Expected string
	NotApplicable                      string // why it is no case; then nothing else but Case and Title counts
	SlowOK                             string // why answers may take longer
	NoControl                          string // why there is no guard to take out
}

// answerTarget is how long an answer may take at p99, in milliseconds.
const answerTarget = 100

// switchTarget is how long callers may wait for a decision after a master was switched, in milliseconds.
const switchTarget = 1000

const head = `<!-- Written by cmd/faults from docs/faults.json. Do not edit: make faults args='--record docs/faults.json' -->

# What faults do

Each row is a case of ` + "`make faults`" + `: real servers on loopback, callers who write down every call, one fault, and a checker
over what callers were told and over both stores. In every case it looks for: anything oversold; a refusal while enough was free;
an acknowledged hold that could not be confirmed until its deadline; a sale that is there twice; a repeat that is answered
otherwise; stock that does not add up within 5 s of healing; and servers whose goroutines, connections or memory do not come back to what
they were before. A case fails, too, when its fault did not hit.

- *hits*: the signs that the fault was there. A text that reads like a broken promise is what the fault is bound to bring, and was counted.
- *seen*: requests are for holds, and so are those granted and refused; *trouble* is UNAVAILABLE and RESOURCE_EXHAUSTED, each time that it was told to a
  request, its repeats, or a confirm. *unavailable*: the longest time without a decision, of all servers together.
- *back*: from the end of the fault to the next decision. *p99*: of answers of any kind, UNAVAILABLE included, to requests sent
  while the fault lasted; asked for are 100 ms; and to those before it, which tells how busy the machine was. *adds up*: from the end of the fault until both stores agreed.
- *control*: the same case with the guards named taken out of the program, which must fail; the last time that this was tried.

Servers under Sentinels and of clusters have repl-diskless-sync-delay 0, Sentinels parallel-syncs of as many replicas as there are, and min-replicas-to-write is 0
where the row does not name it.

A hold that was acknowledged and is *lost* is told to its owner as HOLD_LAPSED, where the deployment does not promise more.

`

// Page is the record for people.
func (r *Record) Page(rows []Row) string {
	var b strings.Builder
	b.WriteString(head)
	b.WriteString(r.provenance())
	b.WriteString("| # | fault | where | expected | hits | seen | unavailable | back | p99 | adds up | control |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r.cells(row), " | "))
	}
	b.WriteString(r.failures(rows))
	b.WriteString(r.randomRuns())
	return b.String()
}

// provenance says where and when the results are from.
func (r *Record) provenance() string {
	if len(r.Results) == 0 {
		return ""
	}
	var seeds []string
	short, first, last := 0, r.Results[0].Date, r.Results[0].Date
	for _, result := range r.Results {
		if seed := fmt.Sprint(result.Seed); !slices.Contains(seeds, seed) && result.Seed != 0 {
			seeds = append(seeds, seed)
		}
		if !result.Long {
			short++
		}
		if result.Date.Before(first) {
			first = result.Date
		}
		if result.Date.After(last) {
			last = result.Date
		}
	}
	const day = "2006-01-02 15:04"
	return fmt.Sprintf("Seen from %s to %s UTC on %s; seeds %s. %d of %d cases in the short form.\n\n", first.Format(day), last.Format(day),
		r.Machine, strings.Join(seeds, ", "), short, len(r.Results))
}

func (r *Record) cells(row Row) []string {
	if row.NotApplicable != "" {
		return []string{row.Case, cell(row.Title), "", "does not apply: " + cell(row.NotApplicable), "", "", "", "", "", "", ""}
	}
	start := []string{row.Case, cell(row.Fault), row.Deployment, cell(row.Expected)}
	result, there := r.Of(row.Case)
	switch {
	case !there:
		return append(start, "", "**not run yet**", "", "", "", "", "")
	case result.Skipped != "":
		return append(start, "", "**skipped**: "+cell(result.Skipped), "", "", "", "", "")
	}
	t := result.Times
	return append(start, hits(result.Hits), result.seen(), t.unavailable(), millis(t.Recovery), p99(t, row.SlowOK), millis(t.Settled),
		cmp.Or(cell(row.NoControl), result.Control.text()))
}

func (r Result) seen() string {
	c := r.Calls
	text := fmt.Sprintf("%s requests: %s granted, %s refused, %s trouble, %s unanswered; %s sold; oversold %d, false refusals %d, lost %d",
		figures.Count(c.Requests), figures.Count(c.Granted), figures.Count(c.Refused), figures.Count(c.Trouble), figures.Count(c.Unknown),
		figures.Count(c.Sold), c.Oversold, c.FalseNoes, c.Lost)
	if r.Linear != "" {
		text += "; small history: " + r.Linear
	}
	if len(r.Failures) > 0 {
		text = fmt.Sprintf("**failed** (%d); ", len(r.Failures)) + text
	}
	return text
}

func (c *Control) text() string {
	switch {
	case c == nil:
		return ""
	case c.Failure == "":
		return strings.Join(c.Guards, ", ") + ": **not missed**"
	default:
		return strings.Join(c.Guards, ", ") + ": fails (" + c.Date.Format(time.DateOnly) + ")"
	}
}

func hits(all []Hit) string {
	var texts []string
	for _, h := range all {
		texts = append(texts, fmt.Sprintf("%s %s", figures.Count(h.Count), h.What))
	}
	return cell(strings.Join(texts, ", "))
}

func millis(ms float64) string { return figures.Millis(ms) + " ms" }

func (t Times) unavailable() string {
	text := millis(t.Unavailable)
	if t.Switch > 0 {
		ours := millis(t.Switch)
		if t.Switch > switchTarget {
			ours = "**" + ours + "**"
		}
		text += ", " + ours + " of it from the switch of masters"
	}
	return text
}

func p99(t Times, slowOK string) string {
	text := millis(t.P99)
	if t.P99 > answerTarget {
		text = "**" + text + "**"
	}
	text += ", before it " + millis(t.Calm)
	if t.P99 > answerTarget && slowOK != "" {
		text += " (" + cell(slowOK) + ")"
	}
	return text
}

// failures are told in full below the table.
func (r *Record) failures(rows []Row) string {
	var b strings.Builder
	for _, row := range rows {
		result, _ := r.Of(row.Case)
		for _, f := range result.Failures {
			fmt.Fprintf(&b, "- **%s**: %s\n", row.Case, cell(f))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n## Failed\n\n" + b.String()
}

func (r *Record) randomRuns() string {
	if len(r.Random) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n## Random faults\n\n| where | guards taken out | seed | time | faults that hit | seen | p99 | result |\n|---|---|---|---|---|---|---|---|\n")
	for _, x := range r.Random {
		outcome := "clean"
		if len(x.Failures) > 0 {
			outcome = "**failed**: " + cell(x.Failures[0])
		}
		if len(x.Without) > 0 {
			outcome = "**not missed**"
			if len(x.Failures) > 0 {
				outcome = "fails: " + cell(x.Failures[0])
			}
		}
		seen := Result{Calls: x.Calls, Linear: x.Linear}.seen()
		void := ""
		if x.Void > 0 {
			void = fmt.Sprintf(", %d void", x.Void)
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s s, %d rounds%s | %s | %s | %s | %s |\n", x.Deployment, strings.Join(x.Without, ", "), x.Seed,
			figures.Count(x.Seconds), x.Rounds, void, hits(x.Hits), seen, millis(x.P99), outcome)
	}
	return b.String()
}

// cell keeps a text from ending a cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", `\|`), "\n", " ")
}
