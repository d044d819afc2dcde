package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const day = time.DateOnly

const preface = `# Performance

What was measured, on which machine, and whether it is what was asked. This page and the table in the README are written by
` + "`make bench`" + `, from docs/performance.json; do not change them by hand.

Each experiment is run until %d runs had a steal below %d %% (the part of the time of all processors that the machine's host gave
to others), %d times at most; then the %[1]d least disturbed runs count, and that is said. Those that take long were given fewer runs; how many
is said with each, and which commit they are of. Figures are medians of the runs, the least
and the most in brackets. A run that broke a promise is shown as a failure, whatever its figures. Unless it is said
otherwise, Redis keeps no file and Postgres does not wait for the disk, as with ` + "`holdfast dev --ephemeral`" + `, all on this
machine, and started anew for each run.

`

// render writes the document.
func render(all []experiment, r *record) string {
	var b strings.Builder
	fmt.Fprintf(&b, preface, wantedRuns, quiet, mostTries)
	machine := newest(r)
	if len(r.Results) > 0 {
		b.WriteString(machineTable(machine))
	}
	for _, e := range all {
		fmt.Fprintf(&b, "## %s\n\n%s\n\n    make bench args='--only %s'\n\n", e.title, e.asked, e.name)
		result, measured := r.of(e.name)
		if !measured {
			b.WriteString("Not measured yet.\n\n")
			continue
		}
		b.WriteString(section(e, result))
		if result.Machine != machine.Machine {
			fmt.Fprintf(&b, "This was measured on another machine, or with other versions:\n\n%s", machineTable(result))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// newest is the result that was measured last.
func newest(r *record) outcome {
	if len(r.Results) == 0 {
		return outcome{}
	}
	return slices.MaxFunc(r.Results, func(a, b outcome) int { return a.Date.Compare(b.Date) })
}

func machineTable(r outcome) string {
	m := r.Machine
	var b strings.Builder
	b.WriteString("| | |\n|---|---|\n")
	for _, line := range [][2]string{
		{"processor", fmt.Sprintf("%s, %d cores", m.CPU, m.Cores)},
		{"kernel", m.Kernel},
		{"Go", m.Go},
		{"GOGC of a server", m.GOGC},
		{"GOMAXPROCS of a server", m.MaxProcs},
		{"Redis", m.Redis},
		{"Postgres", m.Postgres},
		{"date", r.Date.Format(day)},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", line[0], cell(line[1]))
	}
	return b.String() + "\n"
}

// section is an experiment's results: the runs, what failed, and the table.
func section(e experiment, r outcome) string {
	var b strings.Builder
	b.WriteString(runsLine(r) + "\n\n")
	for _, failure := range r.failures() {
		fmt.Fprintf(&b, "**FAILED**: %s\n\n", failure)
	}
	runs, _ := r.counted()
	if len(runs) == 0 {
		return b.String()
	}
	b.WriteString("| what | target | seen | met |\n|---|---|---|---|\n")
	for _, row := range e.rows(runs) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", cell(row.title()), cell(row.target.text(row.unit)), cell(row.seen()), row.verdict())
	}
	return b.String() + "\n"
}

// runsLine says which runs count, and how disturbed they were.
func runsLine(r outcome) string {
	runs, disturbed := r.counted()
	line := r.Date.Format(day)
	if r.Revision != "" {
		line += ", commit " + r.Revision
	}
	line += fmt.Sprintf(": %d of %d runs", len(runs), len(r.Runs))
	if len(runs) == 0 {
		return line + "."
	}
	steal := row{measure{unit: "%"}, nil}
	for _, run := range runs {
		if run.Steal != nil {
			steal.values = append(steal.values, *run.Steal)
		}
	}
	if len(steal.values) > 0 {
		line += ", steal " + steal.seen()
	}
	if disturbed {
		line += fmt.Sprintf(". **Disturbed**: fewer than %d runs had a steal below %d %%; these are the least disturbed ones", r.Wanted, quiet)
	}
	return line + "."
}

// cell keeps a text from ending a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
