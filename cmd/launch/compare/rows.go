package compare

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-inventory/holdfast/cmd/launch/figures"
)

// schema is what the ways on Postgres sell from. Nothing in it refuses to be oversold: the ways must see to it.
const schema = `
CREATE TABLE IF NOT EXISTS stock (id int PRIMARY KEY, remaining bigint NOT NULL, version bigint NOT NULL);
CREATE TABLE IF NOT EXISTS sales (request int PRIMARY KEY, quantity bigint NOT NULL)`

const tries = 3 // of the optimistic way

// rowWay decides on the row of stock number 1.
type rowWay struct {
	decide  rowDecide
	correct bool // the row is right in the end
	insert  bool // so are the sales
}

type rowDecide func(ctx context.Context, db *pgxpool.Pool, r request) (bool, error)

// rows is a shop on a row of Postgres.
type rows struct {
	rowWay
	db       *pgxpool.Pool
	callers  int
	clock    clock
	capacity int64
}

func openRows(w rowWay) opening {
	return func(ctx context.Context, e *env) (shop, error) {
		db, err := openPool(ctx, e.stores.postgresURL, e.settings.Conns)
		if err != nil {
			return nil, err
		}
		return &rows{rowWay: w, db: db, callers: e.settings.Workers, clock: e.clock}, nil
	}
}

func openPool(ctx context.Context, url string, conns int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(conns) //nolint:gosec // checked when the command line was read
	return pgxpool.NewWithConfig(ctx, config)
}

func (s *rows) restock(ctx context.Context, capacity int64) error {
	s.capacity = capacity
	return restock(ctx, s.db, capacity)
}

// restock also leaves no dead rows behind, which would make the next way slower.
func restock(ctx context.Context, db *pgxpool.Pool, capacity int64) error {
	_, err := db.Exec(ctx, "TRUNCATE stock, sales")
	if err == nil {
		_, err = db.Exec(ctx, "INSERT INTO stock VALUES (1, $1, 0)", capacity)
	}
	if err != nil {
		return fmt.Errorf("new stock: %w", err)
	}
	return nil
}

func (s *rows) ask(ctx context.Context, d demand) ([]answer, error) {
	return play(ctx, d.draw(), s.callers, s.clock, func(ctx context.Context, r request) (bool, error) {
		return s.decide(ctx, s.db, r)
	})
}

func (s *rows) audit(ctx context.Context, t tally) (string, error) {
	var left, sold int64
	err := s.db.QueryRow(ctx, "SELECT remaining, (SELECT coalesce(sum(quantity), 0)::bigint FROM sales) FROM stock WHERE id = 1").Scan(&left, &sold)
	switch {
	case err != nil:
		return "", fmt.Errorf("read the books: %w", err)
	case !s.correct:
		return fmt.Sprintf("the counter says %s of %s left", figures.Count(left), figures.Count(s.capacity)), nil
	case s.capacity-left != t.Sold:
		return "", fmt.Errorf("the counter says %d sold, buyers were told %d", s.capacity-left, t.Sold)
	case s.insert && sold != t.Sold:
		return "", fmt.Errorf("sales of %d items are recorded, buyers were told %d", sold, t.Sold)
	}
	return "", nil
}

func (s *rows) close() error {
	s.db.Close()
	return nil
}

// readCheckWrite writes on what it read, however old that is by then.
func readCheckWrite(ctx context.Context, db *pgxpool.Pool, r request) (bool, error) {
	var left int64
	if err := db.QueryRow(ctx, "SELECT remaining FROM stock WHERE id = 1").Scan(&left); err != nil || left < r.quantity {
		return false, err
	}
	_, err := db.Exec(ctx, "UPDATE stock SET remaining = $1 WHERE id = 1", left-r.quantity)
	return err == nil, err
}

// compareVersion writes if nobody has written since it read, else reads again, and at the third time refuses.
func compareVersion(ctx context.Context, db *pgxpool.Pool, r request) (bool, error) {
	for range tries {
		var left, version int64
		err := db.QueryRow(ctx, "SELECT remaining, version FROM stock WHERE id = 1").Scan(&left, &version)
		if err != nil || left < r.quantity {
			return false, err
		}
		tag, err := db.Exec(ctx, "UPDATE stock SET remaining = $1, version = version + 1 WHERE id = 1 AND version = $2", left-r.quantity, version)
		if err != nil || tag.RowsAffected() == 1 {
			return err == nil, err
		}
	}
	return false, nil
}

// lockRow holds a lock from its read to its commit.
func lockRow(ctx context.Context, db *pgxpool.Pool, r request) (got bool, err error) {
	err = inTransaction(ctx, db, func(tx pgx.Tx) error {
		var left int64
		if err := tx.QueryRow(ctx, "SELECT remaining FROM stock WHERE id = 1 FOR UPDATE").Scan(&left); err != nil {
			return err
		}
		if left < r.quantity {
			return errRefused
		}
		_, err := tx.Exec(ctx, "UPDATE stock SET remaining = $1 WHERE id = 1", left-r.quantity)
		return err
	})
	return sold(err)
}

const takeIfFree = "UPDATE stock SET remaining = remaining - $1 WHERE id = 1 AND remaining >= $1"

// updateIf checks where it writes.
func updateIf(ctx context.Context, db *pgxpool.Pool, r request) (bool, error) {
	tag, err := db.Exec(ctx, takeIfFree, r.quantity)
	return err == nil && tag.RowsAffected() == 1, err
}

// updateAndInsert also notes the sale.
func updateAndInsert(ctx context.Context, db *pgxpool.Pool, r request) (bool, error) {
	return sold(inTransaction(ctx, db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, takeIfFree, r.quantity)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errRefused
		}
		_, err = tx.Exec(ctx, "INSERT INTO sales VALUES ($1, $2)", r.number, r.quantity)
		return err
	}))
}

// errRefused rolls back the transaction of a request that finds too little.
var errRefused = errors.New("sold out")

func sold(err error) (bool, error) {
	if errors.Is(err, errRefused) {
		return false, nil
	}
	return err == nil, err
}

func inTransaction(ctx context.Context, db *pgxpool.Pool, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, f)
}
