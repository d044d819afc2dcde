package main

import (
	"context"
	"io"
)

// onsaleCommand is the launch: 56 times the stock is asked for in ten seconds.
type onsaleCommand struct {
	crowdSettings `embed:"" set:"requests=200000" set:"duration=10s" set:"capacity=5000"` //nolint:staticcheck // kong takes several
}

// Run is called by run.
func (c *onsaleCommand) Run(ctx context.Context, out, errOut io.Writer) error {
	return rehearse(ctx, "onsale", &c.crowdSettings, out, errOut)
}

// steadyCommand sells all the time, and nobody is refused.
type steadyCommand struct {
	crowdSettings `embed:"" set:"requests=60000" set:"duration=60s" set:"capacity=100000"` //nolint:staticcheck // kong takes several
}

// Run is called by run.
func (c *steadyCommand) Run(ctx context.Context, out, errOut io.Writer) error {
	return rehearse(ctx, "steady", &c.crowdSettings, out, errOut)
}

// secondRoundCommand lasts for several windows, so that what lapses is taken again.
type secondRoundCommand struct {
	crowdSettings `embed:"" set:"requests=100000" set:"duration=40s" set:"capacity=5000"` //nolint:staticcheck // kong takes several
}

// Run is called by run.
func (c *secondRoundCommand) Run(ctx context.Context, out, errOut io.Writer) error {
	return rehearse(ctx, "second-round", &c.crowdSettings, out, errOut)
}
