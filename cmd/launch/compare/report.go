package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
)

// report is what --json writes. Times are in the unit that a field's name ends with.
type report struct {
	Machine  facts  `json:"machine"`
	Capacity int64  `json:"capacity"`
	Requests int    `json:"requests"`
	Workers  int    `json:"workers"`
	Conns    int    `json:"postgres_connections"`
	Rows     []row  `json:"ways"`
	Seed     uint32 `json:"seed"`
}

type facts struct {
	OS   string `json:"os"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// row is what one way came to.
type row struct {
	Way           string   `json:"way"`
	Title         string   `json:"title"`
	Safe          bool     `json:"never_oversells"` // so it promises
	Sold          int64    `json:"sold"`
	Oversold      int64    `json:"oversold"`
	Refused       int      `json:"refused"`
	ValidRefusals int      `json:"valid_refusals"`
	Decisions     int      `json:"decisions"`
	Seconds       float64  `json:"seconds"`
	Rate          float64  `json:"decisions_per_second"`
	Relative      *float64 `json:"rate_by_for_update"` // null: FOR UPDATE was not run
	SoldOut       *float64 `json:"sold_out_seconds"`   // null: some of it was left
	P50           float64  `json:"p50_ms"`
	P99           float64  `json:"p99_ms"`
	CPU           *float64 `json:"server_cpu_us_per_decision"` // null: a server is not ours, or the run was too short for the kernel's clock
	Steal         float64  `json:"steal_percent"`
	Note          string   `json:"note,omitempty"`
}

func newReport(c *Command) *report {
	return &report{
		Machine:  facts{OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()},
		Capacity: c.Capacity, Requests: c.Requests, Workers: c.Workers, Conns: c.Conns, Seed: c.Seed,
	}
}

func newRow(w way, t tally) row {
	r := row{
		Way: w.name, Title: w.title, Safe: w.neverOversells, Sold: t.Sold, Oversold: t.Oversold, Refused: t.Refused, ValidRefusals: t.ValidRefusals,
		Decisions: t.Decisions, Seconds: t.Took.Seconds(), Rate: t.rate(),
		P50: t.P50.Seconds() * 1000, P99: t.P99.Seconds() * 1000,
	}
	if t.SoldOut > 0 {
		seconds := t.SoldOut.Seconds()
		r.SoldOut = &seconds
	}
	return r
}

func (r *report) add(next row) {
	r.Rows = append(r.Rows, next)
	if base := slices.IndexFunc(r.Rows, func(r row) bool { return r.Way == baseline }); base >= 0 {
		for i := range r.Rows {
			relative := r.Rows[i].Rate / r.Rows[base].Rate
			r.Rows[i].Relative = &relative
		}
	}
}

// verdict is an error if a way broke a promise that it makes.
func (r *report) verdict(chosen []way) error {
	var broken []error
	for i, w := range chosen {
		if w.neverOversells && r.Rows[i].Oversold > 0 {
			broken = append(broken, fmt.Errorf("%s oversold by %d", w.name, r.Rows[i].Oversold))
		}
		if w.refusesNobodyWrongly && r.Rows[i].ValidRefusals > 0 {
			broken = append(broken, fmt.Errorf("%s refused %d valid requests", w.name, r.Rows[i].ValidRefusals))
		}
	}
	return errors.Join(broken...)
}

func (r *report) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644) //nolint:gosec // figures, for anybody
}

const legend = `
Oversold: of the items that buyers were told they have, those that do not exist. Valid refusals: refused although enough was
free, all sales counted that were under way. By FOR UPDATE: its rate is 1. p50 and p99: from asking to the answer. CPU/decision:
of the servers (Postgres with all its processes, Redis, Holdfast), without the callers; "-" where they are not ours or took less
than 0.1 s in all, which the kernel's clock cannot tell. Holdfast alone is a service: its holds lapse, can be repeated safely and
are sold in Postgres afterwards; the callers of the others use the store themselves.
`

func (r *report) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s requests for %s items, %d callers, %d connections to Postgres, %d CPUs.\n\n",
		figures.Count(r.Requests), figures.Count(r.Capacity), r.Workers, r.Conns, r.Machine.CPUs)
	width := 0
	for _, row := range r.Rows {
		width = max(width, len(row.Title))
	}
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%-*s\tsold\toversold\tvalid refusals\tdecisions/s\tby FOR UPDATE\tsold out in\tp50 ms\tp99 ms\tCPU/decision\t\n", width, "")
	for _, row := range r.Rows {
		fmt.Fprintf(table, "%-*s\t%s\t%s\t%s\t%s\t%s\t%s\t%.1f\t%.1f\t%s\t\n", width, row.Title,
			figures.Count(row.Sold), figures.Count(row.Oversold), figures.Count(row.ValidRefusals), figures.Count(row.Rate),
			optional(row.Relative, 2, "x"), optional(row.SoldOut, 2, " s"), row.P50, row.P99, optional(row.CPU, 0, " us"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	b.WriteString(legend)
	r.notes(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

// notes are what a reader of the table needs to know of single rows.
func (r *report) notes(b *strings.Builder) {
	steal := 0.0
	for _, row := range r.Rows {
		if row.Note != "" {
			fmt.Fprintf(b, "%s: %s.\n", row.Title, row.Note)
		}
		if !row.Safe && row.Oversold == 0 {
			fmt.Fprintf(b, "%s: not oversold, so the load is too weak to show what is wrong with it: try more --workers.\n", row.Title)
		}
		steal = max(steal, row.Steal)
	}
	fmt.Fprintf(b, "Steal: at most %.0f %% of the machine's time in a row.\n", steal)
}

// optional writes a figure that may not be known.
func optional(f *float64, digits int, unit string) string {
	if f == nil {
		return "-"
	}
	return strconv.FormatFloat(*f, 'f', digits, 64) + unit
}
