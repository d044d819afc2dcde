package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/failpoint"
)

// ConfirmHold turns a hold into a sale: confirm-begin, the ledger step, confirm-finish.
func (v *Inventory) ConfirmHold(ctx context.Context, c store.ConfirmHold) (store.Sale, error) {
	sales, err := v.confirm(ctx, confirmation{ids: []store.HoldID{c.ID}, order: c.OrderID, quantity: c.Quantity, token: c.Token})
	if err != nil {
		return store.Sale{}, err
	}
	return sales[0], nil
}

// ConfirmHolds turns the holds of a cart into sales of one order, all or nothing.
func (v *Inventory) ConfirmHolds(ctx context.Context, ids []store.HoldID, order string) ([]store.Sale, error) {
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id.Allotment] {
			return nil, &store.InvalidField{Field: "hold_ids", Problem: "two holds of allotment " + id.Allotment + "; a cart has one of each"}
		}
		seen[id.Allotment] = true
	}
	return v.confirm(ctx, confirmation{ids: ids, order: order})
}

// stalePause is between two tries of a confirm whose epoch the ledger does not know.
const stalePause = 50 * time.Millisecond

type confirmation struct {
	ids      []store.HoldID
	order    string
	quantity int64
	token    *store.Token
}

func (v *Inventory) confirm(ctx context.Context, c confirmation) ([]store.Sale, error) {
	start := time.Now()
	sales, err := v.confirmed(ctx, c)
	v.metrics.confirmed(ctx, time.Since(start), err)
	if err != nil {
		return nil, err
	}
	inOrder := make([]store.Sale, len(c.ids))
	for i, id := range c.ids {
		inOrder[i] = sales[id]
	}
	return inOrder, nil
}

func (v *Inventory) confirmed(ctx context.Context, c confirmation) (map[store.HoldID]store.Sale, error) {
	holds, err := v.placed(ctx, c.ids)
	if err != nil {
		return nil, err
	}
	d := newDrive(v, c, holds)
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	failpoint.Hit("confirm-after-begin")
	if len(d.begun) == 0 {
		return d.sales, nil
	}
	return d.sales, v.ended(ctx, d)
}

// ended is the end of what has begun, whether or not the caller waits for it. One that stays open is looked at soon.
func (v *Inventory) ended(ctx context.Context, d *drive) error {
	return v.detach(ctx, func(ctx context.Context) error {
		err := d.end(ctx)
		if errors.Is(err, store.ErrResultUnknown) {
			v.supervisor.expect(d.placedBegun())
		}
		return err
	})
}

// placed finds the places of a cart's holds, which must be of one group.
func (v *Inventory) placed(ctx context.Context, ids []store.HoldID) ([]store.PlacedHold, error) {
	holds := make([]store.PlacedHold, len(ids))
	places := make([]store.Place, len(ids))
	for i, id := range ids {
		placed, err := v.places.hold(ctx, id)
		if err != nil {
			return nil, err
		}
		holds[i], places[i] = placed, placed.Place
	}
	return holds, sameGroup(places)
}

// detach runs what is past the point of no return to its end, whatever becomes of the caller, who
// is told that the result is not known if it does not come in time.
func (v *Inventory) detach(ctx context.Context, end func(context.Context) error) error {
	done := make(chan error, 1)
	v.detached.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.o.ConfirmTime)
		defer cancel()
		done <- v.recovered("confirm", func() error { return end(ctx) })
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: the caller's time is over", store.ErrResultUnknown)
	}
}

// drive takes the holds of one cart, or the pinned units of a shrink, from begin to their end.
type drive struct {
	v     *Inventory
	order string
	pin   func(ctx context.Context) ([]store.Begun, error) // confirm-begin, for holds
	holds []store.PlacedHold                               // still without a sale
	begun []store.Begun                                    // those of holds that pin found CONFIRMING
	sales map[store.HoldID]store.Sale
	// stale: the ledger has said so, so that what began may have been lost with its Redis, and the caller told by another server
	// that the hold has lapsed, which stands.
	stale bool
	fresh bool // Redis has been found to have the ledger's epoch, and what it refused was asked again since
}

func newDrive(v *Inventory, c confirmation, holds []store.PlacedHold) *drive {
	r := store.BeginRequest{OrderID: c.order, Quantity: c.quantity, Token: c.token, Lease: v.o.ConfirmLease}
	if len(c.ids) > 1 {
		r.Cart = slices.SortedFunc(slices.Values(c.ids), func(a, b store.HoldID) int {
			return strings.Compare(a.String(), b.String())
		})
	}
	d := &drive{v: v, order: c.order, holds: holds, sales: map[store.HoldID]store.Sale{}}
	d.pin = func(ctx context.Context) ([]store.Begun, error) {
		r.Holds, r.Prompt = d.holds, d.stale
		return v.redis.Begin(ctx, r)
	}
	return d
}

// begin pins the holds. Those that the ledger knows as sold under this order are taken as they are.
func (d *drive) begin(ctx context.Context) error {
	for len(d.holds) > 0 {
		var begun []store.Begun
		err := d.v.adopted(ctx, func(ctx context.Context) error {
			var err error
			begun, err = d.pin(ctx)
			return err
		})
		if err == nil {
			if err = d.keep(ctx, begun); err != nil { // others of the cart have begun
				d.v.supervisor.expect(d.holds)
			}
			return err
		}
		if err := d.ask(ctx, err); err != nil {
			if errors.Is(err, store.ErrUnavailable) { // it may have begun all the same
				d.v.supervisor.expect(d.holds)
			}
			return err
		}
	}
	d.begun = nil // all were sold before
	return nil
}

// keep notes what begin found: sales that exist are read, the rest is to be brought to the ledger.
func (d *drive) keep(ctx context.Context, begun []store.Begun) error {
	d.begun = nil
	for _, b := range begun {
		if b.State != store.Sold {
			d.begun = append(d.begun, b)
			continue
		}
		if d.order == "" { // a shrink
			continue
		}
		sale, err := d.v.ledger.Sale(ctx, b.ID)
		if store.Refused(err, store.SaleNotFound) != nil { // the ledger has gone back
			d.suspect(b.ID)
			err = fmt.Errorf("%w: Redis knows a sale that the ledger does not have", store.ErrUnavailable)
		}
		if err != nil {
			return err
		}
		d.take(b.ID, sale)
	}
	return nil
}

// suspect has the allotment of one of the holds adopted.
func (d *drive) suspect(id store.HoldID) { d.v.adopter.suspect(d.placeOf(id)) }

func (d *drive) placeOf(id store.HoldID) store.Place {
	return d.holds[slices.IndexFunc(d.holds, func(h store.PlacedHold) bool { return h.ID == id })].Place
}

func (d *drive) take(id store.HoldID, sale store.Sale) {
	d.sales[id] = sale
	rest := d.holds[:0:0]
	for _, h := range d.holds {
		if h.ID != id {
			rest = append(rest, h)
		}
	}
	d.holds = rest
}

// ask looks a hold that begin refused up in the ledger, which may know its sale: of a hold that has
// no record any more, or of an earlier one of the same id. A caller who is told that a hold has ended refunds the buyer, so
// that is only believed of a Redis that is not of the past: nil, if it is to be asked again.
func (d *drive) ask(ctx context.Context, refused error) error {
	id, known := d.asked(refused)
	if id == (store.HoldID{}) {
		return refused
	}
	o, found, err := d.v.outcome(ctx, id)
	switch {
	case err != nil:
		return err
	case found && !o.Shrink && o.Verdict.Kind == store.VerdictSold && o.Verdict.Sale.OrderID == d.order:
		d.take(id, o.Verdict.Sale)
		return nil
	case found && o.Verdict.Kind == store.VerdictRefusedOrder && o.OrderID != d.order && !known:
		return &store.Refusal{Reason: store.HoldCancelled, Allotment: id.Allotment, HoldID: id.String()}
	case found && !o.Shrink && (!known || o.Verdict.Kind == store.VerdictSold || o.Verdict.Kind == store.VerdictRefusedOrder && o.OrderID == d.order):
		return verdictRefusal(id, d.order, o.Verdict)
	case !d.fresh:
		d.fresh = true
		return d.v.upToDate(ctx, d.placeOf(id))
	case known:
		return refused
	}
	return d.v.unknownHold(ctx, id)
}

// asked returns the hold whose end the ledger should be asked about (zero: none), and whether Redis knows it.
func (d *drive) asked(refused error) (id store.HoldID, known bool) {
	var no *store.Refusal
	var gone *retiredError
	switch {
	case d.order == "": // a shrink
	case errors.As(refused, &gone):
		for _, h := range d.holds {
			if h.Place == gone.row.Place {
				return h.ID, false
			}
		}
	case errors.As(refused, &no):
		switch no.Reason {
		case store.HoldNotFound, store.HoldLapsed, store.HoldCancelled, store.OrderExists:
			id, err := store.ParseHoldID(no.HoldID)
			if err == nil {
				return id, no.Reason != store.HoldNotFound
			}
		}
	}
	return store.HoldID{}, false
}

// end brings the begun holds to the ledger, as often as it says STALE, and its verdicts to Redis.
func (d *drive) end(ctx context.Context) error {
	for {
		verdicts, err := d.v.ledger.Settle(ctx, d.holds[0].Group, d.confirm())
		if err != nil {
			return fmt.Errorf("%w: ledger: %w", store.ErrResultUnknown, err)
		}
		failpoint.Hit("confirm-after-ledger")
		if stale(verdicts) {
			if err := d.again(ctx, d.begun); err != nil {
				return err
			}
			if len(d.begun) == 0 {
				return nil
			}
			continue
		}
		d.v.finish(ctx, d.placedBegun(), verdicts)
		return d.answer(verdicts)
	}
}

// again claims the confirm under the new epoch, which begin does for the same content. If Redis still
// has the old one, the ledger has gone back or Redis is behind: the allotments are adopted.
func (d *drive) again(ctx context.Context, before []store.Begun) error {
	d.v.metrics.verdict(ctx, store.VerdictStale)
	d.stale = true
	err := d.begin(ctx)
	var no *store.Refusal
	if err != nil && !errors.As(err, &no) {
		return fmt.Errorf("%w: %w", store.ErrResultUnknown, err)
	}
	if err == nil && slices.EqualFunc(before, d.begun, func(a, b store.Begun) bool { return a.Epoch == b.Epoch }) {
		for _, h := range d.placedBegun() {
			d.v.adopter.suspect(h.Place)
		}
		if pause(ctx, stalePause) != nil {
			return fmt.Errorf("%w: the ledger has another epoch than Redis", store.ErrResultUnknown)
		}
	}
	return err
}

func (d *drive) confirm() store.Confirm {
	c := store.Confirm{OrderID: d.order}
	for _, b := range d.begun {
		c.Lines = append(c.Lines, confirmLine(d.order, b))
	}
	return c
}

func confirmLine(order string, b store.Begun) store.ConfirmLine {
	line := store.ConfirmLine{
		ID: b.ID, BuyerID: b.BuyerID, RequestID: b.RequestID, Held: b.Quantity, Cart: b.Cart, Token: b.Token,
		CreateTime: b.CreateTime, Epoch: b.Epoch, Shrink: order == "", Gone: b.State != store.Confirming,
	}
	if b.Pinned != nil {
		line.Quantity = b.Pinned.Quantity
	}
	return line
}

func (d *drive) placedBegun() []store.PlacedHold {
	placed := make([]store.PlacedHold, 0, len(d.begun))
	for _, b := range d.begun {
		for _, h := range d.holds {
			if h.ID == b.ID {
				placed = append(placed, h)
			}
		}
	}
	return placed
}

// answer is what the caller is told: the sales, or the refusal of the line that was at fault.
func (d *drive) answer(verdicts []store.Verdict) error {
	var fault error
	for i, verdict := range verdicts {
		id := d.begun[i].ID
		if verdict.Kind == store.VerdictSold && verdict.Sale.OrderID == d.order {
			d.sales[id] = verdict.Sale
			continue
		}
		if fault == nil || verdict.Kind != store.VerdictRefusedCart {
			fault = verdictRefusal(id, d.order, verdict)
		}
	}
	return fault
}

// finish brings verdicts back to Redis. The ledger has decided, so nothing here changes the
// answer: what fails now is done by a supervisor when the lease runs out.
func (v *Inventory) finish(ctx context.Context, holds []store.PlacedHold, verdicts []store.Verdict) {
	lines := make([]store.FinishLine, len(verdicts))
	for i, verdict := range verdicts {
		lines[i] = store.FinishLine{PlacedHold: holds[i], Verdict: verdict}
	}
	err := v.adopted(ctx, func(ctx context.Context) error { return v.redis.Finish(ctx, lines) })
	var gone *retiredError
	if err != nil && !errors.As(err, &gone) {
		v.supervisor.expect(holds)
		v.unfinished.Log(v.log, slog.LevelWarn, time.Now(), "a confirm is decided but not finished; the supervisor does it",
			slog.String("hold", holds[0].ID.String()), slog.Any("error", err))
	}
	for i, verdict := range verdicts {
		v.metrics.verdict(ctx, verdict.Kind)
		if verdict.Kind == store.VerdictRefusedRoom {
			v.log.Error("the ledger had no room for a hold: Redis showed stock that is not there; the allotment is adopted",
				slog.String("hold", holds[i].ID.String()))
			v.adopter.suspect(holds[i].Place)
		}
	}
}

func stale(verdicts []store.Verdict) bool {
	for _, verdict := range verdicts {
		if verdict.Kind == store.VerdictStale {
			return true
		}
	}
	return false
}

// verdictRefusal is what a caller is told who wanted this hold for this order.
func verdictRefusal(id store.HoldID, order string, verdict store.Verdict) error {
	no := &store.Refusal{Reason: store.HoldCancelled, Allotment: id.Allotment, HoldID: id.String(), OrderID: order}
	switch verdict.Kind {
	case store.VerdictSold:
		no.Reason, no.OrderID = store.OrderMismatch, verdict.Sale.OrderID
	case store.VerdictRefusedOrder:
		no.Reason, no.HoldID = store.OrderExists, verdict.Other
	}
	return no
}
