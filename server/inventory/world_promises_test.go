package inventory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// row reads an allotment from the database, past the product.
func (w *world) row(id string) (capacity, sold int64) {
	w.t.Helper()
	w.query("select capacity, sold from allotments where id = $1", []any{id}, &capacity, &sold)
	return capacity, sold
}

func (w *world) query(sql string, args []any, into ...any) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, w.pgURL)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if len(into) == 0 {
		_, err = conn.Exec(ctx, sql, args...)
	} else {
		err = conn.QueryRow(ctx, sql, args...).Scan(into...)
	}
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// checkPromises checks R1 and R6, and that Redis, ledger and holds agree, once nothing is in flight.
func (w *world) checkPromises(id string) {
	w.t.Helper()
	if w.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	v := w.start(true)
	var last error
	for ctx.Err() == nil {
		if last = w.checkOnce(ctx, v, id); last == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.t.Errorf("promises on %s: %v", id, last)
}

func (w *world) checkOnce(ctx context.Context, v *replica, id string) error {
	a, err := v.Availability(ctx, id)
	if err != nil {
		return err
	}
	capacity, sold := w.row(id)
	var net int64
	w.query(`select coalesce(sum(quantity - cancelled_quantity), 0)::bigint from outcomes
		where allotment_id = $1 and verdict = 'SOLD' and kind = 'SALE'`, []any{id}, &net)
	if net > capacity || sold != net {
		return fmt.Errorf("R1: %d sold in sales, %d in the row, capacity %d", net, sold, capacity)
	}
	if a.Sold != sold || a.Capacity != capacity || a.Available+a.Held+a.Sold != capacity {
		return fmt.Errorf("R6: available %d, held %d, sold %d, capacity %d; the ledger has sold %d of %d",
			a.Available, a.Held, a.Sold, a.Capacity, sold, capacity)
	}
	findings, _, err := v.Reconcile(ctx, id, false)
	if err == nil && len(findings) > 0 {
		err = fmt.Errorf("reconcile: %+v", findings)
	}
	return err
}
