package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// adjustCommand changes a capacity, once for each request id.
type adjustCommand struct {
	connection `embed:"" group:"Connection:"`

	ID        string `arg:"" name:"id" help:"The allotment."`
	Add       int64  `name:"add" xor:"by" required:"" placeholder:"N" help:"Units to add."`
	Remove    int64  `name:"remove" xor:"by" required:"" placeholder:"N" help:"Units to take away; only those that are neither sold nor held."`
	RequestID string `name:"request-id" placeholder:"ID" help:"The name of this change: with the same one it is made once, however often it is sent. Unset: a new one, which is printed."`
	DryRun    bool   `name:"dry-run" help:"Only say what would happen."`
}

// Problems implements Command.
func (c *adjustCommand) Problems() []string {
	all := c.connection.Problems()
	if c.Add < 0 || c.Remove < 0 || c.Add == 0 && c.Remove == 0 {
		all = append(all, "--add, --remove: must be above 0")
	}
	return all
}

// Run implements Command. The request id is told before the call: whatever happens then, it can be repeated.
func (c *adjustCommand) Run(ctx context.Context, out, errOut io.Writer) error {
	if c.RequestID == "" {
		c.RequestID = "adjust-" + rand.Text()
	}
	if !c.DryRun {
		fmt.Fprintln(errOut, "request id:", c.RequestID)
	}
	r, err := call(ctx, &c.connection, pb.AdminServiceClient.AdjustCapacity, &pb.AdjustCapacityRequest{
		AllotmentId: c.ID, Delta: c.Add - c.Remove, RequestId: c.RequestID, DryRun: c.DryRun,
	})
	var failed *callError
	if errors.As(err, &failed) && failed.unknown() && !c.DryRun {
		return fmt.Errorf("%w\n  to repeat it safely, say the same again with --request-id %s", err, c.RequestID)
	}
	if err != nil {
		return err
	}
	if c.DryRun {
		fmt.Fprintln(errOut, "a dry run: nothing was changed, and this is what it would be")
	}
	return writeAllotment(out, c.JSON, r.GetAllotment())
}
