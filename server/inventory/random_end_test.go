//go:build failpoints

package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// addsUp checks R6 as it must hold at any moment: in one reading of Redis, and in the ledger's row.
func (s *story) addsUp(ctx context.Context) error {
	for _, id := range s.allotments {
		row, err := s.lab.ledger.Allotment(ctx, id)
		if err != nil {
			return err
		}
		if row.Sold < 0 || row.Sold > row.Capacity {
			return &brokenPromise{fmt.Sprintf("R1: %s has sold %d of %d", id, row.Sold, row.Capacity)}
		}
		work, err := s.holds.Due(ctx, []store.Place{row.Place}, 1) // it changes nothing: Counters would release
		var needed *store.AdoptNeeded
		if errors.As(err, &needed) {
			continue
		}
		if err != nil {
			return err
		}
		// Where Redis showed too much, what the ledger had no room for is not given back: it is off until adopted.
		if c := work[0].Counters; (c.Off() != 0 && !s.forged.Load()) || c.Held < 0 || c.Confirming < 0 || c.Shrinking < 0 {
			return &brokenPromise{fmt.Sprintf("R6: %s is off by %d: %+v", id, c.Off(), c)}
		}
	}
	return nil
}

// end thaws whoever is frozen, lets supervisors finish what others began, and then counts.
func (s *story) end(ctx context.Context) error {
	for len(s.frozen) > 0 {
		s.thaw(randomSteps)
	}
	s.running.Wait()
	r := s.newLife("last")
	for round := 0; ; round++ {
		s.offset.Add(int64(11 * time.Second))
		_, _ = s.supervise()(ctx, r)
		if s.forged.Load() { // the loop repairs what stands for 10 s; an operator need not wait
			for _, id := range s.allotments {
				_, _, _ = r.Reconcile(ctx, id, true)
			}
		}
		err := s.settled(ctx, r)
		if err == nil {
			break
		}
		if round == 20 {
			return fmt.Errorf("R8: not put right after %d rounds: %w", round, err)
		}
	}
	if err := s.addsUp(ctx); err != nil {
		return err
	}
	return s.accounted(ctx)
}

// settled checks that nothing is under way and that Redis, the ledger and the holds agree.
func (s *story) settled(ctx context.Context, r *life) error {
	for _, id := range s.allotments {
		findings, _, err := r.Reconcile(ctx, id, false)
		if err != nil {
			return err
		}
		if len(findings) > 0 {
			return fmt.Errorf("%s: %+v", id, findings)
		}
		row, err := r.Allotment(ctx, id)
		if err != nil {
			return err
		}
		counters, err := s.holds.Counters(ctx, []store.Place{row.Place})
		if err != nil {
			return err
		}
		if c := counters[0]; c.Confirming != 0 || c.Shrinking != 0 || c.Sold != row.Sold || c.Capacity != row.Capacity || c.Feed != row.Feed {
			return fmt.Errorf("%s: row %+v, counters %+v", id, row, c)
		}
	}
	return nil
}

// accounted checks the books at the end: each acknowledged sale exists once, and sold is what the sales say.
func (s *story) accounted(ctx context.Context) error {
	for _, id := range s.allotments {
		sold, byOrder := int64(0), map[string]string{}
		sales, err := s.lab.ledger.ListSales(ctx, store.SaleFilter{Allotment: id}, "", 1000)
		if err != nil {
			return err
		}
		for _, sale := range sales {
			sold += sale.Quantity - sale.Cancelled
			if other := byOrder[sale.OrderID]; other != "" {
				return &brokenPromise{fmt.Sprintf("R4: order %s bought twice: %s and %s", sale.OrderID, other, sale.ID)}
			}
			byOrder[sale.OrderID] = sale.ID.String()
		}
		row, err := s.lab.ledger.Allotment(ctx, id)
		if err != nil {
			return err
		}
		if sold != row.Sold || sold > row.Capacity {
			return &brokenPromise{fmt.Sprintf("R1: %s: sales of %d units, row says %d of %d", id, sold, row.Sold, row.Capacity)}
		}
		for hold, order := range s.sales {
			if hold.Allotment == id && byOrder[order] != hold.String() {
				return &brokenPromise{fmt.Sprintf("R4: the sale of %s under %s is gone; sales: %s", hold, order, strings.Join(keys(byOrder), " "))}
			}
		}
	}
	return nil
}

func keys(m map[string]string) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	return all
}
