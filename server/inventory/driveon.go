package inventory

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/failpoint"
)

// driveOn brings confirms and shrinks whose lease ran out to their end: the same ledger step for
// the whole cart, the same finish.
func (v *Inventory) driveOn(ctx context.Context, p store.Place, ids []store.HoldID) {
	if len(ids) == 0 {
		return
	}
	claimed, err := v.redis.Claim(ctx, p, ids, v.o.ConfirmLease)
	if err != nil {
		return // the next pass tries again
	}
	failpoint.Hit("claim-after-lease")
	for _, b := range claimed {
		v.detached.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.o.ConfirmTime)
			defer cancel()
			if err := v.recovered("supervised confirm", func() error { return v.driveOne(ctx, p, b) }); err != nil {
				v.log.Warn("a confirm whose lease ran out is not ended yet", slog.String("hold", b.ID.String()), slog.Any("error", err))
			}
		})
	}
}

func (v *Inventory) driveOne(ctx context.Context, p store.Place, b store.Begun) error {
	cart, placed, err := v.cartOf(ctx, p, b)
	if err != nil {
		return err
	}
	confirm := store.Confirm{OrderID: b.OrderID}
	for _, line := range cart {
		confirm.Lines = append(confirm.Lines, confirmLine(b.OrderID, line))
	}
	verdicts, err := v.ledger.Settle(ctx, p.Group, confirm)
	if err != nil {
		return err
	}
	failpoint.Hit("claim-after-ledger")
	if stale(verdicts) {
		return store.ErrStale // adopted meanwhile: the lease is due again under the new epoch
	}
	v.finish(ctx, placed, verdicts)
	return nil
}

// cartOf reads the other holds of a claimed hold's cart. Those that are no longer CONFIRMING for
// this order count as gone, which the ledger step refuses unless it knows their sale.
func (v *Inventory) cartOf(ctx context.Context, p store.Place, b store.Begun) ([]store.Begun, []store.PlacedHold, error) {
	cart := []store.Begun{b}
	placed := []store.PlacedHold{{Place: p, ID: b.ID}}
	if b.Pinned == nil {
		return cart, placed, nil
	}
	for _, id := range b.Pinned.Cart {
		if id == b.ID {
			continue
		}
		other, err := v.places.hold(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		counters, h, err := v.memberOf(ctx, other)
		if err != nil {
			return nil, nil, err
		}
		line := store.Begun{Hold: h, Epoch: counters.Epoch}
		if h.State == store.Confirming && h.OrderID != b.OrderID {
			line.State = store.Cancelled
		}
		cart, placed = append(cart, line), append(placed, other)
	}
	return cart, placed, nil
}

// memberOf reads a hold of a cart with the epoch of its allotment; a hold without a record is gone.
func (v *Inventory) memberOf(ctx context.Context, placed store.PlacedHold) (store.Counters, store.Hold, error) {
	counters, err := v.redis.Counters(ctx, []store.Place{placed.Place})
	if err != nil {
		return store.Counters{}, store.Hold{}, err
	}
	h, err := v.redis.Get(ctx, placed)
	if store.Refused(err, store.HoldNotFound) != nil {
		h, err = store.Hold{ID: placed.ID, State: store.Lapsed}, nil
	}
	return counters[0], h, err
}

// conservation returns by how many units an allotment's numbers are off, and whether Redis knows
// more than Postgres: then that has gone back in time. The counters must add up at any moment; with
// the ledger they are compared when nothing changes meanwhile.
func (v *Inventory) conservation(ctx context.Context, c store.Counters, row *store.Allotment) (off int64, wentBack bool) {
	if off = c.Off(); off != 0 || row == nil {
		return off, false
	}
	if agrees(c, *row) {
		return 0, false
	}
	now, err := v.o.Background.Allotment(ctx, c.Allotment)
	if err != nil {
		return 0, false
	}
	again, err := v.redis.Counters(ctx, []store.Place{c.Place})
	if err != nil || again[0].Version != c.Version || agrees(again[0], now) {
		return 0, false
	}
	if c.Epoch > now.Epoch || c.Feed > now.Feed {
		return 0, true
	}
	if c.Feed < now.Feed { // the feed is under way
		return 0, false
	}
	return max(1, abs(now.Sold-c.Sold)+abs(now.Capacity-c.Capacity)), false
}

// agrees says whether counters and row tell the same, but for what is confirming or shrinking.
func agrees(c store.Counters, row store.Allotment) bool {
	sold, shrunk := row.Sold-c.Sold, c.Capacity-row.Capacity
	return c.Epoch == row.Epoch && c.Feed == row.Feed && sold >= 0 && sold <= c.Confirming && shrunk >= 0 && shrunk <= c.Shrinking
}

func abs(n int64) int64 { return max(n, -n) }

// retire lets an allotment leave Redis that has been CLOSED for the retention and in which nothing
// is left: noted in the ledger first, so that nobody adopts it again unless it is reopened.
func (v *Inventory) retire(ctx context.Context, row store.Allotment, w store.Work) {
	if row.State != store.StateClosed || time.Since(row.UpdateTime) < v.o.Retention || row.Feed != w.Feed ||
		w.Held != 0 || w.Confirming != 0 || w.Shrinking != 0 || len(w.Ended) != 0 {
		return
	}
	err := v.o.Background.Retire(ctx, row.Place.Allotment, row.Epoch)
	if err == nil {
		failpoint.Hit("retire-after-ledger")
		err = v.redis.Leave(ctx, row.Place, row.Feed)
	}
	if err != nil && !errors.Is(err, store.ErrStale) {
		v.log.Warn("a closed allotment has not left Redis yet", slog.String("allotment", row.Place.Allotment), slog.Any("error", err))
		return
	}
	if err == nil {
		v.log.Info("a closed allotment has left Redis", slog.String("allotment", row.Place.Allotment))
	}
}
