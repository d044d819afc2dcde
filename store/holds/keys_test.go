package holds

import (
	"context"
	"encoding/base64"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/holdfast-inventory/holdfast/store"
)

// The numbers of statuses, states and reasons in the scripts are those of the Go code.
func TestNumbersAreTheSame(t *testing.T) {
	t.Parallel()
	prelude, err := os.ReadFile("../../lua/prelude.lua")
	must(t, err)
	source := string(prelude)
	table := regexp.MustCompile(`(?s)local S = \{(.*?)\}`).FindStringSubmatch(source)[1]
	inLua := map[string]int{}
	for _, m := range regexp.MustCompile(`(\w+) = (\d+)`).FindAllStringSubmatch(table, -1) {
		inLua[strings.ReplaceAll(m[1], "_", "")], _ = strconv.Atoi(m[2])
	}
	text, err := os.ReadFile("status.go")
	must(t, err)
	names := regexp.MustCompile(`(?m)^\tstatus(\w+)( status = iota)?$`).FindAllStringSubmatch(string(text), -1)
	if len(names) != len(inLua) || len(names) < 20 {
		t.Errorf("%d statuses in Go, %d in Lua", len(names), len(inLua))
	}
	for number, m := range names {
		if got, ok := inLua[strings.ToUpper(m[1])]; !ok || got != number {
			t.Errorf("status%s is %d in Go, %d in Lua (found %v)", m[1], number, got, ok)
		}
	}
	for _, line := range []string{
		"local OPEN, PAUSED, CLOSED = 1, 2, 3", "local HELD, CONFIRMING, SOLD, CANCELLED, LAPSED = 1, 2, 3, 4, 5",
	} {
		if !strings.Contains(source, line) {
			t.Errorf("the prelude no longer has %q", line)
		}
	}
	for got, want := range map[int]int{
		int(store.StateOpen): 1, int(store.StatePaused): 2, int(store.StateClosed): 3,
		int(store.Held) * 10: 10, int(store.Confirming) * 10: 20, int(store.Sold) * 10: 30, int(store.Cancelled) * 10: 40, int(store.Lapsed) * 10: 50,
		int(store.LateAccept) * 100: 100, int(store.ChangeGrow) * 1000: 1000, int(store.ChangeCancel) * 1000: 2000, int(store.ChangeRules) * 1000: 3000,
		int(store.EndedByOrder) * 10000: 10000, int(store.EndedByRoom) * 10000: 20000, int(store.EndedByCart) * 10000: 30000,
		int(store.SoldEarlier) * 10000: 40000,
	} {
		if got != want {
			t.Errorf("a stored number is %d, want %d", got, want)
		}
	}
}

func TestMarkerKey(t *testing.T) {
	t.Parallel()
	single := store.Place{Allotment: "show", Group: "show", Buckets: 16}
	grouped := store.Place{Allotment: "show", Group: "tour", Buckets: 16}
	rapid.Check(t, func(t *rapid.T) {
		buyer, request := rapid.String().Draw(t, "buyer"), rapid.String().Draw(t, "request")
		for _, p := range []store.Place{single, grouped} {
			id := store.NewHoldID(p.Allotment, buyer, request)
			key := markerKey(p, id.Tag)
			if got, ok := markerHold(key); !ok || got != id {
				t.Errorf("markerHold(%q) = %v, %v, want %v", key, got, ok, id)
			}
			if !strings.HasPrefix(key, "hf:{"+p.Group+"}") {
				t.Errorf("key %q is not of the group", key)
			}
		}
	})
	for _, key := range []string{
		"", "x", canaryKey("RANDOM"), hintKey("show"), "hf:{show}~", "hf:{show}~short", "hf:{show}~123456789012345678901234x",
		"hf:{show}~123456789012345678901234:", "hf:{show}~123456789012345678901234:No", "hf:{}~123456789012345678901234", "xhf:{show}~123456789012345678901234",
		base(single, "c"), base(grouped, "d"), holdsKey(single, 7), holdsKey(grouped, 7),
	} {
		if id, ok := markerHold(key); ok {
			t.Errorf("markerHold(%q) = %v", key, id)
		}
	}
}

// What is packed comes back, whatever it is; only UUIDs are packed.
func TestPacking(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.String(), rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
			rapid.StringMatching(`[0-9a-fA-F-]{36}`),
		).Draw(t, "id")
		if strings.HasPrefix(text, uuidMark) {
			return // no id of a caller: it is not printable
		}
		if got := unpack(pack(text)); got != text {
			t.Errorf("unpack(pack(%q)) = %q", text, got)
		}
		raw := rapid.SliceOfN(rapid.Byte(), 0, 24).Draw(t, "tag")
		if got := packTag(unpackTag(string(raw))); got != string(raw) {
			t.Errorf("packTag(unpackTag(%q)) = %q", raw, got)
		}
		if tag := unpackTag(string(raw)); len(raw) == rawTagBytes && tag != base64.RawURLEncoding.EncodeToString(raw) {
			t.Errorf("unpackTag(%q) = %q", raw, tag)
		}
	})
	if got := pack("2b0d7b3d-30a0-4ee4-b2f3-5d4d9ae43b43"); len(got) != 17 {
		t.Errorf("a UUID takes %d bytes, want 17", len(got))
	}
}

// declared notes the keys that each script call declares.
type declared struct {
	mu   sync.Mutex
	keys map[string]bool
	sent int
}

func (d *declared) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}
func (d *declared) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (d *declared) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		d.mu.Lock()
		for _, c := range commands {
			args := c.Args()
			if c.Name() != "evalsha" {
				continue
			}
			d.sent++
			for _, key := range args[3 : 3+args[2].(int)] {
				d.keys[key.(string)] = true
			}
		}
		d.mu.Unlock()
		return next(ctx, commands)
	}
}

// Every key that exists was declared by a call: on a cluster another would be refused, or worse.
func TestEveryKeyWasDeclared(t *testing.T) {
	t.Parallel()
	f := setup(t, 40)
	d := &declared{keys: map[string]bool{}}
	f.redis().AddHook(d)
	second := f.withSecond(10)
	f.begin("cart", f.cartOf("cart", "request", second, 1, 1)...)
	f.ended()
	f.work()
	f.adoptBegin(f.place, "claim")
	records, _ := f.survivors("claim")
	f.rebuild("claim", 2, 1, records, f.buyersOf(records, map[string]int64{"sold": 1}),
		store.Counters{Capacity: 40, Available: 35, Held: 1, Confirming: 2, Shrinking: 1, Sold: 1})
	for where := range f.dump(f.place.Group) {
		key, _, field := strings.Cut(where, " ")
		if key = unplain(key); !field && !d.keys[key] {
			t.Errorf("key %q was written but not declared", key)
		}
	}
	for key := range d.keys {
		if !strings.HasPrefix(key, "hf:{"+f.place.Group+"}") {
			t.Errorf("key %q is of another group", key)
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	f := setup(t, 40)
	p := store.Place{Allotment: f.place.Allotment, Group: "group-" + f.place.Allotment, Buckets: 64}
	if _, found, err := f.Place(f.ctx(), p.Allotment); found || err != nil {
		t.Errorf("Place of nothing: %v, %v", found, err)
	}
	must(t, f.SetPlace(f.ctx(), p))
	must(t, f.SetPlace(f.ctx(), p))
	if got, found, err := f.Place(f.ctx(), p.Allotment); got != p || !found || err != nil {
		t.Errorf("Place: %+v, %v, %v, want %+v", got, found, err, p)
	}
	for _, bad := range []string{"", "x", "group", "group x", "group 0", "group -16", "group 24", "Group 16", "group 16 16", "group 1048576"} {
		must(t, f.raw.Set(f.ctx(), hintKey(p.Allotment), bad, 0).Err())
		if got, found, err := f.Place(f.ctx(), p.Allotment); found || err != nil {
			t.Errorf("a damaged hint %q: %+v, %v, want not found", bad, got, err)
		}
	}
	must(t, f.retype(hintKey(p.Allotment)))
	if got, found, err := f.Place(f.ctx(), p.Allotment); found || err != nil {
		t.Errorf("a hint of another type: %+v, %v, want not found", got, err)
	}
}
