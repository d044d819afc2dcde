package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
	"github.com/holdfast-inventory/holdfast/cmd/launch/result"
)

// drawn is a small result with something in each chart. Its text tries to break out of the page.
func drawn() *result.Result {
	number := func(n float64) *float64 { return &n }
	latency := result.Latency{
		Count: 100, P50: 1, P90: 2, P99: 3, P999: 4, Max: 5, Over: 1,
		Points: []result.Point{{Quantile: 0, Millis: 0.5}, {Quantile: 0.5, Millis: 1}, {Quantile: 0.9, Millis: 2}, {Quantile: 1, Millis: 5}},
	}
	return &result.Result{
		Preset: "onsale", Started: time.Now(), Addresses: []string{"</script><b>"}, Allotment: "launch-test",
		Settings: result.Settings{Requests: 100, Seconds: 1, Capacity: 10, Window: 2},
		Rates:    result.Rates{Offered: 100, Sent: 99.9, Decided: 99.8, Requests: 100, Decisions: 100},
		Outcomes: []result.Outcome{{Name: "granted", Call: "hold", Calls: 10, Units: 10}}, Decisions: latency, Confirms: latency, Late: latency,
		AfterLoad: &result.Stock{Capacity: 10, Held: 10}, End: &result.Stock{Capacity: 10, Available: 10},
		Usage: machine.Usage{Took: time.Second, Cores: 2}, Noop: &result.Noop{Rates: result.Rates{Offered: 100}, Decisions: latency, Ratio: 2.5},
		Verdict: &history.Verdict{Promises: []*history.Promise{
			{ID: "R1", Name: "never oversold", Kept: true, Facts: "facts"},
			{ID: "R2", Name: "no valid refusal", Breaches: 1234, Examples: []string{"what & where"}},
		}},
		Series: result.Series{
			Span: 0.5, Starts: []float64{0, 0.5}, Granted: []float64{20, 0}, Known: []float64{0, 2}, Refused: []float64{80, 98}, Trouble: []float64{0, 0},
			Sold: []float64{0, 1}, P50: []*float64{number(1), nil}, P99: []*float64{number(2), number(3)}, Max: []*float64{number(2), number(5)},
			Stocks: []result.Stock{{Seconds: 0, Capacity: 10, Available: 10}, {Seconds: 1, Capacity: 10, Held: 9, Sold: 1}},
		},
	}
}

func render(t *testing.T, r *result.Result) string {
	t.Helper()
	var out bytes.Buffer
	if err := Render(&out, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var dataInPage = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)

func dataOf(t *testing.T, page string) map[string][][]*float64 {
	t.Helper()
	found := dataInPage.FindStringSubmatch(page)
	if found == nil {
		t.Fatal("no data in the page")
	}
	var data map[string][][]*float64
	if err := json.Unmarshal([]byte(found[1]), &data); err != nil {
		t.Fatalf("%v in %s", err, found[1])
	}
	return data
}

// TestNoEmptyChart: each chart has a place in the page, is drawn by the code, and has points in every line.
func TestNoEmptyChart(t *testing.T) {
	page := render(t, drawn())
	data := dataOf(t, page)
	for chart, linesOfIt := range map[string]int{"stock": 3, "outcomes": 5, "latency": 3, "distribution": 1, "noop": 1, "confirms": 1} {
		columns := data[chart]
		if len(columns) != linesOfIt+1 {
			t.Errorf("%s has %d columns", chart, len(columns))
			continue
		}
		for i, column := range columns {
			points := 0
			for _, value := range column {
				if value != nil {
					points++
				}
			}
			if len(column) != len(columns[0]) || len(column) < 2 || points == 0 {
				t.Errorf("column %d of %s has %d values, %d of them set", i, chart, len(column), points)
			}
		}
	}
	for _, chart := range []string{"stock", "outcomes", "latency", "distribution"} {
		if !strings.Contains(page, `class="chart" id="`+chart+`"`) || !strings.Contains(page, `draw("`+chart+`"`) {
			t.Errorf("%s is not drawn", chart)
		}
	}
}

func TestDistributionRises(t *testing.T) {
	d := dataOf(t, render(t, drawn()))["distribution"]
	for i := 1; i < len(d[0]); i++ {
		if *d[0][i] <= *d[0][i-1] || *d[1][i] < *d[1][i-1] {
			t.Errorf("point %d: %v ms at %v", i, *d[1][i], *d[0][i])
		}
	}
	if last := len(d[0]) - 1; *d[0][last] != 2 || *d[1][last] != 5 { // the slowest of a hundred
		t.Errorf("it ends with %v ms at %v", *d[1][last], *d[0][last])
	}
}

// TestSelfContained: the page needs nothing else, and what it is given can not break out of its place.
func TestSelfContained(t *testing.T) {
	page := render(t, drawn())
	if !strings.Contains(page, "var uPlot=") || !strings.Contains(page, ".uplot") {
		t.Error("the library is not in the page")
	}
	if found := regexp.MustCompile(`(?i)(src|href)\s*=\s*["']|@import|url\(`).FindString(page); found != "" {
		t.Errorf("the page asks for something: %s", found)
	}
	if strings.Contains(page, "</script><b>") {
		t.Error("a text has become part of the page")
	}
	for _, want := range []string{"a promise was BROKEN", "BROKEN 1,234 times", "what &amp; where", "2.50 times the no-op", "when the first try of each request had its answer", "refused, 0 of them while enough was free"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}

// TestNothingHappened: a run without an answer has a page, too.
func TestNothingHappened(t *testing.T) {
	r := &result.Result{Verdict: &history.Verdict{}, Usage: machine.Usage{Took: time.Second}, Series: result.Series{Starts: []float64{0}}}
	file := filepath.Join(t.TempDir(), "report.html")
	if err := Write(file, r); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(page), "NOT SERVED") {
		t.Errorf("%v, %d bytes", err, len(page))
	}
	if err := Write(filepath.Join(t.TempDir(), "nowhere", "report.html"), r); err == nil {
		t.Error("written into a folder that is not there")
	}
}
