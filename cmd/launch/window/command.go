// Package window is `launch window`: the sizing table of a launch. It answers, from the launch's own numbers, how soon the
// stock is gone and what each length of a hold costs: too short, and buyers who would have paid lose their hold; too long,
// and stock that nobody will pay for is kept from those who would.
package window

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/flags"
)

// Command is the flags of `launch window`.
type Command struct {
	Capacity *int64         `placeholder:"N" help:"Items for sale (default 5000, or the run's)."`
	Requests *int64         `placeholder:"N" help:"Requests that come in --duration (default 200000, or the run's)."`
	Duration *time.Duration `placeholder:"DURATION" help:"How long the rush lasts (default 10s, or the run's)."`
	Items    *float64       `placeholder:"N" help:"Items that a request asks for, on average (default 1.4, or the run's)."`
	Window   []Window       `default:"30s=0.45,120s=0.65,300s=0.72" placeholder:"LENGTH=SHARE,..." help:"Lengths of a hold, each with the share of holds that are paid for in it (0.65 or 65%)."`
	From     string         `placeholder:"FILE.json" help:"What a finished run of launch wrote with --json: takes its numbers where none are given, and adds its window with the share of holds that its buyers paid for."`

	// What Validate makes of them.
	launch Launch
	seen   *Run
}

// published is the launch that Holdfast was designed for.
var published = Launch{Capacity: 5000, Requests: 200_000, Duration: 10 * time.Second, Items: 1.4}

// Validate is called by kong when the command line has been read.
func (c *Command) Validate() error {
	launch := published
	if c.From != "" {
		run, err := Load(c.From)
		if err != nil {
			return fmt.Errorf("--from: %w", err)
		}
		launch, c.seen = run.Launch, &run
	}
	given(&launch.Capacity, c.Capacity)
	given(&launch.Requests, c.Requests)
	given(&launch.Duration, c.Duration)
	given(&launch.Items, c.Items)
	c.launch = launch
	return errors.Join(
		flags.Count("--capacity", launch.Capacity, 1, 1_000_000_000),
		flags.Count("--requests", launch.Requests, 1, 10_000_000_000),
		flags.Lasts("--duration", launch.Duration, time.Millisecond, 30*24*time.Hour),
		flags.Number("--items", launch.Items, 0.001, 1000),
		c.checkWindows(),
	)
}

func (c *Command) checkWindows() error {
	if len(c.Window) == 0 {
		return errors.New("--window is empty, must be LENGTH=SHARE,..., such as 120s=0.65")
	}
	var all []error
	for _, w := range c.Window {
		all = append(all, flags.Lasts("--window: a length", w.Length, time.Millisecond, 30*24*time.Hour))
	}
	return errors.Join(all...)
}

// Run prints the table.
func (c *Command) Run(_ context.Context, out, _ io.Writer) error {
	windows := c.Window
	if c.seen != nil {
		windows = append(windows[:len(windows):len(windows)], c.seen.Seen())
	}
	return printTable(out, c.launch, windows, c.seen)
}

func given[T any](to, value *T) {
	if value != nil {
		*to = *value
	}
}
