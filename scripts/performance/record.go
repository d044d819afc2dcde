package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// record is every result that there is.
type record struct {
	Results []outcome `json:"results"` // one for each experiment, by name
}

// outcome is what an experiment came to.
type outcome struct {
	Name     string    `json:"name"`
	Date     time.Time `json:"date"`
	Revision string    `json:"revision,omitempty"` // of the sources; empty: it is not known
	Machine  facts     `json:"machine"`
	Wanted   int       `json:"wanted"` // undisturbed runs
	Runs     []run     `json:"runs"`   // all that were tried
	Error    string    `json:"error,omitempty"`
}

// run is one try.
type run struct {
	Steal   *float64 `json:"steal_percent,omitempty"` // of the machine's time; unset: it is not known
	Figures []figure `json:"figures"`
	Failure string   `json:"failure,omitempty"` // a promise that was broken, or the like
}

type figure struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit,omitempty"`
	Value float64 `json:"value"`
}

func (r run) steal() float64 {
	if r.Steal == nil {
		return 0
	}
	return *r.Steal
}

// failures are everything that went wrong, in runs that count and in others.
func (r outcome) failures() []string {
	var all []string
	for i, run := range r.Runs {
		if run.Failure != "" {
			all = append(all, fmt.Sprintf("run %d of %d: %s", i+1, len(r.Runs), run.Failure))
		}
	}
	if r.Error != "" {
		all = append(all, r.Error)
	}
	return all
}

// load reads the record; one that is not there is empty.
func load(file string) (*record, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return &record{}, nil
	}
	if err != nil {
		return nil, err
	}
	r := &record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

func (r *record) save(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return writeFile(file, string(text)+"\n")
}

// put replaces the result of an experiment, and leaves the others.
func (r *record) put(next outcome) {
	r.Results = slices.DeleteFunc(r.Results, func(old outcome) bool { return old.Name == next.Name })
	r.Results = append(r.Results, next)
	slices.SortFunc(r.Results, func(a, b outcome) int { return cmp.Compare(a.Name, b.Name) })
}

// of is the result of an experiment, if it has been measured.
func (r *record) of(name string) (outcome, bool) {
	at := slices.IndexFunc(r.Results, func(r outcome) bool { return r.Name == name })
	if at < 0 {
		return outcome{}, false
	}
	return r.Results[at], true
}
