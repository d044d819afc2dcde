// Package result is what a rehearsal found: what --json writes, what the table shows, and what the report draws.
package result

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
)

// Result is a rehearsal. Times within it are counted from its start.
type Result struct {
	Preset    string    `json:"preset"`
	Started   time.Time `json:"started"`
	Addresses []string  `json:"addresses"`
	Allotment string    `json:"allotment"`
	Settings  Settings  `json:"settings"`
	// Interrupted: it was broken off, and only what had been sent by then is judged.
	Interrupted bool `json:"interrupted"`

	Rates     Rates     `json:"rates"`
	Outcomes  []Outcome `json:"outcomes"`
	Decisions Latency   `json:"decisions"` // of CreateHold, whatever was answered
	Confirms  Latency   `json:"confirms"`  // of ConfirmHold, whatever was answered
	Late      Latency   `json:"late"`      // by how much requests were sent after they should have been
	Holds     Holds     `json:"holds"`
	Served    Served    `json:"served"`
	// AfterLoad is the stock when the first try of each request had been answered, End when all was over. Requests that met
	// trouble are sent again, and may be answered later than AfterLoad. Unset: it could not be read.
	AfterLoad *Stock `json:"after_load,omitempty"`
	End       *Stock `json:"end,omitempty"`

	Usage      machine.Usage `json:"usage"` // while requests were sent
	Reconnects int64         `json:"reconnects"`
	Noop       *Noop         `json:"noop,omitempty"`

	Verdict *history.Verdict `json:"verdict"`
	Series  Series           `json:"series"`
}

// Settings is what was asked for.
type Settings struct {
	Requests    int     `json:"requests"`
	Seconds     float64 `json:"seconds"` // that the requests came in
	Capacity    int64   `json:"capacity"`
	Window      float64 `json:"window_seconds"` // how long a hold lasted
	TimeScale   float64 `json:"time_scale"`     // part of the window that buyers have in life
	Two         float64 `json:"two"`            // share of buyers who want two units
	Repeat      float64 `json:"repeat"`         // share of requests that repeat an earlier one
	Completion  float64 `json:"completion"`     // share of buyers who pay
	Retries     int     `json:"retries"`
	Connections int     `json:"connections"`
	Seed        uint64  `json:"seed"`
}

// Rates are of requests for holds, per second. Those that repeat what met trouble are not in them.
type Rates struct {
	Offered  float64 `json:"offered"`
	Sent     float64 `json:"sent"`
	Decided  float64 `json:"decided"`
	Requests int64   `json:"requests"` // that were sent
	// Decisions counts those that got a hold or a refusal. Trouble is none.
	Decisions int64 `json:"decisions"`
}

// Outcome is how many calls ended alike.
type Outcome struct {
	Name  string `json:"name"`  // granted, known, sold, refused, trouble, no answer
	Call  string `json:"call"`  // hold or confirm
	Why   string `json:"why"`   // the reason of a refusal or a trouble
	Calls int64  `json:"calls"` // how many
	Units int64  `json:"units"` // of the calls
}

// Latency is how long answers took from when the calls should have been sent.
type Latency struct {
	Count  int64   `json:"count"`
	P50    float64 `json:"p50_ms"`
	P90    float64 `json:"p90_ms"`
	P99    float64 `json:"p99_ms"`
	P999   float64 `json:"p999_ms"`
	Max    float64 `json:"max_ms"`
	Over   int64   `json:"over_100ms"`       // how many took longer than a decision may
	Points []Point `json:"points,omitempty"` // the distribution
}

// Point is one of a distribution: a part of the calls took no longer than this.
type Point struct {
	Quantile float64 `json:"quantile"` // from 0 to 1
	Millis   float64 `json:"ms"`
}

// Holds is what `launch window --from` reads: the completion that was really seen.
type Holds struct {
	Granted   int64   `json:"granted"`
	Confirmed int64   `json:"confirmed"`
	Window    float64 `json:"window_seconds"` // that the buyers would have in life, before it was scaled
}

// Stock is a reading of the stock.
type Stock struct {
	Seconds   float64 `json:"seconds"`
	Capacity  int64   `json:"capacity"`
	Available int64   `json:"available"`
	Held      int64   `json:"held"`
	Sold      int64   `json:"sold"`
}

// Noop is the same load on a server that decides nothing, before the launch.
type Noop struct {
	Rates     Rates         `json:"rates"`
	Decisions Latency       `json:"decisions"`
	Late      Latency       `json:"late"`
	Usage     machine.Usage `json:"usage"`
	Ratio     float64       `json:"p99_ratio"` // of the launch's p99 to its own
}

// Series is what changes over time. All of Outcomes and Latencies have one entry for each span; Stocks has its own times.
type Series struct {
	Span    float64   `json:"span_seconds"` // length of a span
	Starts  []float64 `json:"starts"`       // of the spans, in seconds
	Granted []float64 `json:"granted"`      // answers per second
	Known   []float64 `json:"known"`
	Refused []float64 `json:"refused"`
	Trouble []float64 `json:"trouble"`
	Sold    []float64 `json:"sold"`
	// Percentiles of the decisions that should have been sent in the span, in milliseconds; unset: there were none.
	P50    []*float64 `json:"p50_ms"`
	P99    []*float64 `json:"p99_ms"`
	Max    []*float64 `json:"max_ms"`
	Stocks []Stock    `json:"stocks"`
}

// Write writes the result as JSON.
func (r *Result) Write(file string) error { return write(file, r) }

func write(file string, found any) error {
	text, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, append(text, '\n'), 0o644) //nolint:gosec // figures for everybody
}
