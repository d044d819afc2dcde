package server

import (
	"context"

	"github.com/holdfast-inventory/holdfast/store"
)

// Stock is what checkouts ask about allotments. Errors are those of package store.
type Stock interface {
	// Availability reads one allotment in one atomic step.
	Availability(ctx context.Context, id string) (store.Availability, error)
	// Availabilities reads several, in the order asked for, doubles included.
	Availabilities(ctx context.Context, ids []string) ([]store.Availability, error)
	// Watch calls send with a snapshot of each allotment, then with what changes, from one
	// goroutine, until ctx is done or send fails; it returns why it ended.
	Watch(ctx context.Context, ids []string, send func(store.Availability) error) error
}

// Holds is what checkouts do with holds. Every call is safe to repeat.
type Holds interface {
	CreateHold(ctx context.Context, buyer, request string, line store.Line) (store.Hold, error)
	// CreateHolds takes all lines or none. Lines of one allotment are merged; one hold for each
	// allotment, in the order of its first line.
	CreateHolds(ctx context.Context, buyer, request string, lines []store.Line) ([]store.Hold, error)
	Hold(ctx context.Context, id store.HoldID) (store.Hold, error)
	ExtendHold(ctx context.Context, id store.HoldID) (store.Hold, error)
	CancelHold(ctx context.Context, id store.HoldID) (store.Hold, error)
}

// Sales is what checkouts do with sales. Every call is safe to repeat. Once a confirm has begun
// it goes on, whatever becomes of ctx.
type Sales interface {
	ConfirmHold(ctx context.Context, c store.ConfirmHold) (store.Sale, error)
	ConfirmHolds(ctx context.Context, ids []store.HoldID, orderID string) ([]store.Sale, error)
	Sale(ctx context.Context, id store.HoldID) (store.Sale, error)
	CancelSale(ctx context.Context, c store.CancelSale) (store.Sale, error)
}

// Checkouts are the use cases behind InventoryService.
type Checkouts interface {
	Stock
	Holds
	Sales
}

// Allotments is what operators do with allotments.
type Allotments interface {
	CreateAllotment(ctx context.Context, a store.Allotment) (store.Allotment, error)
	Allotment(ctx context.Context, id string) (store.Allotment, error)
	// ListAllotments returns up to limit allotments in the order of their ids, after the given one.
	ListAllotments(ctx context.Context, after string, limit int) ([]store.Allotment, error)
	// UpdateAllotment calls change with the rules of the row, if version is its, and stores what
	// change leaves, unless change fails.
	UpdateAllotment(
		ctx context.Context, id string, version int64, change func(*store.Rules) error,
	) (store.Allotment, error)
	AdjustCapacity(ctx context.Context, a store.AdjustCapacity) (store.Allotment, error)
}

// Audits is how operators look into allotments and repair them.
type Audits interface {
	// ListHolds returns up to limit holds of the page that next named, and the next; empty: the last.
	ListHolds(
		ctx context.Context, f store.HoldFilter, page string, limit int,
	) (holds []store.Hold, next string, err error)
	// ListSales returns up to limit sales in the order of their hold ids, after the given one.
	ListSales(ctx context.Context, f store.SaleFilter, after string, limit int) ([]store.Sale, error)
	// Reconcile says what is off, and whether it was put right.
	Reconcile(ctx context.Context, id string, apply bool) ([]store.Finding, bool, error)
}

// Operators are the use cases behind AdminService.
type Operators interface {
	Allotments
	Audits
}
