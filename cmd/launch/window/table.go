package window

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
)

// printTable prints the launch and its windows, the last of which is of the run that was seen, if there is one.
func printTable(out io.Writer, l Launch, windows []Window, seen *Run) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s requests in %s for %s items each, and %s items: %sx the stock.\n",
		figures.Count(l.Requests), seconds(l.Duration), number(l.Items), figures.Count(l.Capacity), number(l.Demand()))
	if l.Drains() {
		fmt.Fprintf(&b, "Gone in %.3f s, after %s requests; the other %s must be told so.\n",
			l.DrainTime().Seconds(), figures.Count(l.RequestsByDrain()), figures.Count(max(0, l.Requests-l.RequestsByDrain())))
	} else {
		fmt.Fprintf(&b, "Not gone in the rush: %s items are held.\n", figures.Count(l.Held()))
	}
	if seen != nil {
		fmt.Fprintf(&b, "Seen in the run: %s holds granted, %s confirmed: %.1f %%. Its buyers were simulated: %s %% of them were to pay.\n",
			figures.Count(seen.HoldsGranted), figures.Count(seen.HoldsConfirmed), 100*seen.Seen().Completion, number(100*seen.Completion))
		b.WriteString(seen.warning())
		if seen.Scale != 1 {
			fmt.Fprintf(&b, "A hold lasted %s in it, which stands for %s.\n", seconds(time.Duration(seen.Scale*float64(seen.Window))), seconds(seen.Window))
		}
	}
	b.WriteString("\n")
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "window\tpaid for\tsold in round one\tback for round two\twasted item-seconds\t")
	for i, w := range windows {
		round, length := l.FirstRound(w), seconds(w.Length)
		if seen != nil && i == len(windows)-1 {
			length = "seen: " + length
		}
		fmt.Fprintf(table, "%s\t%s %%\t%s\t%s\t%s\t\n", length, number(100*w.Completion),
			figures.Count(round.Sold), figures.Count(round.Back), figures.Count(round.Wasted))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// seconds writes a length of time as the launch's documents do.
func seconds(d time.Duration) string { return number(d.Seconds()) + " s" }

// number has at most one digit behind the point.
func number(f float64) string { return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0") }
