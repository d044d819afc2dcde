//go:build failpoints

package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// action is something a caller, an operator or a supervisor does; the text is for the story.
type action func(ctx context.Context, r *life) (string, error)

// brokenPromise is an answer that the story does not allow.
type brokenPromise struct{ what string }

func (b *brokenPromise) Error() string { return b.what }

// action draws the next action with all its content, so that the story depends on the seed alone.
func (s *story) action() action {
	allotment := s.allotments[s.rng.IntN(len(s.allotments))]
	buyer, request := fmt.Sprintf("buyer-%d", s.rng.IntN(3)), fmt.Sprintf("r%d", s.rng.IntN(4))
	quantity := int64(1 + s.rng.IntN(3))
	switch n := s.rng.IntN(100); {
	case n < 28:
		return s.createHold(buyer, request, allotment, quantity)
	case n < 33:
		return s.createCart(buyer, request+"c")
	case n < 55:
		return s.confirmHold(s.anyHold(allotment, buyer, request), int64(s.rng.IntN(3)), s.rng.IntN(6) == 0)
	case n < 59:
		return s.confirmCart(buyer, request+"c")
	case n < 66:
		return s.cancelHold(s.anyHold(allotment, buyer, request))
	case n < 70:
		return s.extendHold(s.anyHold(allotment, buyer, request))
	case n < 76:
		return s.cancelSale(s.anyHold(allotment, buyer, request), fmt.Sprintf("c%d", s.rng.IntN(2)))
	case n < 81:
		return adjust(allotment, int64(s.rng.IntN(5)-2), fmt.Sprintf("a%d", s.rng.IntN(8)))
	case n < 83:
		return s.setState(allotment, store.AllotmentState(1+s.rng.IntN(4)/3))
	case n < 85:
		return reconcile(allotment)
	case n < 89:
		return s.adoptAnew(allotment)
	case n < 90:
		return func(ctx context.Context, r *life) (string, error) {
			_, err := r.Availability(ctx, allotment)
			return "availability " + allotment, err
		}
	default:
		return s.supervise()
	}
}

// anyHold picks a hold that was granted, or one that may not exist.
func (s *story) anyHold(allotment, buyer, request string) store.HoldID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) > 0 && s.rng.IntN(5) > 0 {
		recent := s.order[max(0, len(s.order)-4):]
		return recent[s.rng.IntN(len(recent))]
	}
	return store.NewHoldID(allotment, buyer, request)
}

func (s *story) createHold(buyer, request, allotment string, quantity int64) action {
	return func(ctx context.Context, r *life) (string, error) {
		text := fmt.Sprintf("create %s %s %s x%d", buyer, request, allotment, quantity)
		before := s.now()
		h, err := r.CreateHold(ctx, buyer, request, store.Line{Allotment: allotment, Quantity: quantity})
		if err == nil && !r.fate.isDead() {
			err = s.grant(h, before)
		}
		return text, s.justified(before, err)
	}
}

func (s *story) createCart(buyer, request string) action {
	return func(ctx context.Context, r *life) (string, error) {
		before := s.now()
		hs, err := r.CreateHolds(ctx, buyer, request, []store.Line{
			{Allotment: s.allotments[0], Quantity: 1}, {Allotment: s.allotments[1], Quantity: 1},
		})
		if !r.fate.isDead() {
			for _, h := range hs {
				err = errors.Join(err, s.grant(h, before))
			}
		}
		return fmt.Sprintf("create cart %s %s", buyer, request), s.justified(before, err)
	}
}

// grant notes an acknowledged hold, and checks that a repeat tells the same.
func (s *story) grant(h store.Hold, before time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.granted[h.ID]
	if h.State == store.Held && h.Remaining > 0 {
		if old == nil || old.hold.Token != h.Token {
			s.granted[h.ID] = &grant{hold: h, deadline: before.Add(h.Remaining)}
			s.order = append(s.order, h.ID)
		}
	}
	// Another token is that of a new hold, made after the record was purged: it can never become a second sale. And
	// what was HELD or CONFIRMING when this call was decided may have been sold before it was answered.
	ended := h.State == store.Lapsed || h.State == store.Cancelled
	if order, sold := s.sales[h.ID]; sold && ended && h.Token == s.tokens[h.ID] {
		return &brokenPromise{fmt.Sprintf("R4: %s was sold under %s, a repeat says state %d", h.ID, order, h.State)}
	}
	return nil
}

// justified checks the numbers that a refusal gives.
func (s *story) justified(arrival time.Time, err error) error {
	var no *store.Refusal
	if !errors.As(err, &no) || s.forged.Load() {
		return err
	}
	switch {
	case no.Reason == store.SoldOut && no.Capacity-no.Sold >= no.Requested,
		no.Reason == store.AllHeld && no.Capacity-no.Sold-no.Held >= no.Requested:
		return &brokenPromise{fmt.Sprintf("R2: %s, but capacity %d, sold %d, held %d, requested %d", no.Reason, no.Capacity, no.Sold, no.Held, no.Requested)}
	case no.Reason == store.AllHeld && !no.NextLapse.IsZero() && no.NextLapse.Before(arrival.Add(-time.Second)):
		return &brokenPromise{fmt.Sprintf("R2: ALL_HELD at %s, but a hold lapsed at %s", arrival, no.NextLapse)}
	}
	return err
}

func (s *story) confirmHold(id store.HoldID, quantity int64, newOrder bool) action {
	s.orders++
	order := "order-" + id.Tag[:6]
	if newOrder {
		order = fmt.Sprintf("order-x%d", s.orders%3)
	}
	return func(ctx context.Context, r *life) (string, error) {
		text := fmt.Sprintf("confirm %s %s x%d", id.Tag[:6], order, quantity)
		before, promised := s.now(), s.promised(id)
		sale, err := r.ConfirmHold(ctx, store.ConfirmHold{ID: id, OrderID: order, Quantity: quantity})
		if r.fate.isDead() {
			return text, nil
		}
		return text, s.confirmed(id, order, before, promised, []store.Sale{sale}, err)
	}
}

// promised returns the grant that a confirm now can rely on, or nil.
func (s *story) promised(id store.HoldID) *grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.granted[id]
	if g != nil {
		old := g.order
		if g.order = "tried"; old == "" {
			return g
		}
	}
	return nil
}

func (s *story) confirmed(id store.HoldID, order string, before time.Time, g *grant, sales []store.Sale, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		for _, sale := range sales {
			if sale.OrderID != order {
				return &brokenPromise{fmt.Sprintf("R4: confirm under %s answered with a sale under %s", order, sale.OrderID)}
			}
			if s.refused[sale.ID] == order {
				return &brokenPromise{fmt.Sprintf("R4: %s was refused under %s as ORDER_EXISTS and is sold now", sale.ID, order)}
			}
			s.sales[sale.ID], s.tokens[sale.ID] = order, sale.Token
		}
		return nil
	}
	lost := store.Refused(err, store.HoldLapsed) != nil || store.Refused(err, store.HoldNotFound) != nil
	if s.refused[id] == order && len(sales) == 1 && (lost || store.Refused(err, store.HoldCancelled) != nil) {
		return &brokenPromise{fmt.Sprintf("R4: %s was refused under %s as ORDER_EXISTS, a repeat says %v", id, order, err)}
	}
	if store.Refused(err, store.OrderExists) != nil && len(sales) == 1 {
		s.refused[id] = order
	}
	if lost && s.sales[id] == order {
		return &brokenPromise{fmt.Sprintf("R4: %s was sold under %s, a repeat says %v", id, order, err)}
	}
	gone := (lost || store.Refused(err, store.HoldCancelled) != nil) && !s.forged.Load()
	// R3, where nobody else touched the hold and Redis kept its data since.
	if gone && g != nil && !s.touched[id] && before.Add(2*time.Second).Before(g.deadline) && s.now().Before(g.deadline) &&
		s.lossAt.IsZero() {
		return &brokenPromise{fmt.Sprintf("R3: %s was promised until %s, at %s its confirm says %v", id, g.deadline, before, err)}
	}
	return err
}

func (s *story) confirmCart(buyer, request string) action {
	ids := []store.HoldID{store.NewHoldID(s.allotments[0], buyer, request), store.NewHoldID(s.allotments[1], buyer, request)}
	order := "cart-" + buyer + request
	return func(ctx context.Context, r *life) (string, error) {
		before := s.now()
		s.promised(ids[0])
		s.promised(ids[1])
		sales, err := r.ConfirmHolds(ctx, ids, order)
		if r.fate.isDead() {
			return "confirm cart " + order, nil
		}
		return "confirm cart " + order, s.confirmed(ids[0], order, before, nil, sales, err)
	}
}

func (s *story) touch(id store.HoldID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched[id] = true
}

func (s *story) cancelHold(id store.HoldID) action {
	return func(ctx context.Context, r *life) (string, error) {
		s.touch(id)
		h, err := r.CancelHold(ctx, id)
		return fmt.Sprintf("cancel %s (state %d)", id.Tag[:6], h.State), err
	}
}

func (s *story) extendHold(id store.HoldID) action {
	return func(ctx context.Context, r *life) (string, error) {
		_, err := r.ExtendHold(ctx, id)
		return "extend " + id.Tag[:6], err
	}
}

func (s *story) cancelSale(id store.HoldID, request string) action {
	return func(ctx context.Context, r *life) (string, error) {
		_, err := r.CancelSale(ctx, store.CancelSale{ID: id, RequestID: request})
		return fmt.Sprintf("cancel sale %s %s", id.Tag[:6], request), err
	}
}

func adjust(allotment string, delta int64, request string) action {
	if delta == 0 {
		delta = 1
	}
	return func(ctx context.Context, r *life) (string, error) {
		_, err := r.AdjustCapacity(ctx, store.AdjustCapacity{Allotment: allotment, Delta: delta, RequestID: request})
		return fmt.Sprintf("adjust %s %+d %s", allotment, delta, request), err
	}
}

func (s *story) setState(allotment string, state store.AllotmentState) action {
	return func(ctx context.Context, r *life) (string, error) {
		a, err := r.Allotment(ctx, allotment)
		if err == nil {
			_, err = r.UpdateAllotment(ctx, allotment, a.Version, func(rules *store.Rules) error {
				rules.State = state
				return nil
			})
		}
		return fmt.Sprintf("set %s to state %d", allotment, state), err
	}
}

func reconcile(allotment string) action {
	return func(ctx context.Context, r *life) (string, error) {
		findings, applied, err := r.Reconcile(ctx, allotment, true)
		return fmt.Sprintf("reconcile %s: %d findings, applied %v", allotment, len(findings), applied), err
	}
}

// adoptAnew rebuilds an allotment whose state is sound, as on suspicion, while others work on it.
func (s *story) adoptAnew(allotment string) action {
	return func(ctx context.Context, r *life) (string, error) {
		row, err := r.Allotment(ctx, allotment)
		if err == nil {
			err = r.adopter.renew(ctx, row.Place)
		}
		return "adopt " + allotment, err
	}
}

// supervise is a supervisor's look at each allotment, without the loops' timing.
func (s *story) supervise() action {
	return func(ctx context.Context, r *life) (string, error) {
		for _, id := range s.allotments {
			row, err := r.o.Background.Allotment(ctx, id)
			if err != nil {
				continue // as in the loop: next time
			}
			r.supervisor.turn(map[string]*store.Allotment{id: &row})
			r.supervisor.look(ctx, row.Place, &row)
			select {
			case p := <-r.supervisor.unadopted:
				r.supervisor.tendOne(ctx, p)
			default:
			}
			r.sweeper.sweep(ctx, id)
			_ = r.applyFeed(ctx, row.Place, row.Feed)
		}
		forever := context.WithoutCancel(ctx)
		return "supervise", errors.Join(r.detached.wait(forever), r.adopter.wait(forever))
	}
}
