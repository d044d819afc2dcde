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
)

// Command is the flags of `launch window`.
type Command struct {
	Capacity *int64         `placeholder:"N" help:"Items for sale (default 5000, or the run's)."`
	Requests *int64         `placeholder:"N" help:"Requests that come in --duration (default 200000, or the run's)."`
	Duration *time.Duration `placeholder:"DURATION" help:"How long the rush lasts (default 10s, or the run's)."`
	Items    *float64       `placeholder:"N" help:"Items that a request asks for, on average (default 1.4, or the run's)."`
	Window   []Window       `default:"30s=0.45,120s=0.65,300s=0.72" placeholder:"LENGTH=SHARE,..." help:"Lengths of a hold, each with the share of holds that are paid for in it (0.65 or 65%)."`
	From     string         `placeholder:"FILE.json" help:"What a finished run of launch wrote with --json: takes its numbers where none are given, and adds its window with the share of holds that its buyers paid for."`
}

// published is the launch that Holdfast was designed for.
var published = Launch{Capacity: 5000, Requests: 200_000, Duration: 10 * time.Second, Items: 1.4}

// Validate is called by kong when the command line has been read.
func (c *Command) Validate() error {
	switch {
	case c.Capacity != nil && *c.Capacity < 1:
		return errors.New("--capacity must be at least 1")
	case c.Requests != nil && *c.Requests < 1:
		return errors.New("--requests must be at least 1")
	case c.Duration != nil && *c.Duration <= 0:
		return errors.New("--duration must be more than 0")
	case c.Items != nil && !(*c.Items > 0): // NaN is not either
		return errors.New("--items must be more than 0")
	default:
		return nil
	}
}

// Run prints the table.
func (c *Command) Run(_ context.Context, out, _ io.Writer) error {
	launch, windows := published, c.Window
	var seen *Run
	if c.From != "" {
		run, err := Load(c.From)
		if err != nil {
			return fmt.Errorf("--from: %w", err)
		}
		launch, seen, windows = run.Launch, &run, append(windows[:len(windows):len(windows)], run.Seen())
	}
	given(&launch.Capacity, c.Capacity)
	given(&launch.Requests, c.Requests)
	given(&launch.Duration, c.Duration)
	given(&launch.Items, c.Items)
	return printTable(out, launch, windows, seen)
}

func given[T any](to, value *T) {
	if value != nil {
		*to = *value
	}
}
