package holds

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-inventory/holdfast/store"
)

// populate makes holds in every state, of several buyers, and returns them: some are to be purged, some out of
// lease.
func (f *fixture) populate() []store.Hold {
	f.t.Helper()
	var all []store.Hold
	ended := f.ended()
	for _, name := range slices.Sorted(maps.Keys(ended)) {
		all = append(all, ended[name])
	}
	f.advance(retention + holdTime)
	for i := range 4 {
		all = append(all, f.hold(fmt.Sprintf("live-%d", i%3), fmt.Sprint(i), int64(1+i%2)))
	}
	r := f.beginRequest("part", f.hold("part", "request", 3))
	r.Quantity = 1
	b, err := f.Begin(f.ctx(), r)
	must(f.t, err)
	return append(all, b[0].Hold)
}

// restart takes everything away and opens the allotment anew.
func (f *fixture) restart(capacity int64) {
	f.t.Helper()
	for where := range f.dump(f.place.Group) {
		if key, _, field := strings.Cut(where, " "); !field {
			must(f.t, f.raw.Del(f.ctx(), unplain(key)).Err())
		}
	}
	f.clock.Store(0)
	f.adopt(newAllotment(f.place, capacity, limited(8)), 1)
}

// damage spoils one key of the group: it is missing, of another type, or has a bad field.
func (f *fixture) damage(t *rapid.T) string {
	var keys []string
	content := map[string][]string{}
	for where := range f.dump(f.place.Group) {
		key, field, isField := strings.Cut(where, " ")
		if isField {
			content[key] = append(content[key], field)
			continue
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	shown := rapid.SampledFrom(keys).Draw(t, "key")
	key, c := unplain(shown), f.raw
	kind := c.Type(f.ctx(), key).Val()
	how := rapid.SampledFrom([]string{"delete", "list", "string", "set", "hash", "zset", "field", "field", "field", "drop"}).Draw(t, "damage")
	if how == "field" || how == "drop" {
		fields := content[shown]
		slices.Sort(fields)
		if len(fields) == 0 || kind != "hash" && kind != "zset" {
			return "nothing"
		}
		field := unplain(rapid.SampledFrom(fields).Draw(t, "field"))
		must(f.t, f.spoil(t, kind, key, field, how == "drop"))
		return fmt.Sprintf("%s %s %q", how, shown, field)
	}
	must(f.t, c.Del(f.ctx(), key).Err())
	switch how {
	case "list":
		must(f.t, c.RPush(f.ctx(), key, "x").Err())
	case "string":
		must(f.t, c.Set(f.ctx(), key, "x", 0).Err())
	case "set":
		must(f.t, c.SAdd(f.ctx(), key, "x").Err())
	case "hash":
		must(f.t, c.HSet(f.ctx(), key, "x", "x").Err())
	case "zset":
		must(f.t, c.ZAdd(f.ctx(), key, z("x")).Err())
	}
	return how + " " + shown
}

func (f *fixture) spoil(t *rapid.T, kind, key, field string, drop bool) error {
	switch {
	case kind == "hash" && drop:
		return f.raw.HDel(f.ctx(), key, field).Err()
	case kind == "zset" && drop:
		return f.raw.ZRem(f.ctx(), key, field).Err()
	case kind == "hash":
		value := rapid.SampledFrom([]string{
			"", "x", "nan", "inf", "-1.5", "\x91\x01", "\xc1", "\x93\x01\x02\x03", "\x93\x01\x02\xa1x", "\x93\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\x00\x00",
		}).Draw(t, "value")
		return f.raw.HSet(f.ctx(), key, field, value).Err()
	default:
		score := rapid.SampledFrom([]string{"0", "1", "-inf", "+inf", "1.5", "-1", "9999999999999"}).Draw(t, "score")
		return f.raw.Do(f.ctx(), "ZADD", key, score, field).Err()
	}
}

// once runs one script for one item and returns its status.
func (f *fixture) once(o *op) (status, error) {
	err := f.do(f.ctx(), laneCaller, o)
	var needed *store.AdoptNeeded
	if errors.As(err, &needed) {
		return statusAdopt, nil
	}
	if err != nil {
		return statusUnknown, err
	}
	return o.reply[0].status(), nil
}

// mending are the scripts that put an index right even where they do nothing else.
var mending = map[string]bool{"release": true, "claim": true, "purge": true, "due": true}

// oneCall draws a call of one script on one hold.
func (f *fixture) oneCall(t *rapid.T, h store.Hold) (string, func() (status, error)) {
	p, one := f.place, []store.HoldID{h.ID}
	ops := map[string]func() *op{
		"create": func() *op {
			r := f.request("live-1", "new", 2)
			return createOp(r, []store.Place{p}, []store.HoldID{store.NewHoldID(p.Allotment, "live-1", "new")})
		},
		"repeat": func() *op { return createOp(f.request(h.BuyerID, h.RequestID, h.Quantity), []store.Place{p}, one) },
		"begin":  func() *op { return beginOp(f.beginRequest("order", h), []store.Place{p}, math.MaxInt64) },
		"shrink": func() *op {
			r := f.shrinkRequest("new", 2)
			return holdsOp("shrink", p, []store.HoldID{r.ID}, r.Units, r.RequestID, 1000, 0)
		},
		"get": func() *op { return holdsOp("get", p, one) }, "extend": func() *op { return holdsOp("extend", p, one) },
		"cancel": func() *op { return holdsOp("cancel", p, one) }, "release": func() *op { return holdsOp("release", p, one) },
		"claim": func() *op { return holdsOp("claim", p, one, 1000) }, "purge": func() *op { return holdsOp("purge", p, one) },
		"finish": func() *op {
			return holdsOp("finish", p, one, 1, h.Quantity, "order", h.Token.Epoch, h.Token.Sequence)
		},
		"refuse": func() *op { return holdsOp("finish", p, one, 2, 0, "", h.Token.Epoch, h.Token.Sequence) },
		"availability": func() *op {
			return &op{script: "availability", places: []store.Place{p}, items: 1, bare: true}
		},
		"due": func() *op {
			return &op{script: "due", places: []store.Place{p}, items: 1, bare: true, head: []any{10}}
		},
		"leave": func() *op {
			return &op{script: "leave", places: []store.Place{p}, items: 1, bare: true, head: []any{0}}
		},
	}
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(ops))).Draw(t, "call")
	return name, func() (status, error) { return f.once(ops[name]()) }
}

// TestDamage: with keys missing, of a wrong type, or with bad fields, no script fails; one that
// refuses has changed nothing (but for mending an index); one that does its work keeps the sum; and an
// adopt puts all right.
func TestDamage(t *testing.T) {
	t.Parallel()
	f := setup(t, 30)
	rapid.Check(t, func(t *rapid.T) {
		f.restart(30)
		holds := f.populate()
		var done []string
		for range rapid.IntRange(1, 3).Draw(t, "damages") {
			done = append(done, f.damage(t))
		}
		for range rapid.IntRange(1, 6).Draw(t, "calls") {
			h := rapid.SampledFrom(holds).Draw(t, "hold")
			name, call := f.oneCall(t, h)
			before, off := f.dump(f.place.Group), f.off()
			got, err := call()
			if err != nil {
				t.Fatalf("%v: %s failed: %v", done, name, err)
			}
			after := f.dump(f.place.Group)
			if mending[name] && got != statusOK {
				before, after = withoutIndexes(f.place, before), withoutIndexes(f.place, after)
			}
			if diff := cmp.Diff(before, after); diff != "" && got != statusOK {
				t.Fatalf("%v: %s, status %d, changed the state (-before +after):\n%s", done, name, got, diff)
			}
			if now := f.off(); got == statusOK && now != off {
				t.Fatalf("%v: %s put the sum off from %d to %d", done, name, off, now)
			}
		}
		f.repair(t)
	})
	if n := f.logs.count("a script failed"); n != 0 {
		t.Errorf("%d scripts failed:\n%s", n, f.logs)
	}
}

func withoutIndexes(p store.Place, d dump) dump {
	rest := dump{}
	for where, value := range d {
		key, _, _ := strings.Cut(where, " ")
		if key != base(p, "d") && key != base(p, "l") && key != base(p, "e") && where != base(p, "c")+" time" {
			rest[where] = value
		}
	}
	return rest
}

// off is by how much the sum of the counters is off; 0 where they cannot be read.
func (f *fixture) off() int64 {
	s, err := f.state(f.place)
	if err != nil {
		return 0
	}
	c := s.counters
	return c["available"] + c["held"] + c["confirming"] + c["shrinking"] + c["sold"] - c["capacity"]
}

// repair adopts the allotment, keeping what survives, and checks that all fits together.
func (f *fixture) repair(t *rapid.T) {
	f.clock.Add(int64(lease)) // past another's claim
	past, _, err := f.AdoptBegin(f.ctx(), f.place, "repair", lease, true)
	if err != nil || past == nil {
		t.Fatalf("AdoptBegin: %v", err)
	}
	records, _ := f.survivors("repair")
	c := store.Counters{Capacity: 30}
	sold := map[string]int64{}
	for i, r := range records {
		switch {
		case r.State == store.Held:
			c.Held += r.Quantity
			records[i].Index = r.ExpireTime
		case r.State == store.Confirming && r.BuyerID == "":
			c.Shrinking += r.Units
			records[i].Index = r.Lease
		case r.State == store.Confirming:
			c.Confirming += r.Units
			records[i].Index = r.Lease
		case r.State == store.Sold && r.BuyerID != "":
			c.Sold += r.Pinned.Quantity
			sold[r.BuyerID] += r.Pinned.Quantity
			records[i].Index = f.now().Add(retention)
		default:
			records[i].Index = f.now().Add(retention)
		}
	}
	c.Available = c.Capacity - c.Held - c.Confirming - c.Shrinking - c.Sold
	f.rebuild("repair", 2, 1, records, f.buyersOf(records, sold), c)
	s, err := f.state(f.place)
	if err != nil {
		t.Fatalf("after an adopt: %v", err)
	}
	if wrong := s.wrong(); len(wrong) > 0 {
		t.Fatalf("after an adopt: %s", strings.Join(wrong, "; "))
	}
	if len(s.holds) != len(records) {
		t.Fatalf("after an adopt %d records, %d survived", len(s.holds), len(records))
	}
}
