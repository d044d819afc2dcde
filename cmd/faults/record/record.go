// Package record is what was found when faults were injected: the file docs/faults.json, and docs/faults.md, which is
// rendered from it.
package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Record is every result that there is.
type Record struct {
	Machine string   `json:"machine"` // of the last run
	Results []Result `json:"results"` // one for each case, by name
	Random  []Random `json:"random,omitempty"`
}

// Result is what became of a case.
type Result struct {
	Case string    `json:"case"`
	Date time.Time `json:"date"`
	Long bool      `json:"long"` // the faults lasted as long as the matrix says
	Seed uint64    `json:"seed"`

	Hits  []Hit `json:"hits"` // how often the fault hit its window
	Times Times `json:"times"`
	Calls Calls `json:"calls"`

	Linear   string   `json:"linearizable,omitempty"` // of the small history beside
	Skipped  string   `json:"skipped,omitempty"`      // why it was not run
	Failures []string `json:"failures,omitempty"`
	Control  *Control `json:"control,omitempty"`
}

// Hit is one kind of sign that the fault was there.
type Hit struct {
	What  string `json:"what"`
	Count int    `json:"count"`
}

// Times are in milliseconds.
type Times struct {
	Fault       float64 `json:"fault_ms"`            // how long it lasted
	Unavailable float64 `json:"unavailable_ms"`      // the longest time without a decision
	Switch      float64 `json:"switch_ms,omitempty"` // the same, counted from when another master was named; 0: none was
	Recovery    float64 `json:"recovery_ms"`         // from its end to the next decision
	P99         float64 `json:"p99_ms"`              // of answers of any kind to requests sent while it lasted
	Calm        float64 `json:"calm_p99_ms"`         // of those to requests sent before it
	Settled     float64 `json:"settled_ms"`          // from its end until both stores added up
}

// Calls are what callers met.
type Calls struct {
	Requests  int   `json:"requests"`
	Granted   int   `json:"granted"`
	Refused   int64 `json:"refused"`
	Trouble   int   `json:"trouble"` // answers that are none
	Unknown   int   `json:"unknown"` // no answer at all
	Sold      int   `json:"sold"`
	Lost      int64 `json:"lost"`
	Oversold  int64 `json:"oversold"`
	FalseNoes int64 `json:"false_refusals"`
}

// Control is the same case with a guard taken out, which must fail.
type Control struct {
	Date    time.Time `json:"date"`
	Guards  []string  `json:"guards"`
	Failure string    `json:"failure,omitempty"` // the first; empty: it was not missed
}

// Random is a run of random faults.
type Random struct {
	Date       time.Time `json:"date"`
	Seed       uint64    `json:"seed"`
	Deployment string    `json:"deployment"`
	Without    []string  `json:"without,omitempty"` // guards that were taken out: it must fail
	Seconds    float64   `json:"seconds"`
	Rounds     int       `json:"rounds"`
	Void       int       `json:"void,omitempty"` // rounds that failed while the clock of the machine was stepped; in none of these figures
	Hits       []Hit     `json:"hits"`           // faults
	Calls      Calls     `json:"calls"`
	P99        float64   `json:"p99_ms"` // of the worst round
	Linear     string    `json:"linearizable,omitempty"`
	Failures   []string  `json:"failures,omitempty"`
}

// Load reads a record; one that is not there is empty.
func Load(file string) (*Record, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return &Record{}, nil
	}
	if err != nil {
		return nil, err
	}
	r := &Record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// Save writes a record, and the page beside it.
func (r *Record) Save(file string, rows []Row) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil { //nolint:gosec // for all to read
		return err
	}
	page := strings.TrimSuffix(file, ".json") + ".md"
	return os.WriteFile(page, []byte(r.Page(rows)), 0o644) //nolint:gosec // likewise
}

// Put replaces the result of a case, and leaves the others. A control stays until the case is played with one again: it
// says that the harness can see the fault, and is not a result of the program.
func (r *Record) Put(next Result) {
	if old, there := r.Of(next.Case); there && next.Control == nil {
		next.Control = old.Control
	}
	r.Results = slices.DeleteFunc(r.Results, func(old Result) bool { return old.Case == next.Case })
	r.Results = append(r.Results, next)
	slices.SortFunc(r.Results, func(a, b Result) int { return cmp.Compare(a.Case, b.Case) })
}

// PutRandom replaces the run of the same deployment without the same guards.
func (r *Record) PutRandom(next Random) {
	key := func(x Random) string { return x.Deployment + " " + strings.Join(x.Without, ",") }
	r.Random = slices.DeleteFunc(r.Random, func(old Random) bool { return key(old) == key(next) })
	r.Random = append(r.Random, next)
	slices.SortFunc(r.Random, func(a, b Random) int { return cmp.Compare(key(a), key(b)) })
}

// Hit counts a fault that was there, by its signs.
func (r *Random) Hit(name string) {
	at := slices.IndexFunc(r.Hits, func(h Hit) bool { return h.What == name })
	if at < 0 {
		r.Hits = append(r.Hits, Hit{What: name})
		at = len(r.Hits) - 1
	}
	r.Hits[at].Count++
	slices.SortFunc(r.Hits, func(a, b Hit) int { return cmp.Compare(a.What, b.What) })
}

// Add adds what callers met in a round.
func (r *Random) Add(round Result) {
	c, more := &r.Calls, round.Calls
	c.Requests += more.Requests
	c.Granted += more.Granted
	c.Refused += more.Refused
	c.Trouble += more.Trouble
	c.Unknown += more.Unknown
	c.Sold += more.Sold
	c.Lost += more.Lost
	c.Oversold += more.Oversold
	c.FalseNoes += more.FalseNoes
	r.P99 = max(r.P99, round.Times.P99)
}

// Of is the result of a case, if it has been run.
func (r *Record) Of(name string) (Result, bool) {
	at := slices.IndexFunc(r.Results, func(r Result) bool { return r.Case == name })
	if at < 0 {
		return Result{}, false
	}
	return r.Results[at], true
}

// Text is a result in a line.
func (r Result) Text() string {
	t := r.Times
	return fmt.Sprintf("hits: %s; %s; unavailable %s, back after %s, p99 %s (before: %s), adds up after %s", hits(r.Hits), r.seen(),
		t.unavailable(), millis(t.Recovery), millis(t.P99), millis(t.Calm), millis(t.Settled))
}
