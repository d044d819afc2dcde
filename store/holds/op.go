package holds

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// op is one caller's request to one script. Ops of one script are merged into one call, unless they have arguments in front
// of the list (head).
type op struct {
	script string
	places []store.Place // one group; the facts of the reply are in this order
	head   []any         // arguments in front of the number of items; such an op is called alone
	bare   bool          // the script takes no list of items; without a head, its results are those of the call's allotments
	past   bool          // a shut gate does not matter: a step of an adopt
	items  int           // items it adds to the script's list, results it gets
	keys   func(keys []string) []string
	args   func(args []any, number func(store.Place) int) []any
	create *createItem // instead of keys and args

	to     *node // where a server sent it that did not run it; nil: to the server that has the group
	asking bool  // it must be announced there
	again  bool  // it was not run, and is to be sent there
	sent   int   // times that it was not run

	ctx   context.Context //nolint:containedctx // of the caller that waits: a dead one is dropped from the queue
	done  chan struct{}   // closed when the rest is set
	err   error
	now   int64 // ms, by the clock of Redis
	facts []facts
	reply []result
	due   []any // the tags of the holds to be released first, if it is to be called again
}

func (o *op) flow() flow { return flow{o.script, o.places[0].Group} }

// alone says that o needs a call of its own.
func (o *op) alone() bool { return len(o.head) > 0 }

// shared says that what o asks is the same whoever asks it: there is one result for each allotment of a call.
func (o *op) shared() bool { return o.bare && !o.alone() }

// weight is how many lines o has, and what a call weighs if it needs its own.
func (o *op) weight() int {
	lines := max(1, o.items, len(o.places))
	if o.alone() {
		return lines + callWeight
	}
	return lines
}

// result is what a script said of one item: a status, then values.
type result []any

func (r result) status() status { return statusAt(r) }
func (r result) int(i int) int64 {
	return integer(at(r, i))
}
func (r result) text(i int) string {
	s, _ := at(r, i).(string)
	return s
}
func (r result) list(i int) []any {
	l, _ := at(r, i).([]any)
	return l
}

// from is what comes at i and after it; nothing if the result is shorter.
func (r result) from(i int) result { return r[min(i, len(r)):] }

// statusAt is the status that values begin with; unknown if they do not begin with a number.
func statusAt(values []any) status {
	if n, ok := at(values, 0).(int64); ok {
		return status(n)
	}
	return statusUnknown
}

func at(values []any, i int) any {
	if i < len(values) {
		return values[i]
	}
	return nil
}

// integer reads a number of a reply: scripts return integers, and HSCAN cursors and the like as text.
func integer(value any) int64 {
	switch v := value.(type) {
	case int64:
		return v
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err == nil {
			return n
		}
	}
	return 0
}

// call is one EVALSHA for ops of one script.
type call struct {
	script string
	ops    []*op
	places []store.Place
	number map[string]int // allotment -> its number in the call
	lines  int
	facts  []facts // of places, by the reply

	asking bool // of its ops
	brief  bool // create is given no markers and no ids: nothing is likely to be granted
}

func newCall(script string) *call { return &call{script: script, number: map[string]int{}} }

func (c *call) add(o *op) {
	c.ops = append(c.ops, o)
	c.lines += len(o.places)
	for _, p := range o.places {
		if _, known := c.number[p.Allotment]; !known {
			c.places = append(c.places, p)
			c.number[p.Allotment] = len(c.places)
		}
	}
}

// encode gives KEYS and ARGV as prelude.lua describes them.
func (c *call) encode(offset, retention time.Duration) ([]string, []any) {
	keys := make([]string, 0, 4*len(c.places)+3*len(c.ops))
	for _, p := range c.places {
		keys = allotmentKeys(keys, p)
	}
	args := make([]any, 0, 4+8*len(c.ops))
	args = append(args, offset.Milliseconds(), retention.Milliseconds(), len(c.places))
	if c.script == createScript {
		return c.encodeCreate(keys, args)
	}
	args = append(args, c.ops[0].head...)
	if !c.ops[0].bare {
		items := 0
		for _, o := range c.ops {
			items += o.items
		}
		args = append(args, items)
	}
	number := func(p store.Place) int { return c.number[p.Allotment] }
	for _, o := range c.ops {
		if o.keys != nil {
			keys = o.keys(keys)
		}
		if o.args != nil {
			args = o.args(args, number)
		}
	}
	return keys, args
}

// decodeSafely makes a panic over a reply that nobody expected an error of this call alone.
func (c *call) decodeSafely(value any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("script %s: panic: %v", c.script, p)
		}
	}()
	return c.decode(value)
}

// decode hands the reply of the call out to its ops.
func (c *call) decode(value any) error {
	reply, ok := value.([]any)
	if !ok || len(reply) != 3 {
		return fmt.Errorf("script %s: reply is %T, want three parts", c.script, value)
	}
	now := integer(reply[0])
	rawFacts, _ := reply[1].([]any)
	results, _ := reply[2].([]any)
	all := make([]facts, len(rawFacts))
	for i, raw := range rawFacts {
		all[i] = decodeFacts(raw)
	}
	wanted := c.results()
	if len(all) != len(c.places) || len(results) != wanted {
		return fmt.Errorf("script %s: reply has %d facts and %d results, want %d and %d",
			c.script, len(all), len(results), len(c.places), wanted)
	}
	c.facts = all
	due := make([][]any, len(c.places))
	for _, o := range c.ops {
		o.now = now
		for _, p := range o.places {
			o.facts = append(o.facts, all[c.number[p.Allotment]-1])
		}
		if o.shared() {
			for _, p := range o.places {
				o.reply = append(o.reply, resultOf(results[c.number[p.Allotment]-1]))
			}
			continue
		}
		for range o.items {
			o.reply, results = append(o.reply, resultOf(results[0])), results[1:]
		}
		c.nameDue(o, due)
	}
	return nil
}

// nameDue notes what stands in the way of o. The script create names the due holds of an allotment once in a call; those of
// a buyer at its limit are a part of them only, and never more.
func (c *call) nameDue(o *op, due [][]any) {
	if len(o.reply) != 1 || o.reply[0].status() != statusAgain {
		return
	}
	line := o.reply[0].int(1) - 1
	if line < 0 || line >= int64(len(o.places)) {
		return
	}
	of := c.number[o.places[line].Allotment] - 1
	o.due = o.reply[0].from(2)
	if len(o.due) > len(due[of]) {
		due[of] = o.due
	} else if len(o.due) == 0 {
		o.due = due[of]
	}
}

// results is how many the script gives.
func (c *call) results() int {
	if c.ops[0].shared() {
		return len(c.places)
	}
	wanted := 0
	for _, o := range c.ops {
		wanted += o.items
	}
	return wanted
}

// resultOf reads a result. The script create gives those that are many as a number: the sequence of the
// only new hold, or a status, below 0, of the only line.
func resultOf(value any) result {
	switch v := value.(type) {
	case []any:
		return v
	case int64:
		if v < 0 {
			return result{-v, int64(1)}
		}
		return result{int64(statusOK), v}
	}
	return nil
}

// facts are an allotment's numbers after a script, as prelude.lua returns them.
type facts struct {
	gate                                                          status
	server                                                        string // its identity
	epoch, capacity, available, held, confirming, shrinking, sold int64
	version, feed, state, opens, closes, perHold, perBuyer, next  int64
	hold                                                          int64
}

// The facts of an allotment are its counters as prelude.lua packs them, of which the first part is the server's identity, and
// its next deadline.
const (
	identityBytes = 40
	factsBytes    = identityBytes + 19*8
)

// decodeFacts reads the text, or the gate that is shut.
func decodeFacts(value any) facts {
	text, _ := value.(string)
	if len(text) != factsBytes {
		return facts{gate: statusAt([]any{value})}
	}
	numbers := text[identityBytes:]
	n := func(i int) int64 { return int64(binary.BigEndian.Uint64([]byte(numbers[8*i : 8*i+8]))) } //nolint:gosec // as it was packed
	return facts{
		gate: statusOK, server: text[:identityBytes], epoch: n(0), capacity: n(1), available: n(2), held: n(3), confirming: n(4), shrinking: n(5),
		sold: n(6), version: n(8), feed: n(9), state: n(10), hold: n(12), perHold: n(14), perBuyer: n(15), opens: n(16),
		closes: n(17), next: n(18),
	}
}

// shown is what callers are told of units held and sold.
func (f facts) shown() (held, sold int64) {
	return store.Shown(f.held+f.confirming+f.shrinking, f.sold)
}

func (f facts) counters(p store.Place, now int64) store.Counters {
	state := store.AllotmentState(f.state)
	if f.closes != 0 && f.closes <= now {
		state = store.StateClosed
	}
	return store.Counters{
		Place: p, Epoch: f.epoch, Capacity: f.capacity, Available: f.available, Held: f.held,
		Confirming: f.confirming, Shrinking: f.shrinking, Sold: f.sold, Version: f.version, Feed: f.feed,
		State: state, NextLapse: instant(f.next), Now: instant(now),
	}
}

// instant is the time of so many ms since 1970; 0 is the zero time.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// millis is the reverse of instant.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
