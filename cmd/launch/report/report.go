// Package report draws a rehearsal as one page that needs nothing else: no network, no other file.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"os"
	"strings"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
	"github.com/holdfast-inventory/holdfast/cmd/launch/result"
)

var (
	//go:embed page.html
	page string
	//go:embed charts.js
	charts string
	//go:embed uplot/uPlot.iife.min.js
	uplotCode string
	//go:embed uplot/uPlot.min.css
	uplotStyle string
)

// view is what the page shows.
type view struct {
	*result.Result
	Kept       bool
	Usage      string
	NoopUsage  string
	Charts     chartData
	Code       template.JS
	Library    template.JS
	LibraryCSS template.CSS
}

// chartData is what the charts draw: for each the places on its horizontal axis, and then its lines.
type chartData struct {
	Stock        [][]*float64 `json:"stock"`        // seconds, available, held, sold
	Outcomes     [][]*float64 `json:"outcomes"`     // seconds, granted, known, sold, refused, trouble
	Latency      [][]*float64 `json:"latency"`      // seconds, p50, p99, largest
	Distribution [][]*float64 `json:"distribution"` // how rare, decisions
	Noop         [][]*float64 `json:"noop"`         // how rare, no-op; empty: was not measured
	Confirms     [][]*float64 `json:"confirms"`     // how rare, confirms; empty: there were none
}

// Write writes the page of a result into a file.
func Write(file string, r *result.Result) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	err = Render(f, r)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// Render writes the page of a result.
func Render(out io.Writer, r *result.Result) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"number": func(n any) string { return figures.Count(asFloat(n)) },
		"ms":     figures.Millis,
		"share":  func(part, whole float64) string { return fmt.Sprintf("%.2f %%", 100*part/whole) },
		"join":   strings.Join,
		"rows":   latencyRows,
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	v := view{
		Result: r, Kept: r.Verdict.Kept(), Charts: chartsOf(r),
		//nolint:gosec // embedded files of ours, and a library that is vendored
		Code: template.JS(charts), Library: template.JS(uplotCode), LibraryCSS: template.CSS(uplotStyle),
	}
	if r.Usage.Took > 0 {
		v.Usage = result.UsageText(r.Usage, r.DecidedInTime())
	}
	if r.Noop != nil {
		v.NoopUsage = result.UsageText(r.Noop.Usage, r.Noop.Rates.Decisions)
	}
	if err := t.Execute(out, v); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func asFloat(n any) float64 {
	switch n := n.(type) {
	case int64:
		return float64(n)
	case int:
		return float64(n)
	case float64:
		return n
	default:
		return math.NaN()
	}
}

type latencyRow struct {
	Name string
	result.Latency
}

// latencyRows are the rows of the table of latencies.
func latencyRows(r *result.Result) []latencyRow {
	rows := []latencyRow{{"decisions", r.Decisions}, {"confirms", r.Confirms}}
	if r.Noop != nil {
		rows = append(rows, latencyRow{"no-op", r.Noop.Decisions})
	}
	return append(rows, latencyRow{"sent late by", r.Late})
}

func chartsOf(r *result.Result) chartData {
	s := r.Series
	var at, available, held, sold []float64
	for _, stock := range s.Stocks {
		at = append(at, stock.Seconds)
		available, held, sold = append(available, float64(stock.Available)), append(held, float64(stock.Held)), append(sold, float64(stock.Sold))
	}
	d := chartData{
		Stock:        lines(at, available, held, sold),
		Outcomes:     lines(s.Starts, s.Granted, s.Known, s.Sold, s.Refused, s.Trouble),
		Latency:      append(lines(s.Starts), s.P50, s.P99, s.Max),
		Distribution: distribution(r.Decisions),
		Confirms:     distribution(r.Confirms),
	}
	if r.Noop != nil {
		d.Noop = distribution(r.Noop.Decisions)
	}
	return d
}

func lines(columns ...[]float64) [][]*float64 {
	all := make([][]*float64, len(columns))
	for i, column := range columns {
		all[i] = []*float64{}
		for j := range column {
			all[i] = append(all[i], &column[j])
		}
	}
	return all
}

// distribution has on its horizontal axis how rare it is that a call takes longer: 1 for one of ten, 2 for one of a
// hundred, and so on.
func distribution(l result.Latency) [][]*float64 {
	if l.Count == 0 {
		return nil
	}
	var rare, ms []float64
	least := 1 / float64(l.Count)
	for _, p := range l.Points {
		x := -math.Log10(max(1-p.Quantile, least))
		if n := len(rare); n > 0 && rare[n-1] >= x {
			ms[n-1] = max(ms[n-1], p.Millis)
			continue
		}
		rare, ms = append(rare, x), append(ms, p.Millis)
	}
	return lines(rare, ms)
}
