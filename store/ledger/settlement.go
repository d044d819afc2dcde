package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	// The clock is read when the locks are held: it is for audit only, but sales of an allotment
	// should not look as if they had been decided in another order.
	lockBalances = `with locked as (
			select id, capacity, sold, epoch from allotments where id = any($1::text[]) order by id for update)
		select id, capacity, sold, epoch, clock_timestamp() from locked`

	selectOutcomes = `select ` + outcomeColumns + ` from outcomes where hold_id = any($1::text[])`

	// Lateral with a limit: each pair is looked up by itself, whatever the planner thinks of the table.
	selectOrders = `select asked.allotment_id, asked.order_id, o.hold_id
		from unnest($1::text[], $2::text[]) as asked (allotment_id, order_id)
		cross join lateral (select hold_id from outcomes where order_id = asked.order_id
			and allotment_id = asked.allotment_id and verdict = 'SOLD' and kind = 'SALE' limit 1) o`

	selectAdjusted = `select asked.allotment_id, asked.request_id
		from unnest($1::text[], $2::text[]) as asked (allotment_id, request_id)
		cross join lateral (select from adjustments where allotment_id = asked.allotment_id
			and request_id = asked.request_id limit 1) a`

	// A REFUSED row gives way if it was read ($18); a SOLD row does not. If one stays, the count is short.
	putOutcomes = `with put as (
			insert into outcomes as o (hold_id, allotment_id, verdict, kind, buyer_id, request_id, order_id, cart,
				refused_reason, other_hold, quantity, held, token_epoch, token_sequence, hold_create_time, decided_at)
			select n.hold_id, n.allotment_id, n.verdict, n.kind, n.buyer_id, n.request_id, n.order_id, n.cart,
				nullif(n.reason, ''), nullif(n.other, ''), n.quantity, n.held, n.epoch, n.sequence, n.created, coalesce($16::timestamptz, statement_timestamp())
			from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
				$9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::timestamptz[])
				as n (hold_id, allotment_id, verdict, kind, buyer_id, request_id, order_id, cart,
					reason, other, quantity, held, epoch, sequence, created)
			on conflict (hold_id) do update set verdict = excluded.verdict, kind = excluded.kind,
				buyer_id = excluded.buyer_id, request_id = excluded.request_id, order_id = excluded.order_id,
				cart = excluded.cart, refused_reason = excluded.refused_reason, other_hold = excluded.other_hold,
				quantity = excluded.quantity, held = excluded.held, token_epoch = excluded.token_epoch,
				token_sequence = excluded.token_sequence, hold_create_time = excluded.hold_create_time,
				decided_at = excluded.decided_at
			where o.verdict = 'REFUSED' and $18::boolean
			returning decided_at)
		select ledger_must(count(*), $17::bigint, 'outcomes_pkey'), max(decided_at) from put`

	// The condition is the rule; the table's CHECK is its backstop, and the count what stops the
	// COMMIT that is already on its way.
	moveBalance = `with moved as (
			update allotments set sold = sold + $2::bigint, capacity = capacity - $3::bigint,
				version = version + sign($3::bigint)::bigint,
				update_time = case when $3::bigint > 0 then clock_timestamp() else update_time end
			where id = $1::text and epoch = $4::bigint and sold + $2::bigint <= capacity - $3::bigint
			returning 1)
		select ledger_must((select count(*) from moved), 1, 'allotments_never_oversold')`

	insertShrinks = `insert into adjustments (allotment_id, request_id, delta, feed)
		select n.allotment_id, n.request_id, -n.quantity, 0
		from unnest($1::text[], $2::text[], $3::bigint[]) as n (allotment_id, request_id, quantity)`
)

// settlement is the ledger step for a batch of confirms.
type settlement struct {
	confirms []store.Confirm
	mark     func(point string)

	assumed  bool // the book is what was assumed, not what was read
	book     book
	verdicts [][]store.Verdict
}

// read locks the allotments in the order of their ids and then reads, in statements of their own,
// what was committed before the lock was given.
func (s *settlement) read(b *pgx.Batch) {
	s.book, s.assumed = newBook(), false
	var ids, allotments, orderAllotments, orders, shrinkAllotments, requests []string
	for _, c := range s.confirms {
		for _, line := range c.Lines {
			ids, allotments = append(ids, line.ID.String()), append(allotments, line.ID.Allotment)
			if line.Shrink {
				shrinkAllotments, requests = append(shrinkAllotments, line.ID.Allotment), append(requests, line.RequestID)
			} else {
				orderAllotments, orders = append(orderAllotments, line.ID.Allotment), append(orders, c.OrderID)
			}
		}
	}
	slices.Sort(allotments)
	b.Queue(lockBalances, slices.Compact(allotments)).Query(s.book.scanBalances)
	b.Queue(selectOutcomes, ids).Query(s.book.scanOutcomes)
	if len(orders) > 0 {
		b.Queue(selectOrders, orderAllotments, orders).Query(s.book.scanOrders)
	}
	if len(requests) > 0 {
		b.Queue(selectAdjusted, shrinkAllotments, requests).Query(s.book.scanAdjusted)
	}
}

func (b *book) scanBalances(rows pgx.Rows) error {
	for rows.Next() {
		var id string
		var a balance
		var now time.Time
		if err := rows.Scan(&id, &a.capacity, &a.sold, &a.epoch, &now); err != nil {
			return err
		}
		b.allotments[id], b.now = &a, now.UTC()
	}
	return nil
}

func (b *book) scanOutcomes(rows pgx.Rows) error {
	var list []store.Outcome
	if err := collectOutcomes(&list)(rows); err != nil {
		return err
	}
	for _, o := range list {
		b.outcomes[o.ID] = o
	}
	return nil
}

func (b *book) scanOrders(rows pgx.Rows) error {
	for rows.Next() {
		var at orderAt
		var hold string
		if err := rows.Scan(&at.allotment, &at.order, &hold); err != nil {
			return err
		}
		b.orders[at] = hold
	}
	return nil
}

func (b *book) scanAdjusted(rows pgx.Rows) error {
	for rows.Next() {
		var at requestAt
		if err := rows.Scan(&at.allotment, &at.request); err != nil {
			return err
		}
		b.adjusted[at] = true
	}
	return nil
}

// decide judges in the order of arrival.
func (s *settlement) decide() error {
	s.verdicts = make([][]store.Verdict, len(s.confirms))
	for i, c := range s.confirms {
		s.verdicts[i] = s.book.judge(c)
	}
	if len(s.book.changed) == 0 {
		return errNothing
	}
	return nil
}

func (s *settlement) write(b *pgx.Batch) {
	s.mark("ledger-before-commit")
	var rows outcomeRows
	var shrinks []store.Outcome
	for _, id := range s.book.sortedChanges() {
		o := s.book.outcomes[id]
		rows.add(o)
		if o.Shrink && o.Verdict.Kind == store.VerdictSold {
			shrinks = append(shrinks, o)
		}
	}
	b.Queue(putOutcomes, append(rows.arrays(), toNull(s.book.now), int64(len(rows.ids)), !s.assumed)...).QueryRow(s.decidedAt)
	s.book.queueMoves(b)
	if len(shrinks) > 0 {
		queueShrinks(b, shrinks)
	}
}

// sortedChanges are the holds whose outcomes are new, in the order of their ids: whoever locks
// several outcomes does so in that order.
func (b *book) sortedChanges() []store.HoldID {
	ids := make([]store.HoldID, 0, len(b.changed))
	for id := range b.changed {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(x, y store.HoldID) int { return cmp.Compare(x.String(), y.String()) })
	return ids
}

// queueMoves raises sold, and lowers capacity, once for each allotment.
func (b *book) queueMoves(batch *pgx.Batch) {
	for id, a := range b.allotments {
		if a.newlySold != 0 || a.newlyShut != 0 {
			batch.Queue(moveBalance, id, a.newlySold, a.newlyShut, a.epoch)
		}
	}
}

func queueShrinks(b *pgx.Batch, shrinks []store.Outcome) {
	var allotments, requests []string
	var quantities []int64
	for _, o := range shrinks {
		allotments, requests = append(allotments, o.ID.Allotment), append(requests, o.RequestID)
		quantities = append(quantities, o.Quantity)
	}
	b.Queue(insertShrinks, allotments, requests, quantities)
}
