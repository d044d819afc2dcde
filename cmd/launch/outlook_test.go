package main

import (
	"strings"
	"testing"

	"github.com/holdfast-inventory/holdfast/cmd/launch/load"
)

// TestOutlook: what is said before it begins follows from the settings.
func TestOutlook(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"onsale":                                "onsale: 200,000 requests in 10 s, payments until 11 s, lapses until 16 s, and the check: about 19 s in all",
		"onsale --time-scale=1":                 "onsale: 200,000 requests in 10 s, payments until 109 s, lapses until 124 s, and the check: about 127 s in all",
		"onsale --completion=0 --no-lapses":     "onsale: 200,000 requests in 10 s, and the check: about 13 s in all",
		"onsale --capacity=300000":              "onsale: 200,000 requests in 10 s, payments until 21 s, lapses until 25 s, and the check: about 28 s in all",
		"second-round":                          "second-round: 100,000 requests in 40 s, payments until 51 s, lapses until 55 s, and the check: about 57 s in all",
		"second-round --completion=1":           "second-round: 100,000 requests in 40 s, and the check: about 42 s in all", // the stock is sold early
		"steady --noop":                         "steady: the load without payments to a server that decides nothing, 61 s; 60,000 requests in 60 s, payments until 71 s, lapses until 75 s, and the check: about 138 s in all",
		"steady --duration=200ms --requests=10": "steady: 10 requests in 200ms, payments until 11 s, lapses until 16 s, and the check: about 17 s in all",
	} {
		preset, _, _ := strings.Cut(args, " ")
		if got := crowdOf(t, strings.Fields(args)...).outlook(preset); got != "launch "+want {
			t.Errorf("%s: got  %s\nwant launch %s", args, got, want)
		}
	}
}

// crowdOf is the settings of a command line that names a preset.
func crowdOf(t *testing.T, args ...string) *crowdSettings {
	t.Helper()
	chosen, err := parse(args, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	switch c := chosen.(type) {
	case *onsaleCommand:
		return &c.crowdSettings
	case *steadyCommand:
		return &c.crowdSettings
	case *secondRoundCommand:
		return &c.crowdSettings
	default:
		t.Fatalf("%s is no preset", args)
		return nil
	}
}

// TestPhases: once the requests are over, the line says what is waited for, and it does not go back.
func TestPhases(t *testing.T) {
	t.Parallel()
	var r rehearsal
	for _, test := range []struct {
		next phase
		want string
	}{
		{asking, "  0/s  granted"},
		{paying, "  waiting for late answers and payments  0/s"},
		{lapsing, "  waiting for lapses  0/s"},
		{paying, "  waiting for lapses  0/s"},
		{finishing, "  waiting up to 5 s for confirms under way  0/s"},
		{checking, "  checking  0/s"},
	} {
		r.begin(test.next)
		if got := progressLine(r.now(), load.Progress{}, 0, nil); !strings.HasPrefix(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
