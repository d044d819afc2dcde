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

	"github.com/holdfast-inventory/holdfast/cmd/launch/machine"
)

// rounds are some with these rates, whose server took a millisecond for each answer.
func rounds(from map[string]int64, rates ...float64) []Round {
	var all []Round
	for _, rate := range rates {
		steal := 0.01
		all = append(all, Round{
			Answers: 1000, PerSec: rate, P50: 1, P99: 2, From: from,
			Usage: machine.Usage{Steal: &steal, CPU: map[string]time.Duration{"server": time.Second, machine.Self: time.Second}},
		})
	}
	return all
}

func forgedClosed() *Closed {
	c := &Closed{
		Kind: "refusals", InFlight: 64, Seconds: 3,
		Holdfast: rounds(map[string]int64{"127.0.0.1:1": 400, "127.0.0.1:2": 500}, 7000, 5000, 6000),
		First:    rounds(map[string]int64{"127.0.0.1:1": 900}, 5000, 5000, 9000),
		Noop:     rounds(map[string]int64{"127.0.0.1:3": 900}, 10_000, 10_000, 10_000),
	}
	for i := range c.Holdfast {
		c.Holdfast[i].Usage.CPU["redis"] = 500 * time.Millisecond
	}
	c.Compare()
	return c
}

func TestClosedCompares(t *testing.T) {
	c := forgedClosed()
	for name, pair := range map[string]struct {
		got  *float64
		want float64
	}{"rate": {c.Rate, 0.6}, "CPU": {c.CPU, 1.5}, "servers": {c.Several, 1.2}, "fairness": {c.Fairness, 0.8}} {
		if pair.got == nil || math.Abs(*pair.got-pair.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, pair.got, pair.want)
		}
	}
	var out strings.Builder
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"refusals, 64 in flight, 3 rounds of 3 s each", "6000 (5000-7000)", "the first alone", "1500.0 (1500.0-1500.0)",
		"rate: 0.60 of the no-op's", "1.50 times the no-op's", "1.20 of the first's alone", "127.0.0.1:2: 500",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
}

// TestClosedUnknown: what cannot be known is left out.
func TestClosedUnknown(t *testing.T) {
	one := map[string]int64{"127.0.0.1:1": 0}
	c := &Closed{Holdfast: []Round{{From: one}}, Noop: []Round{{From: one}}}
	c.Compare()
	var out strings.Builder
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	if c.Rate != nil || c.CPU != nil || c.Several != nil || c.Fairness != nil || strings.Contains(out.String(), "rate:") {
		t.Errorf("%+v\n%s", c, &out)
	}
}

// TestFinished: a round that was not finished by all is left out.
func TestFinished(t *testing.T) {
	c := forgedClosed()
	c.Interrupted, c.Holdfast, c.First = true, c.Holdfast[:1], c.First[:2]
	if n := c.Finished(); n != 1 || len(c.Holdfast) != 1 || len(c.First) != 1 || len(c.Noop) != 1 {
		t.Errorf("%d: %d, %d, %d rounds", n, len(c.Holdfast), len(c.First), len(c.Noop))
	}
	var out strings.Builder
	if err := c.Print(&out); err != nil || !strings.HasPrefix(out.String(), "INTERRUPTED: only the rounds that were finished\n") {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestOddAnswersAreAnError(t *testing.T) {
	c := forgedClosed()
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	c.First[1].Odd, c.First[1].OddText = 11, "Unavailable: it is away"
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "it is away") {
		t.Errorf("11 of 1000: %v", err)
	}
}

func TestClosedJSON(t *testing.T) {
	c := forgedClosed()
	file := filepath.Join(t.TempDir(), "closed.json")
	if err := c.Write(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var again Closed
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, &again); diff != "" {
		t.Error(diff)
	}
}
