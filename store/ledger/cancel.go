package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	selectCancellation = `select asked, feed from cancellations where hold_id = $1::text and request_id = $2::text`
	cancelUnits        = `update outcomes set cancelled_quantity = cancelled_quantity + $2::bigint, cancel_time = clock_timestamp()
		where hold_id = $1::text and` + isSale + `returning ` + outcomeColumns
	insertCancellation = `insert into cancellations (hold_id, request_id, asked, quantity, feed)
		values ($1::text, $2::text, $3::bigint, $4::bigint, $5::bigint)`
	// What has left Redis is answered from the row, whose version must tell of each change then.
	returnUnits = `update allotments set sold = sold - $2::bigint, feed = greatest(feed, $3::bigint),
			version = version + (retired_at is not null)::integer
		where id = $1::text`
)

// CancelSale implements store.Sales.
func (l *Ledger) CancelSale(ctx context.Context, c store.CancelSale) (store.Sale, int64, error) {
	if c.Quantity < 0 {
		return store.Sale{}, 0, &store.InvalidField{Field: "quantity", Problem: "must be 1 or more"}
	}
	u := &cancelling{asked: c}
	err := l.transact(ctx, l.others, unit{read: u.read, decide: u.decide, write: u.write},
		slog.String("hold", c.ID.String()), slog.String("request", c.RequestID), slog.Int64("quantity", c.Quantity))
	if err != nil {
		return store.Sale{}, 0, err
	}
	return u.sale, u.number, nil
}

// cancelling takes units off a sale. The allotment's lock makes one cancellation of it see another.
type cancelling struct {
	asked store.CancelSale

	allotment store.Allotment
	found     bool // the sale
	sale      store.Sale
	repeated  bool
	before    int64 // quantity asked the first time
	number    int64 // of the feed
	quantity  int64 // to cancel
}

func (u *cancelling) read(b *pgx.Batch) {
	*u = cancelling{asked: u.asked}
	b.Queue(lockAllotment, u.asked.ID.Allotment).QueryRow(optional(func(row pgx.Row) error {
		return scanAllotment(row, &u.allotment)
	}, nil))
	b.Queue(selectOutcomes+` and`+isSale, []string{u.asked.ID.String()}).QueryRow(optional(u.scanSale, &u.found))
	b.Queue(selectCancellation, u.asked.ID.String(), u.asked.RequestID).QueryRow(optional(func(row pgx.Row) error {
		return row.Scan(&u.before, &u.number)
	}, &u.repeated))
}

func (u *cancelling) scanSale(row pgx.Row) error {
	var o store.Outcome
	err := scanOutcome(row, &o)
	u.sale = o.Verdict.Sale
	return err
}

func (u *cancelling) decide() error {
	left := u.sale.Quantity - u.sale.Cancelled
	switch {
	case !u.found:
		return noSale(u.asked.ID)
	case u.repeated && u.before != u.asked.Quantity:
		return u.refuse(store.RequestMismatch, "quantity")
	case u.repeated:
		return errNothing
	case left == 0:
		return u.refuse(store.SaleCancelled, "")
	case u.asked.Quantity > left:
		return &store.InvalidField{Field: "quantity", Problem: fmt.Sprintf("must be at most %d, which is left of the sale", left)}
	}
	if u.quantity = u.asked.Quantity; u.quantity == 0 {
		u.quantity = left
	}
	if !u.allotment.Retired {
		u.number = u.allotment.Feed + 1
	}
	return nil
}

func (u *cancelling) refuse(reason store.Reason, field string) error {
	return &store.Refusal{
		Reason: reason, Allotment: u.asked.ID.Allotment, HoldID: u.asked.ID.String(), OrderID: u.sale.OrderID,
		Requested: u.asked.Quantity, Field: field,
	}
}

func (u *cancelling) write(b *pgx.Batch) {
	id := u.asked.ID
	b.Queue(returnUnits, id.Allotment, u.quantity, u.number)
	b.Queue(cancelUnits, id.String(), u.quantity).QueryRow(u.scanSale)
	b.Queue(insertCancellation, id.String(), u.asked.RequestID, u.asked.Quantity, u.quantity, u.number)
	if u.number > 0 {
		queueChange(b, id.Allotment, store.Change{
			Number: u.number, Kind: store.ChangeCancel, Quantity: u.quantity, BuyerID: u.sale.BuyerID,
		})
	}
}

// optional reads a row that need not exist, and notes in found whether it did.
func optional(scan func(pgx.Row) error, found *bool) func(pgx.Row) error {
	return func(row pgx.Row) error {
		err := scan(row)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil && found != nil {
			*found = true
		}
		return err
	}
}
