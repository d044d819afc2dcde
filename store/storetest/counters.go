package storetest

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// An allotment's counters in Redis are one packed text. Tests that look at it or damage it do so here, without the product's code.

const identityBytes = 40

var counterNames = []string{
	"epoch", "capacity", "available", "held", "confirming", "shrinking", "sold", "sequence", "version", "feed", "state",
	"late", "hold", "longest", "perhold", "perbuyer", "opens", "closes",
}

// setCounter changes the value at a place of the text, if there is one.
const setCounter = `
local layout = '>c40' .. string.rep('i8', 18)
local text, place = redis.call('HGET', KEYS[1], 'counters'), tonumber(ARGV[1])
if not text then return 0 end
local values = {struct.unpack(layout, text)}
if ARGV[2] == 'add' then
  values[place] = values[place] + tonumber(ARGV[3])
else
  values[place] = place > 1 and tonumber(ARGV[3]) or ARGV[3]
end
return redis.call('HSET', KEYS[1], 'counters', struct.pack(layout, unpack(values, 1, 19)))`

// ReadCounters returns the numbers of such a text by their names; none if it is not one.
func ReadCounters(text string) map[string]int64 {
	numbers := map[string]int64{}
	if len(text) != identityBytes+8*len(counterNames) {
		return numbers
	}
	for i, name := range counterNames {
		numbers[name] = int64(binary.BigEndian.Uint64([]byte(text[identityBytes+8*i:]))) //nolint:gosec // as it was packed
	}
	return numbers
}

// Counters returns the numbers at an allotment's key of counters by their names; none if there are none.
func Counters(ctx context.Context, t testing.TB, c redis.Cmdable, key string) map[string]int64 {
	t.Helper()
	text, err := c.HGet(ctx, key, "counters").Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // never wrapped
		t.Fatalf("counters of %s: %v", key, err)
	}
	return ReadCounters(text)
}

// SetCounter sets one of the numbers, if there are any.
func SetCounter(ctx context.Context, t testing.TB, c redis.Cmdable, key, name string, value int64) {
	t.Helper()
	changeCounter(ctx, t, c, key, name, "set", value)
}

// AddToCounter adds to one of the numbers, if there are any.
func AddToCounter(ctx context.Context, t testing.TB, c redis.Cmdable, key, name string, delta int64) {
	t.Helper()
	changeCounter(ctx, t, c, key, name, "add", delta)
}

func changeCounter(ctx context.Context, t testing.TB, c redis.Cmdable, key, name, how string, value int64) {
	t.Helper()
	place := slices.Index(counterNames, name)
	if place < 0 {
		t.Fatalf("no counter %q among %v", name, counterNames)
	}
	if err := c.Eval(ctx, setCounter, []string{key}, place+2, how, value).Err(); err != nil {
		t.Fatalf("counters of %s: %v", key, err)
	}
}

// MakeForeign makes the counters those of another server, if there are any, and so an adopt that is under way. In a
// pipeline it is done with the rest.
func MakeForeign(ctx context.Context, c redis.Cmdable, key string) error {
	const another = "0123456789abcdef0123456789abcdef01234567"
	if err := c.HSet(ctx, key, "adoptee", another).Err(); err != nil {
		return err
	}
	return c.Eval(ctx, setCounter, []string{key}, 1, "set", another).Err()
}
