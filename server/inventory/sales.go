package inventory

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/failpoint"
)

// Sale returns the sale of a hold. HOLD_NOT_FOUND is for a hold that nobody knows; SALE_NOT_FOUND, for one that was
// not sold, is never said while it is CONFIRMING.
func (v *Inventory) Sale(ctx context.Context, id store.HoldID) (store.Sale, error) {
	sale, err := v.ledger.Sale(ctx, id)
	if store.Refused(err, store.SaleNotFound) == nil {
		return sale, err
	}
	if _, err := v.unsold(ctx, id); err != nil {
		return store.Sale{}, err
	}
	return v.ledger.Sale(ctx, id) // again: it may have ended in between
}

// unsold looks at a hold that the ledger knows no sale of; the error says that there is none, or that this is not final.
func (v *Inventory) unsold(ctx context.Context, id store.HoldID) (store.Hold, error) {
	h, err := v.Hold(ctx, id)
	if err == nil && h.State == store.Confirming {
		err = &store.Refusal{Reason: store.HoldConfirming, Allotment: id.Allotment, HoldID: id.String(), OrderID: h.OrderID}
	}
	return h, err
}

// CancelSale takes back a sale, or a part of it, and answers when its stock is free again.
func (v *Inventory) CancelSale(ctx context.Context, c store.CancelSale) (store.Sale, error) {
	sale, err := v.Sale(ctx, c.ID)
	if store.Refused(err, store.SaleNotFound) != nil {
		if h, _ := v.unsold(ctx, c.ID); h.RequestID == c.RequestID && h.RequestID != "" {
			err = otherContent(c.ID)
		}
	}
	if err != nil {
		return store.Sale{}, err
	}
	if sale.RequestID == c.RequestID {
		return store.Sale{}, otherContent(c.ID)
	}
	sale, number, err := v.ledger.CancelSale(ctx, c)
	if err != nil {
		return store.Sale{}, err
	}
	failpoint.Hit("cancel-sale-after-ledger")
	return sale, v.untilApplied(ctx, c.ID.Allotment, number)
}

// otherContent refuses the request id that made the hold: the same key cannot also cancel its sale.
func otherContent(id store.HoldID) error {
	return &store.Refusal{Reason: store.RequestMismatch, Allotment: id.Allotment, HoldID: id.String(), Field: "request_id"}
}

// untilApplied applies the feed up to number (0: there is nothing to apply). What is committed
// stays: if it cannot be applied in time the result is not known to be in force yet, and the
// supervisor applies it.
func (v *Inventory) untilApplied(ctx context.Context, allotment string, number int64) error {
	if number == 0 {
		return nil
	}
	p, err := v.places.place(ctx, allotment)
	if err == nil {
		err = v.applyFeed(ctx, p, number)
	}
	var gone *retiredError
	if err == nil || errors.As(err, &gone) {
		return nil
	}
	return fmt.Errorf("%w: committed, not yet in force: %w", store.ErrResultUnknown, err)
}
