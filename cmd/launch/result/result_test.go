package result

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
	"github.com/holdfast-inventory/holdfast/cmd/launch/window"
)

// TestIntendedTimes: latency counts from when a call should have been sent, not from when it was.
func TestIntendedTimes(t *testing.T) {
	var calls []*history.Call
	for i := range 100 {
		at := time.Duration(i) * time.Millisecond
		// A generator that stands still until 100 ms, and a server that answers in a millisecond.
		calls = append(calls, &history.Call{Intended: at, Sent: 100 * time.Millisecond, Answered: 101 * time.Millisecond, Outcome: history.Refused})
	}
	d, late := Decisions(calls), Late(calls)
	if d.Count != 100 || math.Abs(d.P50-51) > 1.5 || math.Abs(d.Max-101) > 1 || d.Over != 1 {
		t.Errorf("decisions %+v", d)
	}
	if math.Abs(late.P50-50) > 1.5 || math.Abs(late.Max-100) > 1 {
		t.Errorf("late %+v", late)
	}
}

func TestLatency(t *testing.T) {
	times := NewTimes()
	for i := 1; i <= 1000; i++ {
		times.Add(time.Duration(i) * time.Millisecond)
	}
	times.Add(-time.Second)
	times.Add(time.Hour) // longer than anything that is told apart
	l := times.Latency()
	for name, pair := range map[string][2]float64{
		"p50": {l.P50, 500}, "p90": {l.P90, 901}, "p99": {l.P99, 991}, "p99.9": {l.P999, 1000}, "max": {l.Max, 120_000},
	} {
		if math.Abs(pair[0]-pair[1]) > pair[1]/500 {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
	if l.Count != 1002 || l.Over != 901 || len(l.Points) < 10 {
		t.Errorf("%d of %d over 100 ms, %d points", l.Over, l.Count, len(l.Points))
	}
	if empty := NewTimes().Latency(); empty.Count != 0 || empty.Max != 0 {
		t.Errorf("nothing: %+v", empty)
	}
}

func TestRates(t *testing.T) {
	r := RatesOf(forge().Calls, begin, time.Second, 1000)
	if r.Offered != 1000 || r.Requests != 1000 || r.Decisions != 909 {
		t.Errorf("%+v", r)
	}
	// The last is sent half a millisecond late; the last answer comes 20 ms after the request before it.
	if math.Abs(r.Sent-1000/1.0005) > 0.01 || math.Abs(r.Decided-909/1.019) > 1 {
		t.Errorf("%+v", r)
	}
	if none := RatesOf(nil, begin, time.Second, 1000); none.Sent != 0 || none.Decided != 0 {
		t.Errorf("nothing: %+v", none)
	}
}

// TestLastFirstAnswer: tries after the first do not count, as what is said of it says.
func TestLastFirstAnswer(t *testing.T) {
	calls := []*history.Call{
		{Answered: 3 * time.Second, Outcome: history.Trouble},
		{Answered: 2 * time.Second, Outcome: history.Refused},
		{Answered: 4 * time.Second, Outcome: history.Refused, Attempt: 1},
		{Answered: 5 * time.Second, Outcome: history.Done, Kind: history.ConfirmHold},
		{Sent: 6 * time.Second},
	}
	if last := LastFirstAnswer(calls); last != 3*time.Second {
		t.Errorf("%v, want 3 s", last)
	}
}

func TestOutcomes(t *testing.T) {
	h := forge()
	repeat := *h.Calls[5]
	repeat.Repeat, repeat.Sent, repeat.Answered = true, 0, 0 // its answer came before that of the first
	h.Calls = append(h.Calls, &repeat)
	want := []Outcome{
		{Name: granted, Call: "hold", Calls: 100, Units: 100},
		{Name: known, Call: "hold", Calls: 1, Units: 1},
		{Name: refused, Call: "hold", Why: "ALL_HELD", Calls: 809, Units: 809},
		{Name: trouble, Call: "hold", Why: "STORE_UNAVAILABLE", Calls: 90, Units: 90},
		{Name: noAnswer, Call: "hold", Calls: 1, Units: 1},
		{Name: sold, Call: "confirm", Calls: 50, Units: 50},
	}
	got := OutcomesOf(h)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if holds := HoldsOf(got, 120*time.Second); holds != (Holds{Granted: 100, Confirmed: 50, Window: 120}) {
		t.Errorf("holds %+v", holds)
	}
}

func TestSeries(t *testing.T) {
	s := SeriesOf(forge())
	var grants, refusals, troubles, sales float64
	for i := range s.Starts {
		grants += s.Granted[i] * s.Span
		refusals += s.Refused[i] * s.Span
		troubles += s.Trouble[i] * s.Span
		sales += s.Sold[i] * s.Span
	}
	if math.Round(grants) != 100 || math.Round(refusals) != 809 || math.Round(troubles) != 90 || math.Round(sales) != 50 {
		t.Errorf("%v granted, %v refused, %v trouble, %v sold", grants, refusals, troubles, sales)
	}
	if s.Span != 0.01 || len(s.P99) != len(s.Starts) || len(s.Stocks) != 40 {
		t.Errorf("span %v, %d spans, %d percentiles, %d stocks", s.Span, len(s.Starts), len(s.P99), len(s.Stocks))
	}
	if s.P99[0] != nil || s.P99[20] == nil || s.Max[20] == nil || *s.Max[20] < *s.P50[20] {
		t.Errorf("percentiles %v, %v, %v", s.P99[0], s.P99[20], s.Max[20])
	}
}

func TestSpans(t *testing.T) {
	for total, want := range map[time.Duration]time.Duration{
		0: 10 * time.Millisecond, 2 * time.Second: 10 * time.Millisecond, 10 * time.Second: 50 * time.Millisecond,
		25 * time.Second: 200 * time.Millisecond, time.Hour: 20 * time.Second,
	} {
		if got := spanFor(total); got != want {
			t.Errorf("%v: %v, want %v", total, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	r := forged()
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"launch onsale on 127.0.0.1:1, 127.0.0.1:2, allotment launch-test", "hold refused ALL_HELD", "809", "p99.9", "decisions", "confirms",
		"no-op", "sent late by", "when the first try of each request had its answer (later ones may not): 0 available", "held + sold = 100 of 100", "paid for: 50.0 %", "busy 87.0 %, steal 1.2 %", "launch 0.02 cores\n", "launch 0.02 cores (22.0 us",
		"R1  never oversold", "R6  conservation", "NOT KNOWN", "could not be read", "could NOT be FOUND OUT", "oversold 0; 809 refused, 0 of them while enough was free",
		"R7  quick", "NOT MET", "1,000 buyers: 909 told yes or no, 91 never; p99 20.0 ms, 0 of 999 answers took more than 100 ms; 50 paid, 0 of them never told",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

// TestServed: everybody must be told, soon, and a repeat that is answered makes up for the trouble before.
func TestServed(t *testing.T) {
	quick := Latency{P99: 100}
	told := func(n, paying int) (calls []*history.Call) {
		for i := range int32(1000) {
			first, again := &history.Call{Buyer: i, Outcome: history.Trouble}, &history.Call{Buyer: i, Outcome: history.NoAnswer}
			if i < int32(n) {
				again.Outcome = history.Refused
			}
			confirm := &history.Call{Kind: history.ConfirmHold, Buyer: i, Outcome: history.Trouble}
			if i < int32(paying) {
				confirm.Outcome = history.Done
			}
			calls = append(calls, first, again, confirm)
		}
		return calls
	}
	for name, test := range map[string]struct {
		calls []*history.Call
		took  Latency
		want  Served
	}{
		"all but one in a thousand": {told(999, 999), quick, Served{Buyers: 1000, Told: 999, Paying: 1000, PayingTold: 999, Quick: true}},
		"too few":                   {told(998, 1000), quick, Served{Buyers: 1000, Told: 998, Paying: 1000, PayingTold: 1000}},
		"too slow":                  {told(1000, 1000), Latency{P99: 100.1}, Served{Buyers: 1000, Told: 1000, Paying: 1000, PayingTold: 1000}},
		"too few who paid":          {told(1000, 998), quick, Served{Buyers: 1000, Told: 1000, Paying: 1000, PayingTold: 998}},
		"nobody came":               {nil, Latency{}, Served{}},
	} {
		if got := ServedOf(test.calls, test.took); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// TestHeadline: a launch in which buyers were not served is not said to be a good one, though nothing was broken.
func TestHeadline(t *testing.T) {
	kept, broken := &history.Verdict{}, &history.Verdict{Promises: []*history.Promise{{ID: "R1", Breaches: 1}}}
	unknown := &history.Verdict{Promises: []*history.Promise{{ID: "R6", Unknown: "why"}}}
	for want, r := range map[string]Result{
		"every promise was kept":                                    {Verdict: kept, Served: Served{Quick: true}},
		"R1 to R6 were kept, but buyers were NOT SERVED as R7 says": {Verdict: kept},
		"whether every promise was kept could NOT be FOUND OUT":     {Verdict: unknown},
		"INTERRUPTED: 3 of 1,000 requests had been sent, and what they were told keeps R1 to R6": {
			Verdict: kept, Interrupted: true, Rates: Rates{Requests: 3}, Settings: Settings{Requests: 1000},
		},
		"a promise was BROKEN": {Verdict: broken, Served: Served{Quick: true}},
	} {
		if got := r.Headline(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestDoubts: a full machine, and a generator that does not keep up, are named.
func TestDoubts(t *testing.T) {
	busy := 0.99
	r := Result{Usage: machine.Usage{Busy: &busy}, Late: Latency{P99: 30}, Rates: Rates{Offered: 1000, Decided: 900}}
	got := strings.Join(r.Doubts(), "\n")
	for _, want := range []string{"machine was full", "sent 30.0 ms late", "of 1,000 requests a second 900"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	r.Served.Quick = true
	if got := r.Doubts(); len(got) != 0 {
		t.Errorf("doubts where there are none: %q", got)
	}
}

// TestJSON: what is written is read by `launch window --from`, and by whoever knows the struct.
func TestJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.json")
	r := forged()
	if err := r.Write(file); err != nil {
		t.Fatal(err)
	}
	seen, err := window.Load(file)
	if err != nil || seen.HoldsGranted != 100 || seen.HoldsConfirmed != 50 || seen.Window != 20*time.Second {
		t.Errorf("window reads %+v, %v", seen, err)
	}
	// Nobody was refused a confirm in it; the buyers who were never told are those of r.
	if want := (window.Unserved{Buyers: 1000, NeverTold: 91}); seen.Unserved != want {
		t.Errorf("window reads %+v, want %+v", seen.Unserved, want)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var again Result
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, &again, cmpopts.IgnoreUnexported(history.Promise{}), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}
