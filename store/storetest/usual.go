package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

const (
	usualConns = 16
	usualSales = 4_000 // in a measurement: a few seconds
)

// UsualSales measures what benchmarks of sales compare themselves with: the usual way to sell a limited stock, without
// Holdfast. Each sale is a transaction of its own, a conditional UPDATE of the one row of the stock and the INSERT of the
// sale, on 16 connections at once. It keeps two plain tables of its own in the database at url, and returns sales a second.
func UsualSales(b *testing.B, url string) float64 {
	b.Helper()
	rate, err := usualSalesRate(b.Context(), url)
	if err != nil {
		b.Fatalf("storetest: the usual way to sell: %v", err)
	}
	return rate
}

func usualSalesRate(ctx context.Context, url string) (float64, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return 0, err
	}
	config.MaxConns = usualConns
	db, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	if _, err := db.Exec(ctx, `create table if not exists usual_stock (id int primary key, remaining bigint not null);
		create table if not exists usual_sales (hold_id uuid primary key, order_id uuid not null, quantity bigint not null);
		insert into usual_stock values (1, 1000000000) on conflict do nothing`); err != nil {
		return 0, err
	}
	if _, err := usualSell(ctx, db, usualConns*8); err != nil { // opens the connections
		return 0, err
	}
	took, err := usualSell(ctx, db, usualSales)
	return usualSales / took.Seconds(), err
}

func usualSell(ctx context.Context, db *pgxpool.Pool, sales int) (time.Duration, error) {
	start := time.Now()
	callers, ctx := errgroup.WithContext(ctx)
	for range usualConns {
		callers.Go(func() error {
			for range sales / usualConns {
				if err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return usualSale(ctx, tx) }); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := callers.Wait()
	return time.Since(start), err
}

func usualSale(ctx context.Context, tx pgx.Tx) error {
	tag, err := tx.Exec(ctx, "update usual_stock set remaining = remaining - $1 where id = 1 and remaining >= $1", 1)
	if err == nil && tag.RowsAffected() != 1 {
		err = errors.New("sold out")
	}
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "insert into usual_sales values (gen_random_uuid(), gen_random_uuid(), $1)", 1)
	return err
}
