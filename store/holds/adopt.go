package holds

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	scanCount = 256 // fields of a hash in one step of a walk
	wholeHash = "*" // among the damaged fields: all of them
)

// The modes of adopt_begin.lua.
const (
	beginNeeded  = 0
	beginRenewal = 1
	beginAnyway  = 2
)

// step calls a script of an adopt, for one allotment.
func (s *Store) step(ctx context.Context, p store.Place, o *op) (result, int64, error) {
	o.places, o.bare, o.past = []store.Place{p}, true, true
	if o.items == 0 {
		o.items = 1
	}
	if err := s.do(ctx, laneUpkeep, o); err != nil {
		return nil, 0, err
	}
	switch o.reply[0].status() {
	case statusOK:
		return o.reply[0], o.now, nil
	case statusBusy:
		return o.reply[0], o.now, store.ErrStale
	default:
		return nil, 0, unknownFormat(p)
	}
}

// AdoptBegin implements store.Rebuild.
func (s *Store) AdoptBegin(ctx context.Context, p store.Place, claim string, lease time.Duration, renew bool) (*store.Past, time.Duration, error) {
	if err := s.fleet.confirm(ctx, p.Group); err != nil {
		return nil, 0, err
	}
	return s.claim(ctx, p, claim, lease, renew)
}

func (s *Store) claim(ctx context.Context, p store.Place, claim string, lease time.Duration, renew bool) (*store.Past, time.Duration, error) {
	mode := beginNeeded
	if renew {
		mode = beginAnyway
	}
	o := &op{script: "adopt_begin", head: []any{claim, lease.Milliseconds(), mode}}
	r, now, err := s.step(ctx, p, o)
	if r != nil && r.status() == statusBusy {
		return nil, time.Duration(r.int(1)) * time.Millisecond, nil
	}
	if err != nil {
		return nil, 0, err
	}
	return &store.Past{
		Epoch: r.int(1), Feed: r.int(2), Time: instant(r.int(3)), Sequence: r.int(4), Version: r.int(5), Now: instant(now),
	}, 0, nil
}

// AdoptRenew implements store.Rebuild.
func (s *Store) AdoptRenew(ctx context.Context, p store.Place, claim string, lease time.Duration) error {
	_, _, err := s.step(ctx, p, &op{script: "adopt_begin", head: []any{claim, lease.Milliseconds(), beginRenewal}})
	return err
}

// AdoptDrop implements store.Rebuild.
func (s *Store) AdoptDrop(ctx context.Context, p store.Place, claim string, unused bool) error {
	_, _, err := s.step(ctx, p, &op{script: "adopt_drop", head: []any{claim, map[bool]int{true: 1}[unused]}})
	return err
}

// Scan implements store.Rebuild.
func (s *Store) Scan(ctx context.Context, p store.Place, claim string, buckets []int, cursors []string) ([]store.Part, error) {
	o := &op{
		script: "scan", places: []store.Place{p}, items: len(buckets), bare: true, past: claim != "",
		head: []any{claim, scanCount, len(buckets)},
		keys: func(keys []string) []string {
			for _, bucket := range buckets {
				keys = append(keys, holdsKey(p, bucket))
			}
			return keys
		},
		args: func(args []any, _ func(store.Place) int) []any {
			for _, cursor := range cursors {
				if cursor == "" {
					cursor = "0"
				}
				args = append(args, cursor)
			}
			return args
		},
	}
	if err := s.do(ctx, laneUpkeep, o); err != nil {
		return nil, err
	}
	parts := make([]store.Part, len(buckets))
	for i, r := range o.reply {
		if r.status() != statusOK {
			return nil, store.ErrStale
		}
		parts[i] = decodePart(p, r, o.now)
	}
	return parts, nil
}

func decodePart(p store.Place, r result, now int64) store.Part {
	part := store.Part{Next: r.text(1)}
	if part.Next == "0" {
		part.Next = ""
	}
	for _, value := range r.list(2) {
		fields, _ := value.([]any)
		record, err := decodeRecord(p, fields, now)
		if err != nil {
			part.Damaged = append(part.Damaged, unpackTag(result(fields).text(0)))
			continue
		}
		part.Records = append(part.Records, record)
	}
	for _, value := range r.list(3) {
		fields, _ := value.([]any)
		b := result(fields)
		part.Buyers = append(part.Buyers, decodeBuyer(b))
	}
	for _, value := range r.list(4) {
		switch field := fmt.Sprint(value); {
		case field == wholeHash:
			part.Damaged = append(part.Damaged, field)
		case len(field) == len(store.BuyerKey{}):
			part.DamagedBuyers = append(part.DamagedBuyers, keyOf(field))
		default:
			part.Damaged = append(part.Damaged, unpackTag(field))
		}
	}
	return part
}

// decodeBuyer reads an entry as scan.lua returns it.
func decodeBuyer(b result) store.BuyerEntry {
	field := b.text(0)
	e := store.BuyerEntry{Key: keyOf(field), Held: b.int(1), Sold: b.int(2), Live: b.int(3)}
	if home := b.text(4); home != "" {
		e.Home = unpackTag(home + field)
	}
	for i := 5; i < len(b); i++ {
		e.Tags = append(e.Tags, unpackTag(b.text(i)+field))
	}
	return e
}

// keyOf is the buyer's key that a field is.
func keyOf(field string) (key store.BuyerKey) {
	copy(key[:], field)
	return key
}

// AdoptReset implements store.Rebuild.
func (s *Store) AdoptReset(ctx context.Context, p store.Place, claim string) error {
	_, _, err := s.step(ctx, p, &op{script: "adopt_reset", head: []any{claim}})
	return err
}

// AdoptKeep implements store.Rebuild.
func (s *Store) AdoptKeep(ctx context.Context, p store.Place, claim string, records []store.Kept) error {
	_, _, err := s.step(ctx, p, &op{
		script: "adopt_keep", items: 1, head: []any{claim, len(records)},
		args: func(args []any, _ func(store.Place) int) []any {
			for _, r := range records {
				args = append(args, millis(r.Index), packTag(r.Tag))
			}
			return args
		},
	})
	return err
}

// AdoptWrite implements store.Rebuild.
func (s *Store) AdoptWrite(ctx context.Context, p store.Place, claim string, records []store.Record, buyers []store.BuyerEntry) error {
	_, _, err := s.step(ctx, p, &op{
		script: "adopt_write", head: []any{claim, len(records), len(buyers)},
		keys: func(keys []string) []string {
			for _, r := range records {
				keys = holdKeys(keys, p, r.ID)
			}
			for _, b := range buyers {
				keys = append(keys, holdsKey(p, b.Key.Bucket(p.Buckets)))
			}
			return keys
		},
		args: func(args []any, _ func(store.Place) int) []any {
			for _, r := range records {
				args = encodeRecord(args, r)
			}
			for _, b := range buyers {
				args = encodeBuyer(args, b)
			}
			return args
		},
	})
	return err
}

func encodeBuyer(args []any, b store.BuyerEntry) []any {
	args = append(args, b.Key[:], b.Held, b.Sold, b.Live, len(b.Tags))
	for _, tag := range b.Tags {
		args = append(args, nameOf(tag))
	}
	return args
}

// AdoptEnd implements store.Rebuild.
func (s *Store) AdoptEnd(ctx context.Context, a store.Allotment, claim string, c store.Counters, sequence int64) error {
	_, _, err := s.step(ctx, a.Place, &op{
		script: "adopt_end",
		head: []any{
			claim, c.Epoch, c.Capacity, c.Available, c.Held, c.Confirming, c.Shrinking, c.Sold,
			sequence, c.Version, c.Feed, int(a.State), int(a.LateConfirm), a.HoldDuration.Milliseconds(),
			a.MaxHoldDuration.Milliseconds(), a.MaxPerHold, a.MaxPerBuyer, millis(a.OpensAt), millis(a.ClosesAt),
		},
	})
	return err
}
