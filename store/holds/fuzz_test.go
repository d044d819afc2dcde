package holds

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/batch"
)

// FuzzReplies: whatever Redis answers for a script, every call of the Store ends, without a panic, and what it returns has as
// many parts as were asked for. The input says which call is made, and what each script answers.
func FuzzReplies(f *testing.F) {
	for n := range len(replyCalls()) {
		f.Add(uint8(n), []byte{})
		for _, status := range []status{statusOK, statusAgain, statusDamaged, statusBuyerLimit, statusAllHeld, statusKnown, statusCancelled, statusInUse} {
			f.Add(uint8(n), seedReply(status))
		}
	}
	f.Fuzz(func(t *testing.T, number uint8, data []byte) {
		calls := replyCalls()
		if err := calls[int(number)%len(calls)](answering(t, &replies{data: data})); err != nil {
			t.Error(err)
		}
	})
}

// seedReply has well-formed replies, whose results have this status and then a line, a hold and some numbers.
func seedReply(s status) []byte {
	hold := []byte{kindList, 17, kindText, rawTagBytes}
	hold = append(hold, []byte("0123456789abcdef01234567")...)
	for range 6 {
		hold = append(hold, kindNumber, 1)
	}
	for _, text := range []string{"buyer", "request", "", "order"} {
		hold = append(append(hold, kindText, byte(len(text))), text...)
	}
	hold = append(hold, kindNumber, 1, kindNumber, 2, kindText, 0, kindNumber, 0, kindNumber, 1, kindNumber, 9)
	result := append([]byte{kindList, 4, kindNumber, byte(s), kindNumber, 1}, hold...)
	result = append(result, kindList, 1, kindText, 3, 'a', 'b', 'c')
	short := []byte{kindList, 1, kindNumber, byte(s)}
	reply := []byte{framed, kindFacts, 7, kindFacts, 7}
	return append(append(append(reply, result...), framed, kindFacts, 7), short...)
}

// answering is a Store of which no call reaches a server: each is answered by the next of the replies.
func answering(t *testing.T, r *replies) *Store {
	t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	one := &fleet{target: &target{kind: standalone}}
	one.view.Store(&view{masters: []*node{{addr: "none"}}})
	s := &Store{timeout: time.Minute, retention: DefaultRetention, log: log, fleet: one}
	s.lanes = batch.NewLanes[queue, flow](batch.Limits{Batch: batchMost, Flow: groupWeight, Lane: laneMost}, (*op).weight, func(_ queue, ops []*op) {
		for _, c := range s.merge(ops) {
			c.encode(0, s.retention)
			if err := c.decode(r.next(c)); err != nil { // not decodeSafely: a panic is what is looked for
				fail([]*call{c}, unavailable(err))
			}
			s.spent.note(c)
			for _, o := range c.ops {
				close(o.done)
			}
		}
	})
	var err error
	if s.metrics, err = newMetrics(noop.NewMeterProvider(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// replies makes replies of bytes. When they have been used up, replies have no parts, which every call takes for trouble.
type replies struct{ data []byte }

// The kinds of a value; the next byte is its size.
const (
	kindNil = iota
	kindNumber
	kindNegative
	kindBig
	kindText
	kindDigits
	kindFacts
	kindList
	kindCount
)

const framed = 1 // a reply that begins with it has as many facts and results as were asked for

func (r *replies) byte() byte {
	if len(r.data) == 0 {
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

func (r *replies) next(c *call) any {
	if len(r.data) == 0 {
		return nil
	}
	if r.byte()%4 != framed {
		return r.value(4)
	}
	facts, results := make([]any, len(c.places)), make([]any, c.results())
	for i := range facts {
		facts[i] = r.value(1)
	}
	for i := range results {
		results[i] = r.value(4)
	}
	return []any{int64(1_000_000), facts, results}
}

func (r *replies) value(depth int) any {
	kind, size := r.byte()%kindCount, r.byte()
	switch kind {
	case kindNumber:
		return int64(size)
	case kindNegative:
		return -int64(size)
	case kindBig:
		return int64(1)<<(size%64) - 1
	case kindText:
		text := r.data[:min(int(size), len(r.data))]
		r.data = r.data[len(text):]
		return string(text)
	case kindDigits:
		return fmt.Sprint(size)
	case kindFacts:
		text := make([]byte, identityBytes, factsBytes)
		for range 19 {
			text = binary.BigEndian.AppendUint64(text, uint64(size))
		}
		return string(text)
	case kindList:
		if depth == 0 {
			return nil
		}
		list := make([]any, 0, size%32)
		for range size % 32 {
			list = append(list, r.value(depth-1))
		}
		return list
	default:
		return nil
	}
}

// replyCalls are all calls of a Store that read a script's reply. Each returns what is wrong with what came back; an error of
// the Store is not.
func replyCalls() []func(*Store) error {
	p, q := store.Place{Allotment: "a", Group: "g", Buckets: 1}, store.Place{Allotment: "b", Group: "g", Buckets: 1}
	ids := []store.HoldID{store.NewHoldID("a", "buyer", "request"), store.NewHoldID("b", "buyer", "request")}
	one, both := store.PlacedHold{Place: p, ID: ids[0]}, []store.PlacedHold{{Place: p, ID: ids[0]}, {Place: q, ID: ids[1]}}
	single := store.CreateRequest{BuyerID: "buyer", RequestID: "request", Lines: []store.PlacedLine{{Place: p, Quantity: 1}}}
	cart := single
	cart.Lines = append(cart.Lines, store.PlacedLine{Place: q, Quantity: 2})
	ctx := context.Background()
	return []func(*Store) error{
		func(s *Store) error { return parts[store.Hold](1)(s.Create(ctx, single)) },
		func(s *Store) error { return parts[store.Hold](2)(s.Create(ctx, cart)) },
		func(s *Store) error { return anything(s.Get(ctx, one)) },
		func(s *Store) error { return anything(s.Extend(ctx, one)) },
		func(s *Store) error { return anything(s.Cancel(ctx, one)) },
		func(s *Store) error { return parts[store.Counters](2)(s.Counters(ctx, []store.Place{p, q})) },
		func(s *Store) error {
			return parts[store.Begun](1)(s.Begin(ctx, store.BeginRequest{Holds: both[:1], OrderID: "o"}))
		},
		func(s *Store) error {
			return parts[store.Begun](2)(s.Begin(ctx, store.BeginRequest{Holds: both, OrderID: "o"}))
		},
		func(s *Store) error {
			return anything(nil, s.Finish(ctx, []store.FinishLine{{PlacedHold: one, Verdict: store.Verdict{Kind: store.VerdictSold}}}))
		},
		func(s *Store) error { return anything(s.Claim(ctx, p, ids, lease)) },
		func(s *Store) error { return anything(s.Shrink(ctx, store.ShrinkRequest{PlacedHold: one, Units: 1})) },
		func(s *Store) error { return parts[store.Work](2)(s.Due(ctx, []store.Place{p, q}, 10)) },
		func(s *Store) error { return anything(s.Release(ctx, p, ids, store.LapseBySweep)) },
		func(s *Store) error { return anything(nil, s.Purge(ctx, p, ids)) },
		func(s *Store) error {
			_, _, err := s.Apply(ctx, p, []store.Change{{Number: 1}})
			return anything(nil, err)
		},
		func(s *Store) error { return anything(nil, s.leave(ctx, p, 1, 1, 0, 1)) },
		func(s *Store) error {
			_, _, err := s.claim(ctx, p, "claim", lease, false)
			return anything(nil, err)
		},
		func(s *Store) error {
			return parts[store.Part](2)(s.Scan(ctx, p, "claim", []int{0, 1}, []string{"", ""}))
		},
		func(s *Store) error { return anything(nil, s.AdoptWrite(ctx, p, "claim", nil, nil)) },
	}
}

var errParts = errors.New("not as many parts as were asked for")

func parts[Part any](n int) func([]Part, error) error {
	return func(got []Part, err error) error {
		if err == nil && len(got) != n {
			return fmt.Errorf("%w: %d, not %d", errParts, len(got), n)
		}
		return nil
	}
}

func anything(any, error) error { return nil }
