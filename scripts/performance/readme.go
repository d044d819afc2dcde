package main

import (
	"fmt"
	"strings"
)

const (
	begin = "<!-- performance:begin -->\n"
	end   = "<!-- performance:end -->\n"
)

// readmeTable is the key rows, and where they are from.
func readmeTable(all []experiment, r *record) string {
	var b strings.Builder
	b.WriteString("| what | target | seen |\n|---|---|---|\n")
	for _, e := range all {
		result, measured := r.of(e.name)
		runs, disturbed := result.counted()
		for _, row := range e.rows(runs) {
			if row.readme == "" {
				continue
			}
			seen := "not measured yet"
			if measured {
				seen = row.seen() + remarks(row, result, disturbed)
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(row.readme), cell(row.target.text(row.unit)), cell(seen))
		}
	}
	if len(r.Results) > 0 {
		last := newest(r)
		fmt.Fprintf(&b, "\n%s, %d cores; %s.\n", last.Machine.CPU, last.Machine.Cores, last.Date.Format(day))
	}
	return b.String()
}

// remarks are what must not be left out even here.
func remarks(r row, of outcome, disturbed bool) string {
	var all []string
	if r.target != nil && (len(r.values) == 0 || !r.target.met(r.values)) {
		all = append(all, "not met")
	}
	if disturbed {
		all = append(all, "disturbed")
	}
	if len(of.failures()) > 0 {
		all = append(all, "a run failed")
	}
	if len(all) == 0 {
		return ""
	}
	return ", **" + strings.Join(all, ", ") + "**"
}

// fill puts a table between the marks.
func fill(text, table string) (string, error) {
	before, rest, found := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("there is no %q before a %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + table + end + after, nil
}
