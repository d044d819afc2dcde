// Package flags checks what a command line says before anything is done. An error names the flag, what it is, and what it
// may be.
package flags

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
)

// Count says whether a number is out of its bounds.
func Count[N int | int64](flag string, n, least, most N) error {
	if n < least || n > most {
		return fmt.Errorf("%s is %s, must be from %s to %s", flag, figures.Count(n), figures.Count(least), figures.Count(most))
	}
	return nil
}

// Number is Count for one with fractions.
func Number(flag string, n, least, most float64) error {
	if !(n >= least && n <= most) { // NaN is neither
		return fmt.Errorf("%s is %s, must be from %s to %s", flag, number(n), number(least), number(most))
	}
	return nil
}

func number(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }

// Lasts is Count for a length of time.
func Lasts(flag string, d, least, most time.Duration) error {
	if d < least || d > most {
		return fmt.Errorf("%s is %s, must be from %s to %s", flag, lasts(d), lasts(least), lasts(most))
	}
	return nil
}

// lasts writes a time as one would on a command line: 24h, where Go has 24h0m0s.
func lasts(d time.Duration) string {
	text := d.String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Address says why nobody could be called there.
func Address(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		var n uint64
		if n, err = strconv.ParseUint(port, 10, 16); n == 0 {
			err = strconv.ErrRange
		}
	}
	if err != nil {
		return fmt.Errorf("%s is %q, must be HOST:PORT with a port from 1 to 65535", flag, address)
	}
	return nil
}
