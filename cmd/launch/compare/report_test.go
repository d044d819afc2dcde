package compare

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func testReport(t *testing.T) (*report, []way) {
	t.Helper()
	chosen, err := choose([]string{"holdfast", "unprotected", baseline})
	if err != nil {
		t.Fatal(err)
	}
	r := newReport(&Command{Capacity: 5000, Requests: 20_000, Workers: 64, Conns: 16, Seed: 1})
	r.Machine.CPUs = 2
	for i, tally := range []tally{
		{Decisions: 20_000, Sold: 27_963, Oversold: 22_963, Took: 8 * time.Second, P50: 20 * time.Millisecond, P99: 90 * time.Millisecond},
		{Decisions: 20_000, Sold: 5000, Refused: 16_427, Took: 10 * time.Second, P50: 40 * time.Millisecond, P99: 100 * time.Millisecond},
		{Decisions: 20_000, Sold: 5000, Refused: 16_427, Took: time.Second, SoldOut: 250 * time.Millisecond, P50: time.Millisecond, P99: 9 * time.Millisecond},
	} {
		row := newRow(chosen[i], tally)
		if i > 0 {
			cpu := 140.2
			row.CPU = &cpu
		}
		r.add(row)
	}
	r.Rows[0].Note, r.Rows[1].Steal = "the counter is wrong", 3.4
	return r, chosen
}

func TestTable(t *testing.T) {
	t.Parallel()
	r, chosen := testReport(t)
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	want := `20,000 requests for 5,000 items, 64 callers, 16 connections to Postgres, 2 CPUs.

                            sold  oversold  valid refusals  decisions/s  by FOR UPDATE  sold out in  p50 ms  p99 ms  CPU/decision
  read, check, write      27,963    22,963               0        2,500          1.25x            -    20.0    90.0             -
  SELECT ... FOR UPDATE    5,000         0               0        2,000          1.00x            -    40.0   100.0        140 us
  Holdfast, through gRPC   5,000         0               0       20,000         10.00x       0.25 s     1.0     9.0        140 us
` + legend + `read, check, write: the counter is wrong.
Steal: at most 3 % of the machine's time in a row.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := r.verdict(chosen); err != nil {
		t.Errorf("verdict: %v", err)
	}
}

func TestBrokenPromisesAndWeakLoadsAreTold(t *testing.T) {
	t.Parallel()
	r, chosen := testReport(t)
	r.Rows[0].Oversold, r.Rows[1].Oversold, r.Rows[1].ValidRefusals, r.Rows[2].ValidRefusals = 0, 2, 7, 3
	err := r.verdict(chosen)
	if err == nil || err.Error() != "for-update oversold by 2\nholdfast refused 3 valid requests" {
		t.Errorf("verdict: %v", err)
	}
	var out strings.Builder
	if err := r.print(&out); err != nil || !strings.Contains(out.String(), "read, check, write: not oversold") {
		t.Errorf("%v, no word of the weak load in\n%s", err, &out)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	r, _ := testReport(t)
	file := filepath.Join(t.TempDir(), "out.json")
	if err := r.write(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*r, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
