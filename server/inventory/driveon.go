package inventory

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/failpoint"
)

// driveOn brings confirms and shrinks whose lease ran out to their end: the same ledger step for
// the whole cart, the same finish. While the ledger is known to be down none is claimed, so that all are due when it is back.
func (v *Inventory) driveOn(ctx context.Context, p store.Place, ids []store.HoldID) {
	if len(ids) == 0 || v.ledger.Down() {
		return
	}
	claimed, err := v.redis.Claim(ctx, p, ids, v.o.ConfirmLease)
	if err != nil {
		return // the next pass tries again
	}
	failpoint.Hit("claim-after-lease")
	for _, b := range claimed {
		name := nameOf(b)
		if _, under := v.drives.LoadOrStore(name, true); under {
			continue // with another hold of its cart; if that fails, this one's lease runs out again
		}
		v.detached.Go(func() {
			defer v.drives.Delete(name)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.o.ConfirmTime)
			defer cancel()
			if err := v.recovered("supervised confirm", func() error { return v.driveOne(ctx, p, b) }); err != nil {
				v.unended.Log(v.log, slog.LevelWarn, time.Now(), "a confirm whose lease ran out is not ended yet", slog.String("hold", b.ID.String()), slog.Any("error", err))
			}
		})
	}
}

// nameOf is the id of a hold, or of the first of its cart: after an outage the holds of a cart are due together, and one drive ends all.
func nameOf(b store.Begun) string {
	if b.Pinned != nil && len(b.Pinned.Cart) > 0 {
		return b.Pinned.Cart[0].String()
	}
	return b.ID.String()
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
		if h.State != store.Confirming || h.OrderID != b.OrderID {
			// Gone. The token of a hold that was made anew must not be refused for it.
			line.State, line.Token = store.Cancelled, store.Token{}
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

// conservation returns by how many units an allotment's numbers are off, whether that is known now,
// and whether it must be adopted at once: Redis knows more than Postgres, which then has gone back in time, or an older epoch, whether or not
// the counters add up in themselves. The ledger is read between two readings of them, and what moved meanwhile is allowed for. The row
// spares that if it agrees with them, and is new enough.
func (v *Inventory) conservation(ctx context.Context, c store.Counters, row *store.Allotment, isNew bool) (off int64, known, apart bool) {
	off = c.Off()
	if row == nil {
		return off, off != 0, false
	}
	if off == 0 && isNew && agrees(c, *row) {
		return 0, true, false
	}
	now, err := v.o.Background.Allotment(ctx, c.Allotment)
	if err != nil {
		return off, off != 0, false
	}
	again, err := v.redis.Counters(ctx, []store.Place{c.Place})
	switch {
	case err != nil || again[0].Epoch != c.Epoch:
		return off, off != 0, false
	case c.Epoch > now.Epoch || c.Feed > now.Feed:
		return off, off != 0, true
	case c.Epoch < now.Epoch: // raised by an adopt that was not told so, and has put in force again what it found
		return cmp.Or(off, 1), true, true
	case off != 0:
		return off, true, false
	case again[0].Feed != now.Feed || c.Feed != now.Feed: // the feed is under way
		return 0, false, false
	}
	sold := beyond(now.Sold, c.Sold, again[0].Sold+again[0].Confirming)
	capacity := beyond(now.Capacity, again[0].Capacity-again[0].Shrinking, c.Capacity)
	return sold + capacity, true, false
}

// beyond is by how much n is outside of low to high.
func beyond(n, low, high int64) int64 { return max(0, low-n, n-high) }

// agrees says whether counters and row tell the same, but for what is confirming or shrinking.
func agrees(c store.Counters, row store.Allotment) bool {
	sold, shrunk := row.Sold-c.Sold, c.Capacity-row.Capacity
	return c.Epoch == row.Epoch && c.Feed == row.Feed && sold >= 0 && sold <= c.Confirming && shrunk >= 0 && shrunk <= c.Shrinking
}

// retire lets an allotment leave Redis that has been CLOSED for the retention and in which nothing
// lives or is remembered: noted in the ledger first, so that nobody adopts it again unless it is reopened.
func (v *Inventory) retire(ctx context.Context, row store.Allotment, w store.Work) bool {
	if row.Retired || row.State != store.StateClosed || time.Since(row.UpdateTime) < v.o.Retention || row.Feed != w.Feed ||
		w.Held != 0 || w.Confirming != 0 || w.Shrinking != 0 || w.Remembered != 0 {
		return false
	}
	err := v.o.Background.Retire(ctx, row.Place.Allotment, row.Epoch)
	if err == nil {
		failpoint.Hit("retire-after-ledger")
		err = v.redis.Leave(ctx, row.Place, row.Epoch, row.Feed)
	}
	if err != nil && !errors.Is(err, store.ErrStale) {
		v.log.Warn("a closed allotment has not left Redis yet", slog.String("allotment", row.Place.Allotment), slog.Any("error", err))
	}
	if err == nil {
		v.log.Info("a closed allotment has left Redis", slog.String("allotment", row.Place.Allotment))
	}
	return err == nil
}
