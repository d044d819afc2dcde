package admin

import (
	"context"
	"fmt"
	"io"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// reconcileCommand says what is off, and repairs it if told to.
type reconcileCommand struct {
	connection `embed:"" group:"Connection:"`

	ID    string `arg:"" name:"id" help:"The allotment."`
	Apply bool   `name:"apply" help:"Repair what is off."`
}

// Run implements Command.
func (c *reconcileCommand) Run(ctx context.Context, out, _ io.Writer) error {
	r, err := call(ctx, &c.connection, pb.AdminServiceClient.ReconcileAllotment,
		&pb.ReconcileAllotmentRequest{AllotmentId: c.ID, Apply: c.Apply})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(out, r)
	}
	return writeFindings(out, c.ID, r)
}

func writeFindings(out io.Writer, id string, r *pb.ReconcileAllotmentResponse) error {
	if len(r.GetFindings()) == 0 {
		_, err := fmt.Fprintf(out, "%s: Redis, the ledger and the holds agree\n", id)
		return err
	}
	rows := [][]string{findingHeader()}
	for _, f := range r.GetFindings() {
		rows = append(rows, findingRow(f))
	}
	if err := writeTable(out, rows); err != nil {
		return err
	}
	end := "nothing was changed: --apply repairs it"
	if r.GetApplied() {
		end = "repaired"
	}
	_, err := fmt.Fprintf(out, "%s: %d off; %s\n", id, len(r.GetFindings()), end)
	return err
}
