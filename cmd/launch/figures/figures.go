// Package figures writes numbers for people.
package figures

import (
	"math"
	"strconv"
)

// Count writes a number without fractions and with its thousands apart.
func Count[N int | int64 | float64](n N) string {
	rounded := math.Round(float64(n))
	text := strconv.FormatFloat(math.Abs(rounded), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if rounded < 0 {
		return "-" + text
	}
	return text
}

// Millis writes milliseconds to three digits.
func Millis(ms float64) string {
	switch {
	case ms >= 100:
		return Count(ms)
	case ms >= 10:
		return strconv.FormatFloat(ms, 'f', 1, 64)
	default:
		return strconv.FormatFloat(ms, 'f', 2, 64)
	}
}

// Short writes a number with as few digits as it needs, and at most two behind the point.
func Short(n float64) string { return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64) }
