package window

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

// launchOf runs the command as `launch window ARGS` does, and returns what it prints.
func launchOf(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var commands struct {
		Window Command `cmd:""`
	}
	parser, err := kong.New(&commands, kong.Writers(io.Discard, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(append([]string{"window"}, args...)); err != nil {
		return "", err
	}
	var out strings.Builder
	err = commands.Window.Run(context.Background(), &out, io.Discard)
	return out.String(), err
}

// TestThePublishedTable holds the defaults to the launch that Holdfast was designed for.
func TestThePublishedTable(t *testing.T) {
	t.Parallel()
	got, err := launchOf(t)
	if err != nil {
		t.Fatal(err)
	}
	want := `200,000 requests in 10 s for 1.4 items each, and 5,000 items: 56x the stock.
Gone in 0.179 s, after 3,571 requests; the other 196,429 must be told so.

  window  paid for  sold in round one  back for round two  wasted item-seconds
    30 s      45 %              2,250               2,750               82,500
   120 s      65 %              3,250               1,750              210,000
   300 s      72 %              3,600               1,400              420,000
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestOwnNumbersAndASeenRun: the run's numbers hold where none are given.
func TestOwnNumbersAndASeenRun(t *testing.T) {
	t.Parallel()
	file := runOf(t, `{"rate": 20000, "settings": {"requests": 3000, "seconds": 60, "capacity": 700, "two": 0, "time_scale": 0.1, "completion": 0.65},
		"holds": {"granted": 800, "confirmed": 500, "window_seconds": 45.5, "lapsed": 300}}`)
	got, err := launchOf(t, "--capacity=1000", "--window=1m=50%", "--from="+file)
	if err != nil {
		t.Fatal(err)
	}
	want := `3,000 requests in 60 s for 1 items each, and 1,000 items: 3x the stock.
Gone in 20.000 s, after 1,000 requests; the other 2,000 must be told so.
Seen in the run: 800 holds granted, 500 confirmed: 62.5 %. Its buyers were simulated: 65 % of them were to pay.
A hold lasted 4.5 s in it, which stands for 45.5 s.

        window  paid for  sold in round one  back for round two  wasted item-seconds
          60 s      50 %                500                 500               30,000
  seen: 45.5 s    62.5 %                625                 375               17,063
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestARunThatServedBadly: the share that was seen is too low then, and that is said with its causes.
func TestARunThatServedBadly(t *testing.T) {
	t.Parallel()
	const run = `{"settings": {"requests": 30000, "seconds": 60, "capacity": 700, "time_scale": 1}, "holds": {"granted": 2000, "confirmed": 500, "window_seconds": 45},
		"served": {"buyers": 30000, "told": %d, "paying": 1500, "paying_told": %d}, "outcomes": [{"name": "refused", "call": "confirm", "why": "HOLD_LAPSED", "calls": %d},
		{"name": "refused", "call": "hold", "why": "ALL_HELD", "calls": 9000}, {"name": "trouble", "call": "confirm", "why": "RESULT_UNKNOWN", "calls": 9000}]}`
	for name, test := range map[string]struct {
		told, payingTold, lapsed int
		want                     string
	}{
		"nearly all were served": {29970, 1498, 2, ""},
		"many were never told":   {22000, 1500, 0, "8,000 of 30,000 buyers were never told whether they have a hold."},
		"many paid in vain":      {30000, 1400, 900, "100 paid and were never told whether it is a sale, 900 paid and were refused with HOLD_LAPSED."},
	} {
		got, err := launchOf(t, "--from="+runOf(t, fmt.Sprintf(run, test.told, test.payingTold, test.lapsed)))
		if err != nil {
			t.Fatal(err)
		}
		_, warning, warned := strings.Cut(got, "That share is TOO LOW, since the run could not serve everybody: ")
		if warned != (test.want != "") || !strings.HasPrefix(warning, test.want) {
			t.Errorf("%s: no %q in:\n%s", name, test.want, got)
		}
	}
}

// TestMoreStockThanDemand: what is not asked for is neither held nor wasted.
func TestMoreStockThanDemand(t *testing.T) {
	t.Parallel()
	l := Launch{Capacity: 1000, Requests: 100, Duration: time.Second, Items: 2}
	if l.Drains() {
		t.Error("200 of 1,000 items drain the stock")
	}
	got := l.FirstRound(Window{Length: 10 * time.Second, Completion: 0.25})
	if want := (Round{Sold: 50, Back: 150, Wasted: 1500}); got != want {
		t.Errorf("first round %+v, want %+v", got, want)
	}
}

// TestThousandsAreApart: as in every other number.
func TestThousandsAreApart(t *testing.T) {
	t.Parallel()
	got, err := launchOf(t, "--requests=3000")
	if err != nil || !strings.Contains(got, "Not gone in the rush: 4,200 items are held.") {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestWrongWindowsAreNamed(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"--window=120=0.5":  "length of time",
		"--window=120s=1.1": "share",
		"--window=120s=x":   "share",
		"--window=120s=NaN": "share",
	} {
		if _, err := launchOf(t, arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v does not name %s", arg, err, want)
		}
	}
}

// TestRunThatCannotBeUsed: the message says what is wrong with the file.
func TestRunThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	const settings = `"settings":{"requests":9,"seconds":1,"capacity":9,"two":0.4}`
	for bad, want := range map[string]string{
		`{` + settings + `,"holds":{},"interrupted":true}`: "interrupted",
		`{}`: "no settings and holds", `[]`: "not the JSON", `{"holds":{"granted":1}}`: "no settings and holds",
		`{"settings":{"requests":9},"holds":{}}`:                                     "above 0",
		`{` + settings + `,"holds":{"granted":0,"confirmed":0,"window_seconds":1}}`:  "no hold was granted",
		`{` + settings + `,"holds":{"granted":1,"confirmed":2,"window_seconds":1}}`:  "2 of 1 holds",
		`{` + settings + `,"holds":{"granted":1,"confirmed":-1,"window_seconds":1}}`: "-1 of 1 holds",
		`{` + settings + `,"holds":{"granted":1,"confirmed":1,"window_seconds":0}}`:  "window_seconds",
	} {
		if _, err := launchOf(t, "--from="+runOf(t, bad)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", bad, err, want)
		}
	}
}

// runOf is a file that a run may have written.
func runOf(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
