package ledger

import (
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// outcomeRows are rows of outcomes by column, as unnest takes them: one statement writes them all.
type outcomeRows struct {
	ids, allotments, verdicts, kinds, buyers, requests, orders, carts, reasons, others []string
	quantities, held, epochs, sequences                                                []int64
	created                                                                            []*time.Time
}

func (r *outcomeRows) add(o store.Outcome) {
	verdict, reason := textsOf(o.Verdict.Kind)
	kind := kindSale
	if o.Shrink {
		kind = kindShrink
	}
	r.ids, r.allotments = append(r.ids, o.ID.String()), append(r.allotments, o.ID.Allotment)
	r.verdicts, r.kinds = append(r.verdicts, verdict), append(r.kinds, kind)
	r.buyers, r.requests = append(r.buyers, o.BuyerID), append(r.requests, o.RequestID)
	r.orders, r.carts = append(r.orders, o.OrderID), append(r.carts, o.Cart)
	r.reasons, r.others = append(r.reasons, reason), append(r.others, o.Verdict.Other)
	r.quantities, r.held = append(r.quantities, o.Quantity), append(r.held, o.Held)
	r.epochs, r.sequences = append(r.epochs, o.Verdict.Token.Epoch), append(r.sequences, o.Verdict.Token.Sequence)
	r.created = append(r.created, toNull(o.CreateTime))
}

// arrays are the columns in the order of putOutcomes.
func (r *outcomeRows) arrays() []any {
	return []any{
		r.ids, r.allotments, r.verdicts, r.kinds, r.buyers, r.requests, r.orders, r.carts, r.reasons, r.others,
		r.quantities, r.held, r.epochs, r.sequences, r.created,
	}
}
