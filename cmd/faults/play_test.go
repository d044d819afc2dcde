package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/cases"
	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
)

// TestVoidHidesNothing: a case that failed while the clock was stepped tells all that failed, and fails if it is not played again.
func TestVoidHidesNothing(t *testing.T) {
	t.Parallel()
	c := cases.Case{Row: record.Row{Case: "F01"}}
	for _, test := range []struct {
		again   bool
		outcome string
		failed  []string
	}{
		{again: true, outcome: "VOID"},
		{again: false, outcome: "FAILED", failed: []string{"F01"}},
	} {
		var out strings.Builder
		p := &player{out: &out}
		p.tell(c, &cases.Played{Result: record.Result{Failures: []string{"R1: oversold"}}, Stepped: 7 * time.Millisecond}, nil, test.again, 0)
		for _, want := range []string{test.outcome, "R1: oversold", "stepped by 7ms"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("again %t: told %q, without %q", test.again, out.String(), want)
			}
		}
		if !slices.Equal(p.failed, test.failed) {
			t.Errorf("again %t: failed %q, want %q", test.again, p.failed, test.failed)
		}
	}
}

// TestControlSaysSo: that a case fails without its guards is told as what is to be.
func TestControlSaysSo(t *testing.T) {
	t.Parallel()
	c := cases.Case{Row: record.Row{Case: "F12"}}
	for want, failures := range map[string][]string{
		"ok     control: without retries, repeat it fails, as it must": {"R1: oversold"},
		"FAILED control: without retries, repeat it must fail":         nil,
	} {
		var out strings.Builder
		p := &player{out: &out}
		p.tell(c, &cases.Played{Result: record.Result{Failures: failures}}, []string{"retries", "repeat"}, false, 0)
		if !strings.Contains(out.String(), want) || len(p.failed) > 0 {
			t.Errorf("%q, failed %q; want %q, and that it is left to the control", out.String(), p.failed, want)
		}
	}
}
