package inventory

import (
	"errors"

	"github.com/holdfast-inventory/holdfast/store"
)

// retiredError says that an allotment was closed long ago and has left Redis: it is answered from
// its row in the ledger, and only reopening it brings it back.
type retiredError struct{ row store.Allotment }

func (e *retiredError) Error() string { return "allotment " + e.row.Place.Allotment + " is retired" }

// closedIfRetired makes the refusal that a request for new stock gets from a retired allotment.
func closedIfRetired(err error) error {
	gone, ok := errors.AsType[*retiredError](err)
	if !ok {
		return err
	}
	return &store.Refusal{
		Reason: store.Closed, Allotment: gone.row.Place.Allotment, OpensAt: gone.row.OpensAt, ClosesAt: gone.row.ClosesAt,
	}
}
