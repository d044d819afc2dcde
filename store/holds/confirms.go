package holds

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// Begin implements store.Confirms.
func (s *Store) Begin(ctx context.Context, r store.BeginRequest) ([]store.Begun, error) {
	places := make([]store.Place, len(r.Holds))
	for i, h := range r.Holds {
		places[i] = h.Place
	}
	o, err := s.begin(ctx, r, places)
	if err != nil {
		return nil, err
	}
	if o.reply[0].status() != statusOK {
		return nil, s.beginError(r, o)
	}
	holds, err := s.holdsOf(places, o.reply[0], o.now)
	if err != nil {
		return nil, err
	}
	begun := make([]store.Begun, len(holds))
	for i, h := range holds {
		begun[i] = store.Begun{Hold: h, Epoch: o.facts[i].epoch}
	}
	return begun, nil
}

// begin asks for lapsed holds in a second call, which may take them only until a time: one that is given up may run much later, when
// another server has told its caller that the hold lapsed. It is the time of Redis, as the answer before told it. An
// answer that came after it says nothing of the stock.
func (s *Store) begin(ctx context.Context, r store.BeginRequest, places []store.Place) (*op, error) {
	var latest int64
	for {
		o, err := s.decide(ctx, laneCaller, places, func() *op { return beginOp(r, places, latest) })
		if err != nil || r.Prompt || o.reply[0].status() != statusLapsed || o.now < latest {
			return o, err
		}
		most := s.timeout
		if deadline, ok := ctx.Deadline(); ok { // then the caller may ask another server
			most = min(most, time.Until(deadline))
		}
		latest = o.now + most.Milliseconds()
	}
}

// beginOp pins holds; lapsed ones may be taken again until the time latest of Redis, in ms.
func beginOp(r store.BeginRequest, places []store.Place, latest int64) *op {
	var token store.Token
	if r.Token != nil {
		token = *r.Token
	}
	return &op{
		script: "begin", places: places, items: 1,
		keys: func(keys []string) []string {
			for _, h := range r.Holds {
				keys = holdKeys(keys, h.Place, h.ID)
			}
			return keys
		},
		args: func(args []any, number func(store.Place) int) []any {
			args = append(args, len(r.Holds), pack(r.OrderID), r.Quantity, token.Epoch, token.Sequence,
				r.Lease.Milliseconds(), joinMembers(r.Cart), latest)
			for _, h := range r.Holds {
				args = append(args, number(h.Place), packTag(h.ID.Tag))
			}
			return args
		},
	}
}

func (s *Store) beginError(r store.BeginRequest, o *op) error {
	result := o.reply[0]
	i := result.int(1) - 1
	if i < 0 || int(i) >= len(r.Holds) {
		return fmt.Errorf("begin: status %d names line %d of %d", result.status(), i+1, len(r.Holds))
	}
	h := r.Holds[i]
	if result.status() == statusNotFound || result.status() == statusDamaged {
		return s.holdError(result, h.Place, h.ID)
	}
	record, err := decodeRecord(h.Place, result.list(2), o.now)
	if err != nil {
		return s.unreadable(h.Place, err)
	}
	no := &store.Refusal{Allotment: h.Allotment, HoldID: h.ID.String(), OrderID: record.OrderID}
	switch result.status() {
	case statusOrderMismatch:
		no.Reason = store.OrderMismatch
	case statusMismatch:
		no.Reason, no.Field = store.RequestMismatch, "quantity"
		if len(r.Holds) > 1 || record.Pinned != nil && record.Pinned.Cart != nil {
			no.Field = "hold_ids"
		}
	case statusStaleToken:
		no.Reason = store.StaleToken
	case statusTooMuch:
		return &store.InvalidField{Field: "quantity", Problem: fmt.Sprintf("is %d, hold %s has %d", r.Quantity, h.ID, record.Quantity)}
	case statusCancelled:
		no.Reason = store.HoldCancelled
		if record.Ended == store.EndedByOrder && record.OrderID == r.OrderID {
			no.Reason = store.OrderExists
		}
	default:
		return s.holdError(result, h.Place, h.ID)
	}
	return no
}

var verdictNumbers = map[store.VerdictKind]int{
	store.VerdictSold: 1, store.VerdictRefusedOrder: 2, store.VerdictRefusedRoom: 3, store.VerdictRefusedCart: 4,
}

// Finish implements store.Confirms.
func (s *Store) Finish(ctx context.Context, lines []store.FinishLine) error {
	var ended []store.FinishLine
	var places []store.Place
	seen := map[string]bool{}
	for _, l := range lines {
		if l.Verdict.Kind == store.VerdictStale {
			continue
		}
		ended = append(ended, l)
		if !seen[l.Allotment] {
			seen[l.Allotment] = true
			places = append(places, l.Place)
		}
	}
	if ended == nil {
		return nil
	}
	o := &op{
		script: "finish", places: places, items: len(ended),
		keys: func(keys []string) []string {
			for _, l := range ended {
				keys = holdKeys(keys, l.Place, l.ID)
			}
			return keys
		},
		args: func(args []any, number func(store.Place) int) []any {
			for _, l := range ended {
				v := l.Verdict
				args = append(args, number(l.Place), packTag(l.ID.Tag), verdictNumbers[v.Kind], v.Sale.Quantity,
					pack(v.Sale.OrderID), v.Token.Epoch, v.Token.Sequence)
			}
			return args
		},
	}
	if err := s.do(ctx, laneFinish, o); err != nil {
		return err
	}
	for i, result := range o.reply {
		if st := result.status(); st != statusOK && st != statusNotFound {
			return s.holdError(result, ended[i].Place, ended[i].ID)
		}
	}
	return nil
}

// Claim implements store.Confirms.
func (s *Store) Claim(ctx context.Context, p store.Place, ids []store.HoldID, lease time.Duration) ([]store.Begun, error) {
	o := holdsOp("claim", p, ids, lease.Milliseconds())
	if err := s.do(ctx, laneUpkeep, o); err != nil {
		return nil, err
	}
	var claimed []store.Begun
	for _, result := range o.reply {
		if result.status() == statusDamaged {
			s.damaged(p)
		}
		if result.status() != statusOK {
			continue
		}
		record, err := decodeRecord(p, result.list(1), o.now)
		if err != nil { // the others go on
			_ = s.unreadable(p, err)
			continue
		}
		claimed = append(claimed, store.Begun{Hold: record.Hold, Epoch: o.facts[0].epoch})
	}
	return claimed, nil
}

// Shrink implements store.Confirms.
func (s *Store) Shrink(ctx context.Context, r store.ShrinkRequest) (store.Begun, error) {
	dry := 0
	if r.DryRun {
		dry = 1
	}
	o, err := s.decide(ctx, laneCaller, []store.Place{r.Place}, func() *op {
		return holdsOp("shrink", r.Place, []store.HoldID{r.ID}, r.Units, pack(r.RequestID), r.Lease.Milliseconds(), dry)
	})
	if err != nil {
		return store.Begun{}, err
	}
	f := o.facts[0]
	switch o.reply[0].status() {
	case statusOK:
	case statusInUse:
		held, sold := f.shown()
		return store.Begun{}, &store.Refusal{
			Reason: store.CapacityInUse, Allotment: r.Allotment, Requested: r.Units, Capacity: f.capacity, Sold: sold,
			Held: held, SmallestCapacity: f.capacity - max(0, f.available),
		}
	case statusMismatch:
		return store.Begun{}, &store.Refusal{Reason: store.RequestMismatch, Allotment: r.Allotment, Field: "delta"}
	case statusTooMuch:
		return store.Begun{}, &store.InvalidField{Field: "delta", Problem: fmt.Sprintf("takes off %d units, want at least 1", r.Units)}
	default:
		return store.Begun{}, s.holdError(o.reply[0], r.Place, r.ID)
	}
	if r.DryRun && len(o.reply[0]) == 1 {
		return store.Begun{Epoch: f.epoch}, nil
	}
	record, err := decodeRecord(r.Place, o.reply[0].list(1), o.now)
	return store.Begun{Hold: record.Hold, Epoch: f.epoch}, s.unreadable(r.Place, err)
}
