package world

import (
	"context"
	"fmt"
)

// Books are what both stores have on an allotment, read past the servers.
type Books struct {
	Capacity, Available, Held, Confirming, Shrinking, Sold int64 // in Redis
	Epoch                                                  int64

	LedgerCapacity, LedgerSold, LedgerEpoch int64
	Rows                                    int64 // units of the rows that are sales, less what was cancelled
}

// unpackCounters reads the text that is an allotment's counters: its server's identity, then 18 numbers.
const unpackCounters = `return {struct.unpack('>c40' .. string.rep('i8', 18), redis.call('HGET', KEYS[1], 'counters'))}`

// Books reads both stores, Redis first: of what moves towards the ledger it may show less there than is.
func (w *World) Books(ctx context.Context, allotment string) (Books, error) {
	var b Books
	numbers, err := w.Client.Eval(ctx, unpackCounters, []string{"hf:{" + allotment + "}:c"}).Slice()
	if err != nil {
		return b, fmt.Errorf("read the counters: %w", err)
	}
	for i, to := range []*int64{&b.Epoch, &b.Capacity, &b.Available, &b.Held, &b.Confirming, &b.Shrinking, &b.Sold} {
		n, ok := numbers[i+1].(int64)
		if !ok {
			return b, fmt.Errorf("counter %d is %v", i, numbers[i+1])
		}
		*to = n
	}
	conn, err := w.Connect(ctx)
	if err != nil {
		return b, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `select a.capacity, a.sold, a.epoch,
		coalesce((select sum(quantity - cancelled_quantity) from outcomes where allotment_id = a.id and verdict = 'SOLD' and kind = 'SALE'), 0)
		from allotments a where a.id = $1`, allotment).Scan(&b.LedgerCapacity, &b.LedgerSold, &b.LedgerEpoch, &b.Rows)
	if err != nil {
		return b, fmt.Errorf("read the ledger: %w", err)
	}
	return b, nil
}

// Problem says what does not add up; nothing if all does. atRest: nothing is under way, so the stores must agree.
func (b Books) Problem(atRest bool) string {
	sum := b.Available + b.Held + b.Confirming + b.Shrinking + b.Sold
	switch {
	case b.LedgerSold > b.LedgerCapacity || b.Rows > b.LedgerCapacity:
		return fmt.Sprintf("oversold: %d in the ledger's row, %d in rows of sales, of %d", b.LedgerSold, b.Rows, b.LedgerCapacity)
	case b.Rows != b.LedgerSold:
		return fmt.Sprintf("the ledger's row has sold %d, its rows of sales %d", b.LedgerSold, b.Rows)
	case sum != b.Capacity:
		return fmt.Sprintf("Redis: %d available + %d held + %d confirming + %d shrinking + %d sold of %d",
			b.Available, b.Held, b.Confirming, b.Shrinking, b.Sold, b.Capacity)
	case b.Epoch != b.LedgerEpoch:
		return fmt.Sprintf("epoch %d in Redis, %d in the ledger", b.Epoch, b.LedgerEpoch)
	case atRest && (b.Capacity != b.LedgerCapacity || b.Sold != b.LedgerSold):
		return fmt.Sprintf("Redis has sold %d of %d, the ledger %d of %d", b.Sold, b.Capacity, b.LedgerSold, b.LedgerCapacity)
	}
	return ""
}

// Epoch is an allotment's in the ledger.
func (w *World) Epoch(ctx context.Context, allotment string) (epoch int64, err error) {
	conn, err := w.Connect(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, "select epoch from allotments where id = $1", allotment).Scan(&epoch); err != nil {
		return 0, fmt.Errorf("read the epoch: %w", err)
	}
	return epoch, nil
}
