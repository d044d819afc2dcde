package main

import (
	"context"
	"fmt"
	"io"

	"github.com/holdfast-inventory/holdfast/store/ledger"
)

// migrateCommand brings the tables up to date.
type migrateCommand struct {
	databaseSettings `embed:""`
}

func (c *migrateCommand) check() error { return usage(c.problems()) }

func (c *migrateCommand) run(ctx context.Context, out, _ io.Writer) error {
	from, to, err := ledger.Upgrade(ctx, c.PostgresURL)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if from == to {
		fmt.Fprintf(out, "the tables are up to date (version %d): %s\n", to, redacted(c.PostgresURL))
	} else {
		fmt.Fprintf(out, "migrated from version %d to %d: %s\n", from, to, redacted(c.PostgresURL))
	}
	return nil
}

// eraseCommand erases a buyer's id.
type eraseCommand struct {
	databaseSettings `embed:""`

	BuyerID string `arg:"" name:"buyer-id" help:"The buyer's id, exactly as checkouts gave it."`
}

func (c *eraseCommand) check() error {
	if c.BuyerID == "" {
		return &usageError{problems: []string{"<buyer-id>: must not be empty"}}
	}
	return usage(c.problems())
}

func (c *eraseCommand) run(ctx context.Context, out, _ io.Writer) error {
	l, err := ledger.Open(ctx, ledger.Options{URL: c.PostgresURL})
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	defer l.Close()
	if err := l.CheckSchema(ctx); err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	rows, err := l.EraseBuyer(ctx, c.BuyerID)
	if err != nil {
		return fmt.Errorf("erase, after %d rows; call it again to go on: %w", rows, err)
	}
	if rows == 0 {
		fmt.Fprint(out, "nothing to erase: the ledger has no row of this buyer")
	} else {
		fmt.Fprintf(out, "erased from %d rows of the ledger", rows)
	}
	fmt.Fprintln(out, "; Redis forgets the buyer's ended holds after the retention. "+
		"A hold that is alive can still become a sale under this id: erase again when it has ended")
	return nil
}
