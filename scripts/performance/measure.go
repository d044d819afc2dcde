package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
)

// measure is what is shown of one figure.
type measure struct {
	name, unit string  // of the figure
	what       string  // in the document; empty: its name
	target     *target // nil: it is only shown
	readme     string  // what the README's table calls it; empty: it is not there
}

func (m measure) title() string { return cmp.Or(m.what, m.name) }

// target is what is asked of a figure.
type target struct {
	words string
	limit float64
	met   func(values []float64) bool
}

func (t *target) text(unit string) string {
	if t == nil {
		return ""
	}
	limit := figures.Short(t.limit) // as it was asked
	if t.limit >= 1000 {
		limit = figures.Count(t.limit)
	}
	return t.words + withUnit(limit, unit)
}

// atMost and atLeast are about the median.
func atMost(limit float64) *target {
	return &target{"at most ", limit, func(values []float64) bool { return median(values) <= limit }}
}

func atLeast(limit float64) *target {
	return &target{"at least ", limit, func(values []float64) bool { return median(values) >= limit }}
}

// always and above are about every run.
func always(want float64) *target {
	return &target{"", want, func(values []float64) bool {
		return !slices.ContainsFunc(values, func(v float64) bool { return v != want })
	}}
}

func above(limit float64) *target {
	return &target{"over ", limit, func(values []float64) bool {
		return !slices.ContainsFunc(values, func(v float64) bool { return v <= limit })
	}}
}

// verdict says whether the target is met. What was not seen does not meet it.
func (r row) verdict() string {
	switch {
	case r.target == nil:
		return ""
	case len(r.values) > 0 && r.target.met(r.values):
		return "yes"
	default:
		return "**no**"
	}
}

// seen is the median of the values with the least and the most of them.
func (r row) seen() string {
	if len(r.values) == 0 {
		return "nothing"
	}
	text := withUnit(number(median(r.values)), r.unit)
	least, most := number(slices.Min(r.values)), number(slices.Max(r.values))
	if least == most {
		return text
	}
	return text + " (" + least + "-" + most + ")"
}

// withUnit takes Go's words for units into a sentence: a ratio such as x-baseline, a time such as back-s.
func withUnit(number, unit string) string {
	base, isRatio := strings.CutPrefix(unit, "x-")
	if i := strings.LastIndex(unit, "-"); !isRatio && i >= 0 && (unit[i+1:] == "s" || unit[i+1:] == "ms") {
		unit = unit[i+1:]
	}
	switch {
	case unit == "":
		return number
	case isRatio:
		return number + " times the " + base
	default:
		return number + " " + unit
	}
}

// number writes a figure with as many digits as it is worth.
func number(v float64) string {
	switch digits := 2; {
	case v >= 1000 || v == float64(int64(v)):
		return figures.Count(v)
	case v >= 100:
		digits = 1
		fallthrough
	case v >= 0.1:
		return strconv.FormatFloat(v, 'f', digits, 64)
	default:
		return strconv.FormatFloat(v, 'g', digits, 64)
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
