package admin

import (
	"context"
	"io"

	"google.golang.org/protobuf/proto"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

const pageSize = 1000 // the most that the server gives

// listing shows all pages of something.
type listing[Item proto.Message] struct {
	header []string
	row    func(Item) []string
	id     func(Item) string // a page may have an item that came before
	page   func(token string) (items []Item, next string, err error)
}

// write writes each item once: as JSON page by page, as a table when all are there.
func (l listing[Item]) write(out io.Writer, asJSON bool) error {
	rows, seen := [][]string{l.header}, map[string]bool{}
	for token := ""; ; {
		items, next, err := l.page(token)
		if err != nil {
			return err
		}
		for _, item := range items {
			if seen[l.id(item)] {
				continue
			}
			seen[l.id(item)] = true
			if !asJSON {
				rows = append(rows, l.row(item))
			} else if err := writeJSON(out, item); err != nil {
				return err
			}
		}
		if token = next; token == "" {
			break
		}
	}
	if asJSON {
		return nil
	}
	return writeTable(out, rows)
}

// listCommand shows all allotments.
type listCommand struct {
	connection `embed:"" group:"Connection:"`
}

// Run implements Command.
func (c *listCommand) Run(ctx context.Context, out, _ io.Writer) error {
	return listing[*pb.Allotment]{
		header: allotmentHeader(), row: allotmentRow, id: (*pb.Allotment).GetId,
		page: func(token string) ([]*pb.Allotment, string, error) {
			r, err := call(ctx, &c.connection, pb.AdminServiceClient.ListAllotments,
				&pb.ListAllotmentsRequest{PageSize: pageSize, PageToken: token})
			return r.GetAllotments(), r.GetNextPageToken(), err
		},
	}.write(out, c.JSON)
}

// holdsCommand shows an allotment's holds.
type holdsCommand struct {
	connection `embed:"" group:"Connection:"`

	ID    string   `arg:"" name:"id" help:"The allotment."`
	Buyer string   `name:"buyer" placeholder:"ID" help:"Only holds of this buyer."`
	State []string `name:"state" enum:"held,confirming,sold,cancelled,lapsed" placeholder:"STATE,..." help:"Only holds in these states: held, confirming, sold, cancelled, lapsed."`
}

// Run implements Command.
func (c *holdsCommand) Run(ctx context.Context, out, _ io.Writer) error {
	var states []pb.HoldState
	for _, state := range c.State {
		states = append(states, pb.HoldState(pb.HoldState_value["HOLD_STATE_"+constant(state)]))
	}
	return listing[*pb.Hold]{
		header: holdHeader(), row: holdRow, id: (*pb.Hold).GetId,
		page: func(token string) ([]*pb.Hold, string, error) {
			r, err := call(ctx, &c.connection, pb.AdminServiceClient.ListHolds, &pb.ListHoldsRequest{
				AllotmentId: c.ID, BuyerId: c.Buyer, States: states, PageSize: pageSize, PageToken: token,
			})
			return r.GetHolds(), r.GetNextPageToken(), err
		},
	}.write(out, c.JSON)
}

// salesCommand shows sales.
type salesCommand struct {
	connection `embed:"" group:"Connection:"`

	Allotment string `name:"allotment" placeholder:"ID" help:"Only sales of this allotment."`
	Buyer     string `name:"buyer" placeholder:"ID" help:"Only sales to this buyer."`
	Order     string `name:"order" placeholder:"ID" help:"Only sales of this order."`
}

// Run implements Command.
func (c *salesCommand) Run(ctx context.Context, out, _ io.Writer) error {
	return listing[*pb.Sale]{
		header: saleHeader(), row: saleRow, id: (*pb.Sale).GetHoldId,
		page: func(token string) ([]*pb.Sale, string, error) {
			r, err := call(ctx, &c.connection, pb.AdminServiceClient.ListSales, &pb.ListSalesRequest{
				AllotmentId: c.Allotment, BuyerId: c.Buyer, OrderId: c.Order, PageSize: pageSize, PageToken: token,
			})
			return r.GetSales(), r.GetNextPageToken(), err
		},
	}.write(out, c.JSON)
}
