package inventory

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/failpoint"
)

// CreateHold takes a quantity of one allotment for a buyer.
func (v *Inventory) CreateHold(ctx context.Context, buyer, request string, line store.Line) (store.Hold, error) {
	holds, err := v.CreateHolds(ctx, buyer, request, []store.Line{line})
	if err != nil {
		return store.Hold{}, err
	}
	return holds[0], nil
}

// CreateHolds takes the lines of a cart, all or nothing. Lines of one allotment are merged; the
// holds are in the order in which the lines first name their allotments.
func (v *Inventory) CreateHolds(ctx context.Context, buyer, request string, lines []store.Line) ([]store.Hold, error) {
	var holds []store.Hold
	err := v.decisionAfter(ctx, v.adopter.demandInCrowd, func(ctx context.Context) error {
		r, err := v.createRequest(ctx, buyer, request, lines)
		if err != nil {
			return err
		}
		holds, err = v.redis.Create(ctx, r)
		return err
	})
	err = closedIfRetired(err)
	if err != nil {
		return nil, err
	}
	failpoint.Hit("create-before-reply")
	for _, h := range holds {
		if h.State == store.Held {
			v.sweeper.note(h.ID.Allotment, h.Remaining)
		}
	}
	sortAsNamed(holds, lines)
	return holds, nil
}

// sortAsNamed undoes the sorting of mergeLines, so that a caller can go by the order of its own lines. A repeat may name
// them in another order than the first request, and is answered in its own.
func sortAsNamed(holds []store.Hold, lines []store.Line) {
	named := func(h store.Hold) int {
		return slices.IndexFunc(lines, func(l store.Line) bool { return l.Allotment == h.ID.Allotment })
	}
	slices.SortFunc(holds, func(a, b store.Hold) int { return named(a) - named(b) }) // which costs a hold alone nothing
}

func (v *Inventory) createRequest(ctx context.Context, buyer, request string, lines []store.Line) (store.CreateRequest, error) {
	merged := mergeLines(lines)
	r := store.CreateRequest{BuyerID: buyer, RequestID: request, Lines: make([]store.PlacedLine, len(merged))}
	places := make([]store.Place, len(merged))
	for i, l := range merged {
		p, err := v.places.place(ctx, l.Allotment)
		if err != nil {
			return r, err
		}
		places[i], r.Lines[i] = p, store.PlacedLine{Place: p, Quantity: l.Quantity}
	}
	return r, sameGroup(places)
}

// mergeLines adds up the lines of one allotment, and sorts: equal carts are then equal requests.
func mergeLines(lines []store.Line) []store.Line {
	if len(lines) == 1 {
		return lines
	}
	sorted := slices.Clone(lines)
	slices.SortFunc(sorted, func(a, b store.Line) int { return strings.Compare(a.Allotment, b.Allotment) })
	merged := sorted[:0]
	for _, l := range sorted {
		if last := len(merged) - 1; last >= 0 && merged[last].Allotment == l.Allotment {
			merged[last].Quantity += l.Quantity
			continue
		}
		merged = append(merged, l)
	}
	return merged
}
