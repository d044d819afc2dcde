package ledger

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
)

const isSale = ` verdict = 'SOLD' and kind = 'SALE' `

// Sale implements store.Sales.
func (l *Ledger) Sale(ctx context.Context, id store.HoldID) (store.Sale, error) {
	var found []store.Outcome
	err := l.look(ctx, l.reads, l.opts.CallTimeout, func(b *pgx.Batch) {
		b.Queue(selectOutcomes+` and`+isSale, []string{id.String()}).Query(collectOutcomes(&found))
	})
	if err != nil {
		return store.Sale{}, err
	}
	if len(found) == 0 {
		return store.Sale{}, noSale(id)
	}
	return found[0].Verdict.Sale, nil
}

func noSale(id store.HoldID) error {
	return &store.Refusal{Reason: store.SaleNotFound, Allotment: id.Allotment, HoldID: id.String()}
}

// Outcomes implements store.Sales.
func (l *Ledger) Outcomes(ctx context.Context, allotment string, tags []string) (map[string]store.Outcome, error) {
	ids := make([]string, len(tags))
	for i, tag := range tags {
		ids[i] = store.HoldID{Allotment: allotment, Tag: tag}.String()
	}
	var found []store.Outcome
	err := l.look(ctx, l.reads, l.opts.CallTimeout, func(b *pgx.Batch) {
		b.Queue(selectOutcomes, ids).Query(collectOutcomes(&found))
	})
	if err != nil {
		return nil, err
	}
	byTag := make(map[string]store.Outcome, len(found))
	for _, o := range found {
		byTag[o.ID.Tag] = o
	}
	return byTag, nil
}

// ListSales implements store.Sales.
func (l *Ledger) ListSales(ctx context.Context, f store.SaleFilter, after string, limit int) ([]store.Sale, error) {
	query, args := listSales(f, after, limit)
	var found []store.Outcome
	err := l.look(ctx, l.reads, l.opts.CallTimeout, func(b *pgx.Batch) {
		b.Queue(query, args...).Query(collectOutcomes(&found))
	})
	if err != nil {
		return nil, err
	}
	sales := make([]store.Sale, len(found))
	for i, o := range found {
		sales[i] = o.Verdict.Sale
	}
	return sales, nil
}

// listSales asks for what f names and nothing else, so that each combination gets the index it
// needs. An allotment is a range of hold ids: '/' follows '.'.
func listSales(f store.SaleFilter, after string, limit int) (string, []any) {
	var query strings.Builder
	var args []any
	query.WriteString(`select ` + outcomeColumns + ` from outcomes where` + isSale)
	add := func(condition, value string) {
		args = append(args, value)
		query.WriteString(` and ` + condition + ` $` + strconv.Itoa(len(args)) + `::text`)
	}
	if f.Allotment != "" {
		after = max(after, f.Allotment+".")
		add("hold_id <", f.Allotment+"/")
	}
	if f.BuyerID != "" {
		add("buyer_id =", f.BuyerID)
	}
	if f.OrderID != "" {
		add("order_id =", f.OrderID)
	}
	add("hold_id >", after)
	args = append(args, limit)
	query.WriteString(` order by hold_id limit $` + strconv.Itoa(len(args)) + `::bigint`)
	return query.String(), args
}
