package holds

import (
	"fmt"
	"math"
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
)

// Numbers of any size pass through every script exactly: Lua's numbers are doubles, and their texts
// must not be rounded.
func TestBigNumbers(t *testing.T) {
	t.Parallel()
	for _, capacity := range []int64{store.MaxCapacity, 1<<53 - 1} {
		t.Run(fmt.Sprint(capacity), func(t *testing.T) {
			t.Parallel()
			f := setup(t, 1000)
			big := store.Place{Allotment: f.place.Allotment + "-big", Group: f.place.Allotment + "-big", Buckets: 16}
			f.place = f.allotAt(big, capacity, func(r *store.Rules) { r.MaxPerHold = capacity })
			const sold, part = 123_456_789, 23_456_789
			most := min(capacity-1, math.MaxUint32) // of one hold
			h := f.hold("buyer", "request", most)
			_, err := f.Create(f.ctx(), f.request("b", "request", most+1))
			if most == capacity-1 {
				if no := refusal(t, err, store.AllHeld); no.Held != capacity-1 || no.Capacity != capacity {
					t.Errorf("refusal %+v", no)
				}
			} else {
				invalidField(t, err, "quantity")
			}
			if got := f.get(h); got.Quantity != most {
				t.Errorf("quantity %d, want %d", got.Quantity, most)
			}
			r := f.beginRequest("order", h)
			r.Quantity = sold
			b, err := f.Begin(f.ctx(), r)
			must(t, err)
			f.want(fmt.Sprintf("confirming %d, available %d", most, capacity-most))
			f.finish(h, soldVerdict(b[0].Hold))
			f.want(fmt.Sprintf("sold %d, available %d", sold, capacity-sold))
			must(t, f.apply(cancelled(1, part, "buyer")))
			shrunk := f.shrink("r", capacity-sold+part)
			f.want(fmt.Sprintf("available 0, shrinking %d", capacity-sold+part))
			f.finish(shrunk.Hold, soldVerdict(shrunk.Hold))
			f.want(fmt.Sprintf("available 0, shrinking 0, capacity %d, sold %d", sold-part, sold-part))
			must(t, f.apply(grow(2, capacity-(sold-part))))
			f.want(fmt.Sprintf("capacity %d", capacity))
			if c := f.counters(f.place)[0]; c.Capacity != capacity || c.Sold != sold-part || c.Off() != 0 {
				t.Errorf("counters %+v", c)
			}
		})
	}
}

// A token's numbers, the version and the feed number keep rising past 2^31.
func TestBigSequences(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	const big = 1 << 40
	for _, field := range []string{"epoch", "sequence", "version", "feed"} {
		f.setCounter(field, big)
	}
	h := f.hold("buyer", "request", 1)
	if want := (store.Token{Epoch: big, Sequence: big + 1}); h.Token != want || f.get(h).Token != want {
		t.Errorf("token %+v, want %+v", h.Token, want)
	}
	f.wantFeed(big, big+1, grow(big+1, 1))
	r := f.beginRequest("order", h)
	r.Token = &h.Token
	b, err := f.Begin(f.ctx(), r)
	must(t, err)
	if b[0].Epoch != big {
		t.Errorf("begun under %d", b[0].Epoch)
	}
	f.finish(h, soldVerdict(b[0].Hold))
	f.want(fmt.Sprintf("version %d, sold 1", int64(big+4)))
}

// A Redis that was wrong may leave counters below 0: what is free is then less than nothing, never more, and
// the numbers are told as they are.
func TestBelowZero(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 3)
	b := f.begin("order", h)
	f.setCounter("available", -2)
	f.setCounter("capacity", 1)
	before := f.dump(f.place.Group)
	_, err := f.Create(f.ctx(), f.request("x", "request", 1))
	refusal(t, err, store.AllHeld)
	_, err = f.Shrink(f.ctx(), f.shrinkRequest("r", 1))
	if no := refusal(t, err, store.CapacityInUse); no.SmallestCapacity != 1 {
		t.Errorf("smallest capacity %d, want 1", no.SmallestCapacity)
	}
	f.unchanged(before, f.place.Group, "a refusal")
	if c := f.counters(f.place)[0]; c.Available != -2 {
		t.Errorf("available %d, want -2: it is clamped in answers to callers, not here", c.Available)
	}
	f.finish(h, soldVerdict(b[0].Hold))
	f.want("sold 3, available -2")
	_, err = f.Create(f.ctx(), f.request("x", "request", 1))
	if no := refusal(t, err, store.SoldOut); no.Sold != 3 || no.Capacity != 1 {
		t.Errorf("refusal %+v", no)
	}
	f.broken()
}

// The texts that a decoder may meet instead of what a script returns.
func TestDecodersRefuseNonsense(t *testing.T) {
	t.Parallel()
	p := store.Place{Allotment: "show", Group: "show", Buckets: 16}
	good := []any{int64(1), []any{[]any{int64(0), int64(1)}}, []any{[]any{int64(0)}}}
	newOne := func() *call {
		c := newCall("get")
		c.add(&op{script: "get", places: []store.Place{p}, items: 1})
		return c
	}
	if err := newOne().decode(good); err != nil {
		t.Errorf("decode of a good reply: %v", err)
	}
	for name, reply := range map[string]any{
		"nil": nil, "a text": "OK", "two parts": good[:2], "no facts": []any{int64(1), []any{}, good[2]},
		"no results": []any{int64(1), good[1], []any{}}, "too many": []any{int64(1), good[1], []any{[]any{}, []any{}}},
		"facts of another type": []any{int64(1), "x", good[2]},
	} {
		if err := newOne().decode(reply); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
	for name, values := range map[string]result{"nothing": nil, "a text": {"0"}, "a list": {[]any{}}} {
		if got := values.status(); got != statusUnknown {
			t.Errorf("status of %s is %d, want unknown", name, got)
		}
		if got := decodeFacts(values); got.gate != statusUnknown {
			t.Errorf("gate of %s is %d, want unknown", name, got.gate)
		}
		if err := new(Store).holdError(values, p, store.NewHoldID("show", "b", "r")); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
	if _, err := new(Store).holdsOf([]store.Place{p}, result{int64(0)}, 0); err == nil {
		t.Error("a result without its hold was read")
	}
	if _, err := decodeRecord(p, []any{"tag", int64(1)}, 0); err == nil {
		t.Error("a hold of two places was read")
	}
}
