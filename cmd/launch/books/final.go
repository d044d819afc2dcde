package books

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/load"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

// WaitForConfirms waits until no confirm is under way any more, for so long at most. A buyer is told what the ledger has
// decided, while Redis may be told later: by a supervisor, within its lease of some seconds.
func (b *Books) WaitForConfirms(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for b.isConfirming(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryPause):
		}
	}
}

// isConfirming tells whether a confirm is known to be under way.
func (b *Books) isConfirming(ctx context.Context) bool {
	found := false
	err := pages(ctx, func(token string) (string, error) {
		got, err := b.admin.ListHolds(ctx, &pb.ListHoldsRequest{
			AllotmentId: b.Allotment, States: []pb.HoldState{pb.HoldState_HOLD_STATE_CONFIRMING}, PageSize: pageSize, PageToken: token,
		})
		found = found || len(got.GetHolds()) > 0
		return got.GetNextPageToken(), err
	})
	return found && err == nil
}

// Final reads everything that the server has on its books. settled: no hold is live and no confirm under way any more.
func (b *Books) Final(ctx context.Context, settled bool) (*history.Final, error) {
	f := &history.Final{Settled: settled}
	for _, step := range []struct {
		what string
		read func(context.Context, *history.Final) error
	}{
		{"sales", b.sales},
		{"holds", b.holds},
		{"allotment", b.capacity},
		{"reconcile", b.reconcile},
		{"stock", func(ctx context.Context, f *history.Final) (err error) {
			f.Stock, err = b.Stock(ctx)
			return err
		}},
	} {
		if err := insist(ctx, func() error { return step.read(ctx, f) }); err != nil {
			return nil, fmt.Errorf("read the %s of %s: %w", step.what, b.Allotment, err)
		}
	}
	return f, nil
}

func (b *Books) sales(ctx context.Context, f *history.Final) error {
	f.Sales = nil
	return pages(ctx, func(token string) (string, error) {
		got, err := b.admin.ListSales(ctx, &pb.ListSalesRequest{AllotmentId: b.Allotment, PageSize: pageSize, PageToken: token})
		for _, s := range got.GetSales() {
			f.Sales = append(f.Sales, load.Sale(s))
		}
		return got.GetNextPageToken(), err
	})
}

func (b *Books) holds(ctx context.Context, f *history.Final) error {
	f.Holds = nil
	return pages(ctx, func(token string) (string, error) {
		got, err := b.admin.ListHolds(ctx, &pb.ListHoldsRequest{AllotmentId: b.Allotment, PageSize: pageSize, PageToken: token})
		for _, h := range got.GetHolds() {
			f.Holds = append(f.Holds, load.Hold(h))
		}
		return got.GetNextPageToken(), err
	})
}

// pages reads page after page, each as often as it meets trouble.
func pages(ctx context.Context, read func(token string) (next string, err error)) error {
	for token := ""; ; {
		var next string
		if err := insist(ctx, func() (err error) {
			next, err = read(token)
			return err
		}); err != nil {
			return err
		}
		if token = next; token == "" {
			return nil
		}
	}
}

func (b *Books) capacity(ctx context.Context, f *history.Final) error {
	got, err := b.admin.GetAllotment(ctx, &pb.GetAllotmentRequest{AllotmentId: b.Allotment})
	f.Capacity = got.GetAllotment().GetCapacity()
	return err
}

func (b *Books) reconcile(ctx context.Context, f *history.Final) error {
	f.Findings = nil
	got, err := b.admin.ReconcileAllotment(ctx, &pb.ReconcileAllotmentRequest{AllotmentId: b.Allotment})
	for _, finding := range got.GetFindings() {
		f.Findings = append(f.Findings, history.Finding{
			What: finding.GetWhat(), Buyer: finding.GetBuyerId(), Difference: finding.GetDifference(),
		})
	}
	return err
}
