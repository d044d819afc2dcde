package holds

import (
	"fmt"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// decodeRecord reads what view in parts/records.lua returns of a hold; a walk adds its score in its index.
func decodeRecord(p store.Place, v []any, now int64) (store.Record, error) {
	r := result(v)
	if len(r) < 16 {
		return store.Record{}, fmt.Errorf("allotment %s: a hold has %d places, want 16", p.Allotment, len(r))
	}
	members, err := splitMembers(r.text(13))
	if err != nil {
		return store.Record{}, damaged(store.HoldID{Allotment: p.Allotment, Tag: unpackTag(r.text(0))})
	}
	h := store.Hold{
		ID: store.HoldID{Allotment: p.Allotment, Tag: unpackTag(r.text(0))}, State: store.HoldState(r.int(1)),
		Quantity: r.int(2), Token: store.Token{Epoch: r.int(3), Sequence: r.int(4)},
		CreateTime: instant(r.int(5)), ExpireTime: instant(r.int(6)),
		BuyerID: unpack(r.text(7)), RequestID: unpack(r.text(8)), Ended: store.EndReason(r.int(14)), Cart: r.text(9),
	}
	var base time.Time
	switch h.State {
	case store.Held:
		h.Remaining = time.Duration(r.int(6)-now) * time.Millisecond
		if r.int(10) != 0 {
			base = instant(r.int(5) + r.int(10))
		}
	case store.Cancelled:
		h.OrderID = unpack(r.text(10))
	case store.Confirming, store.Sold:
		h.OrderID = unpack(r.text(10))
		h.Pinned = &store.Pinned{Quantity: r.int(11), Cart: members}
	}
	return store.Record{Hold: h, Units: r.int(15), Lease: instant(r.int(12)), Base: base, Index: instant(r.int(16))}, nil
}

// holdsOf reads the holds of a result {OK, hold ...}, one for each place.
func (s *Store) holdsOf(places []store.Place, r result, now int64) ([]store.Hold, error) {
	if len(r) != len(places)+1 {
		return nil, fmt.Errorf("a result has %d holds, want %d", len(r)-1, len(places))
	}
	holds := make([]store.Hold, len(places))
	for i, p := range places {
		record, err := decodeRecord(p, r.list(i+1), now)
		if err != nil {
			return nil, s.unreadable(p, err)
		}
		holds[i] = record.Hold
	}
	return holds, nil
}

// encodeRecord gives tag, index score and the 15 places of a record, as adopt_write takes them.
func encodeRecord(args []any, r store.Record) []any {
	pinned := store.Pinned{}
	if r.Pinned != nil {
		pinned = *r.Pinned
	}
	order := any(pack(r.OrderID))
	if r.State == store.Held && !r.Base.IsZero() {
		order = millis(r.Base) - millis(r.CreateTime)
	}
	return append(args, packTag(r.ID.Tag), millis(r.Index), int(r.State), r.Quantity, r.Token.Epoch, r.Token.Sequence,
		millis(r.CreateTime), millis(r.ExpireTime)-millis(r.CreateTime), pack(r.BuyerID), pack(r.RequestID),
		r.Cart, order, pinned.Quantity, millis(r.Lease), joinMembers(pinned.Cart), int(r.Ended), r.Units)
}
