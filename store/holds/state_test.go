package holds

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// dumpScript reads every key of a group, past the product: type, then fields and values. A MessagePack value is
// given as its parts, so that a difference can be read, and with its SHA-1, so that none is missed. What is
// not plain text is given in hexadecimal, marked by hexMark.
const dumpScript = `
local function plain(v)
  if string.find(v, '^[%w%-%._:{}~/]*$') then return v end
  return '%' .. string.gsub(v, '.', function(c) return string.format('%02x', string.byte(c)) end)
end
local function table1(v)
  local parts = {}
  for i = 1, #v do parts[i] = type(v[i]) == 'number' and string.format('%.17g', v[i]) or plain(tostring(v[i])) end
  return table.concat(parts, '|')
end
local function show(raw)
  local ok, v, beside = pcall(cmsgpack.unpack, raw)
  if not ok or type(v) ~= 'table' then return plain(raw) end
  return table1(v) .. (type(beside) == 'table' and ';' .. table1(beside) or '') .. '#' .. redis.sha1hex(raw)
end
local all = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local kind = redis.call('TYPE', key).ok
  local one = {plain(key), kind}
  if kind == 'hash' then
    local v = redis.call('HGETALL', key)
    for i = 1, #v, 2 do one[#one + 1] = plain(v[i]); one[#one + 1] = show(v[i + 1]) end
  elseif kind == 'zset' then
    for _, v in ipairs(redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')) do one[#one + 1] = plain(v) end
  elseif kind == 'string' then
    one[3], one[4] = plain(redis.call('GET', key)), tostring(redis.call('PEXPIRETIME', key))
  else
    one[3], one[4] = plain(redis.call('DUMP', key)), ''
  end
  all[#all + 1] = one
end
return all`

const hexMark = "%"

// unplain is what the script's plain was given.
func unplain(text string) string {
	coded, marked := strings.CutPrefix(text, hexMark)
	if !marked {
		return text
	}
	raw, err := hex.DecodeString(coded)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// dump is every key of a group with its content, as one text for each field.
type dump map[string]string

func (f *fixture) dump(group string) dump {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	values, err := f.raw.Eval(ctx, dumpScript, nil, "hf:{"+group+"}*").Slice()
	if err != nil {
		f.t.Fatalf("dump: %v", err)
	}
	d := dump{}
	for _, v := range values {
		one := v.([]any)
		key := one[0].(string)
		d[key] = one[1].(string)
		for i := 2; i+1 < len(one); i += 2 {
			d[key+" "+fmt.Sprint(one[i])] = fmt.Sprint(one[i+1])
		}
	}
	return d
}

// unchanged fails the test if the group's keys are not as they were.
func (f *fixture) unchanged(before dump, group, after string) {
	f.t.Helper()
	if diff := cmp.Diff(before, f.dump(group)); diff != "" {
		f.t.Errorf("%s changed the state (-before +after):\n%s", after, diff)
	}
}

// state is what the keys of an allotment say, read past the product.
type state struct {
	counters                 map[string]int64
	holds                    map[string]heldRecord
	deadlines, leases, ended map[string]int64
	buyers                   map[string]buyerTotals
	markers                  map[string]bool
}

type heldRecord struct {
	state                       store.HoldState
	qty, epoch, seq             int64
	created, span               int64
	buyer, request, cart, order string
	want, lease, pin            int64
}

type buyerTotals struct {
	held, sold, live int64
	tags             []string
}

var errNoState = errors.New("no state")

func (f *fixture) state(p store.Place) (*state, error) {
	d := f.dump(p.Group)
	s := &state{
		counters: map[string]int64{}, holds: map[string]heldRecord{},
		deadlines: map[string]int64{}, leases: map[string]int64{}, ended: map[string]int64{},
		buyers: map[string]buyerTotals{}, markers: map[string]bool{},
	}
	indexes := map[string]map[string]int64{base(p, "d"): s.deadlines, base(p, "l"): s.leases, base(p, "e"): s.ended}
	for where, value := range d {
		key, field, ok := strings.Cut(where, " ")
		key, field = unplain(key), unplain(field)
		if id, ok := markerHold(key); ok && id.Allotment == p.Allotment {
			s.markers[packTag(id.Tag)] = true
		}
		if !ok {
			continue
		}
		number, _ := strconv.ParseInt(value, 10, 64) // 0 where it is another text
		switch {
		case key == base(p, "c") && field == "counters":
			maps.Copy(s.counters, storetest.ReadCounters(unplain(value)))
		case key == base(p, "c"):
			s.counters[field] = number
		case indexes[key] != nil:
			indexes[key][field] = number
		case isBucket(key, base(p, "h")) && len(field) == rawTagBytes:
			s.holds[field] = readRecord(value)
		case isBucket(key, base(p, "h")):
			s.readEntry(field, value)
		}
	}
	if _, ok := s.counters["available"]; !ok {
		return nil, errNoState
	}
	return s, nil
}

// isBucket says whether key is a bucket of this kind, not one of another allotment of the group.
func isBucket(key, kind string) bool {
	number, ok := strings.CutPrefix(key, kind+":")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}

func (f *fixture) mustState() *state {
	f.t.Helper()
	s, err := f.state(f.place)
	must(f.t, err)
	return s
}

func readRecord(value string) heldRecord {
	text, _, _ := strings.Cut(value, "#")
	parts := strings.Split(text, "|")
	n := func(i int) int64 {
		if i >= len(parts) {
			return 0
		}
		v, _ := strconv.ParseInt(parts[i], 10, 64)
		return v
	}
	w := func(i int) string {
		if i >= len(parts) {
			return ""
		}
		return unpack(unplain(parts[i]))
	}
	seconds := 0.0
	if len(parts) > 5 {
		seconds, _ = strconv.ParseFloat(parts[5], 64)
	}
	return heldRecord{
		state: store.HoldState(n(0)), qty: n(1), epoch: n(2), seq: n(3), created: n(4), span: int64(math.Round(seconds * 1000)),
		buyer: w(6), request: w(7), cart: w(8), order: w(9), want: n(10), lease: n(11), pin: n(14),
	}
}

// readEntry notes a buyer's totals, unless they are nothing, and the record beside them.
func (s *state) readEntry(field, value string) {
	text, _, _ := strings.Cut(value, "#")
	entry, record, beside := strings.Cut(text, ";")
	parts := strings.Split(entry, "|")
	if len(parts) < 4 {
		s.buyers[field] = buyerTotals{held: -1, sold: -1, live: -1} // damaged
		return
	}
	if beside {
		s.holds[unplain(parts[3])+field] = readRecord(record)
	}
	n := func(i int) int64 { v, _ := strconv.ParseInt(parts[i], 10, 64); return v }
	b := buyerTotals{held: n(0), sold: n(1), live: n(2)}
	for _, name := range parts[4:] {
		b.tags = append(b.tags, unplain(name)+field)
	}
	if !beside || b.held != 0 || b.sold != 0 || b.live != 0 || b.tags != nil {
		s.buyers[field] = b
	}
}

// buyerKey is the field of a buyer's entry.
func (f *fixture) buyerKey(buyer string) store.BuyerKey {
	return store.NewBuyerKey(f.place.Allotment, buyer)
}

func fieldOf(k store.BuyerKey) string { return string(k[:]) }

// buyer is what the entry of a buyer says; false if there is none, or nothing in it.
func (f *fixture) buyer(name string) (buyerTotals, bool) {
	b, ok := f.mustState().buyers[fieldOf(f.buyerKey(name))]
	return b, ok
}

// wrong lists what does not fit together: R6, negative numbers, counters that are not the sum of the
// holds, holds that are in another index than their state says, buyers' totals.
func (s *state) wrong() (found []string) {
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	c := s.counters
	for _, name := range []string{"available", "held", "confirming", "shrinking", "sold", "capacity"} {
		if c[name] < 0 {
			say("%s is %d", name, c[name])
		}
	}
	if sum := c["available"] + c["held"] + c["confirming"] + c["shrinking"] + c["sold"]; sum != c["capacity"] {
		say("R6: %v", c)
	}
	sums, buyers := map[string]int64{}, map[string]*buyerTotals{}
	for tag, h := range s.holds {
		index, score, other := s.ended, int64(0), []map[string]int64{s.deadlines, s.leases}
		units, counter := h.pin, "confirming"
		switch h.state {
		case store.Held:
			index, score, other = s.deadlines, h.created+h.span, []map[string]int64{s.ended, s.leases}
			units, counter = h.qty, "held"
		case store.Confirming:
			index, score, other = s.leases, h.lease, []map[string]int64{s.ended, s.deadlines}
			if h.buyer == "" {
				counter = "shrinking"
			}
		default:
			units, counter = 0, ""
		}
		if got, ok := index[tag]; !ok || score != 0 && got != score {
			say("hold %s in state %d has score %d in its index (found %v), want %d", tag, h.state, got, ok, score)
		}
		for _, o := range other {
			if _, ok := o[tag]; ok {
				say("hold %s in state %d is in a wrong index", tag, h.state)
			}
		}
		if s.markers[tag] && h.state != store.Held {
			say("hold %s in state %d has a marker", tag, h.state)
		}
		sums[counter] += units
		if h.buyer != "" && counter != "" {
			key := tag[nameBytes:]
			if buyers[key] == nil {
				buyers[key] = &buyerTotals{}
			}
			buyers[key].held += units
			buyers[key].live++
		}
	}
	for _, name := range []string{"held", "confirming", "shrinking"} {
		if sums[name] != c[name] {
			say("%s is %d, the holds make %d", name, c[name], sums[name])
		}
	}
	return append(found, s.wrongBuyers(buyers)...)
}

func (s *state) wrongBuyers(want map[string]*buyerTotals) (found []string) {
	var sold int64
	for name, b := range s.buyers {
		w := want[name]
		if w == nil {
			w = &buyerTotals{}
		}
		if b.held != w.held || b.live != w.live || b.sold < 0 || b.held == 0 && b.sold == 0 && b.live == 0 {
			found = append(found, fmt.Sprintf("buyer %x: %+v, the holds make %+v", name, b, *w))
		}
		for _, tag := range b.tags {
			if h, ok := s.holds[tag]; !ok || h.state != store.Held && h.state != store.Confirming {
				found = append(found, fmt.Sprintf("buyer %x names %x, which is not live", name, tag))
			}
		}
		sold += b.sold
	}
	for name := range want {
		if _, ok := s.buyers[name]; !ok {
			found = append(found, fmt.Sprintf("no entry of buyer %x", name))
		}
	}
	if sold != s.counters["sold"] {
		found = append(found, fmt.Sprintf("sold is %d, the buyers make %d", s.counters["sold"], sold))
	}
	return found
}

// want checks the counters named, as "available 3, held 2".
func (f *fixture) want(text string) {
	f.t.Helper()
	f.wantAt(f.place, text)
}

func (f *fixture) wantAt(p store.Place, text string) {
	f.t.Helper()
	s, err := f.state(p)
	must(f.t, err)
	for part := range strings.SplitSeq(text, ", ") {
		name, number, _ := strings.Cut(part, " ")
		want, err := strconv.ParseInt(number, 10, 64)
		must(f.t, err)
		got, ok := s.counters[name]
		if !ok {
			f.t.Fatalf("no counter %q among %v", name, slices.Collect(maps.Keys(s.counters)))
		}
		if got != want {
			f.t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}

// setCounter changes a counter past the product.
func (f *fixture) setCounter(name string, value int64) {
	f.t.Helper()
	storetest.SetCounter(f.ctx(), f.t, f.raw, base(f.place, "c"), name, value)
}

// setField changes what stands beside the counters past the product: format, and what an adopt notes.
func (f *fixture) setField(field string, value any) {
	f.t.Helper()
	must(f.t, f.raw.HSet(f.ctx(), base(f.place, "c"), field, value).Err())
}

func (f *fixture) makeForeign() error {
	return storetest.MakeForeign(f.ctx(), f.raw, base(f.place, "c"))
}

// now is the time by the clock of the scripts.
func (f *fixture) now() time.Time {
	f.t.Helper()
	now, err := f.raw.Time(f.ctx()).Result()
	must(f.t, err)
	return now.Add(time.Duration(f.clock.Load()))
}

// stat is a number of INFO, such as "used_memory".
func stat(t testing.TB, c *redis.Client, section, name string) float64 {
	t.Helper()
	info, err := c.Info(context.Background(), section).Result()
	must(t, err)
	for line := range strings.SplitSeq(info, "\r\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			number, err := strconv.ParseFloat(value, 64)
			must(t, err)
			return number
		}
	}
	t.Fatalf("INFO %s has no %s", section, name)
	return 0
}

// z is an entry of an index that is due.
func z(member string) redis.Z { return redis.Z{Score: 1, Member: member} }

// isOf says whether a key of a dump belongs to this allotment.
func isOf(where string, p store.Place) bool {
	key, _, _ := strings.Cut(where, " ")
	key = unplain(key)
	if id, ok := markerHold(key); ok {
		return id.Allotment == p.Allotment
	}
	for _, kind := range []string{"c", "d", "l", "e"} {
		if key == base(p, kind) {
			return true
		}
	}
	return isBucket(key, base(p, "h")) || key == hintKey(p.Allotment)
}

// damageBuyer overwrites a buyer's entry, and so the record beside it.
func (f *fixture) damageBuyer(buyer string, value any) {
	f.t.Helper()
	key := f.buyerKey(buyer)
	must(f.t, f.raw.HSet(f.ctx(), holdsKey(f.place, key.Bucket(f.place.Buckets)), fieldOf(key), value).Err())
}

// overwrite sets a hold's record, wherever it is, past the product; an empty value takes it away.
const overwrite = `
local key, field, tag, value = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local e = redis.call('HGET', key, field)
if e then e = cmsgpack.unpack(e) end
if e and e[4] .. field == tag then
  if value == '' then e[4] = '' end
  return redis.call('HSET', key, field, cmsgpack.pack(e) .. value)
end
if value == '' then return redis.call('HDEL', key, tag) end
return redis.call('HSET', key, tag, value)`

func (f *fixture) overwrite(p store.Place, id store.HoldID, value any) {
	f.t.Helper()
	key := id.BuyerKey()
	must(f.t, f.raw.Eval(f.ctx(), overwrite, []string{holdsKey(p, id.Bucket(p.Buckets))}, key[:], packTag(id.Tag), value).Err())
}

// damageRecord overwrites a hold's record.
func (f *fixture) damageRecord(id store.HoldID, value any) {
	f.t.Helper()
	f.overwrite(f.place, id, value)
}

// removeRecord takes a hold's record away.
func (f *fixture) removeRecord(p store.Place, id store.HoldID) {
	f.t.Helper()
	f.overwrite(p, id, "")
}

// broken takes the state away that the test damaged, so that it is not checked.
func (f *fixture) broken() {
	f.t.Helper()
	must(f.t, f.raw.Del(f.ctx(), base(f.place, "c")).Err())
}
