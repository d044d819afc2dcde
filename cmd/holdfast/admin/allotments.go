package admin

import (
	"context"
	"io"
	"slices"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// createCommand opens an allotment for sale.
type createCommand struct {
	connection `embed:"" group:"Connection:"`
	rules      `embed:""`

	ID       string `arg:"" name:"id" help:"The allotment: a-z, 0-9 and '-', up to 63."`
	Capacity int64  `name:"capacity" placeholder:"N" help:"Units that can be sold in all. Unset: 0, until some are added."`
	Group    string `name:"group" placeholder:"ID" help:"Allotments of one group can be held together. Unset: a group of its own."`
}

// Problems implements Command.
func (c *createCommand) Problems() []string {
	return slices.Concat(c.connection.Problems(), c.rules.Problems())
}

// Run implements Command.
func (c *createCommand) Run(ctx context.Context, out, _ io.Writer) error {
	a := &pb.Allotment{Id: c.ID, Capacity: c.Capacity, Group: c.Group}
	c.apply(a)
	r, err := call(ctx, &c.connection, pb.AdminServiceClient.CreateAllotment, &pb.CreateAllotmentRequest{Allotment: a})
	if err != nil {
		return err
	}
	return writeAllotment(out, c.JSON, r.GetAllotment())
}

// updateCommand changes rules or state.
type updateCommand struct {
	connection `embed:"" group:"Connection:"`
	rules      `embed:""`

	ID    string   `arg:"" name:"id" help:"The allotment."`
	Reset []string `name:"reset" enum:"hold-duration,max-hold-duration,max-quantity-per-hold,max-quantity-per-buyer,opens-at,closes-at,late-confirm" placeholder:"RULE,..." help:"Rules to give back their defaults, by the names of their flags."`
	Etag  string   `name:"etag" placeholder:"ETAG" help:"Change it only if this is still its etag. Unset: the one that it has now."`
}

// Problems implements Command.
func (c *updateCommand) Problems() []string {
	_, problems := mask(c.apply(&pb.Allotment{}), c.Reset)
	return slices.Concat(c.connection.Problems(), c.rules.Problems(), problems)
}

// Run implements Command.
func (c *updateCommand) Run(ctx context.Context, out, _ io.Writer) error {
	a := &pb.Allotment{Id: c.ID, Etag: c.Etag}
	paths, _ := mask(c.apply(a), c.Reset)
	if a.GetEtag() == "" {
		now, err := call(ctx, &c.connection, pb.AdminServiceClient.GetAllotment, &pb.GetAllotmentRequest{AllotmentId: c.ID})
		if err != nil {
			return err
		}
		a.Etag = now.GetAllotment().GetEtag()
	}
	r, err := call(ctx, &c.connection, pb.AdminServiceClient.UpdateAllotment, &pb.UpdateAllotmentRequest{
		Allotment: a, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths},
	})
	if err != nil {
		return err
	}
	return writeAllotment(out, c.JSON, r.GetAllotment())
}

// getCommand shows one allotment.
type getCommand struct {
	connection `embed:"" group:"Connection:"`

	ID string `arg:"" name:"id" help:"The allotment."`
}

// Run implements Command.
func (c *getCommand) Run(ctx context.Context, out, _ io.Writer) error {
	r, err := call(ctx, &c.connection, pb.AdminServiceClient.GetAllotment, &pb.GetAllotmentRequest{AllotmentId: c.ID})
	if err != nil {
		return err
	}
	return writeAllotment(out, c.JSON, r.GetAllotment())
}
