package inventory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// TestLostSalesInTheLog: however many sales a ledger from a backup lacks, the line counts all and names few.
func TestLostSalesInTheLog(t *testing.T) {
	for _, lost := range []int{1, lostLogged, 5000} {
		r := &rebuild{plan: &plan{}}
		for n := range lost {
			r.plan.lostSales = append(r.plan.lostSales, fmt.Sprintf("concert.%d", n))
		}
		var out bytes.Buffer
		r.report(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelError})), time.Second)
		var line struct {
			SalesMissing int `json:"sales_missing"`
			Holds        []string
		}
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
		if line.SalesMissing != lost || len(line.Holds) != min(lost, lostLogged) || line.Holds[0] != "concert.0" {
			t.Errorf("of %d the log counts %d and names %d", lost, line.SalesMissing, len(line.Holds))
		}
	}
}

// TestEarlierCursor: the order in which Redis walks a table of eight is that in which it walks one of any other size.
func TestEarlierCursor(t *testing.T) {
	order := []uint64{4, 2, 6, 1, 5, 3, 7, 0} // 0 is the end
	for n, first := range order {
		for _, second := range order[n:] {
			if got := earlier(first, second); got != first || earlier(second, first) != first {
				t.Errorf("of %d and %d, %d is the earlier", first, second, got)
			}
		}
	}
}
