package holds

import (
	"errors"
	"testing"

	"github.com/holdfast-inventory/holdfast/store"
)

// everyCall is each method that must change nothing of an allotment whose gate is shut.
func (f *fixture) everyCall(h store.Hold) map[string]func() error {
	ctx, p, one := f.ctx(), f.place, []store.HoldID{h.ID}
	dry := f.shrinkRequest("dry", 1)
	dry.DryRun = true
	return map[string]func() error{
		"Create":   func() error { return errOf(f.Create(ctx, f.request("new", "request", 1))) },
		"repeat":   func() error { return errOf(f.Create(ctx, f.request(h.BuyerID, h.RequestID, h.Quantity))) },
		"Get":      func() error { return errOf(f.Get(ctx, f.placed(h))) },
		"Extend":   func() error { return errOf(f.Extend(ctx, f.placed(h))) },
		"Cancel":   func() error { return errOf(f.Cancel(ctx, f.placed(h))) },
		"Counters": func() error { return errOf(f.Counters(ctx, []store.Place{p})) },
		"Begin":    func() error { return errOf(f.Begin(ctx, f.beginRequest("order", h))) },
		"Finish": func() error {
			return f.Finish(ctx, []store.FinishLine{f.finishLine(h, store.Verdict{Kind: store.VerdictSold, Token: h.Token})})
		},
		"Claim":      func() error { return errOf(f.Claim(ctx, p, one, lease)) },
		"Shrink":     func() error { return errOf(f.Shrink(ctx, f.shrinkRequest("r", 1))) },
		"dry Shrink": func() error { return errOf(f.Shrink(ctx, dry)) },
		"Due":        func() error { return errOf(f.Due(ctx, []store.Place{p}, 10)) },
		"Release":    func() error { return errOf(f.Release(ctx, p, one, store.LapseBySweep)) },
		"Purge":      func() error { return f.Purge(ctx, p, one) },
		"Apply":      func() error { return f.apply(grow(1, 1)) },
		"Scan":       func() error { return errOf(f.Scan(ctx, p, "", []int{0}, []string{""})) },
	}
}

// shutGate checks that every method says AdoptNeeded and changes nothing.
func (f *fixture) shutGate(h store.Hold) {
	f.t.Helper()
	before := f.dump(f.place.Group)
	for name, call := range f.everyCall(h) {
		err := call()
		var needed *store.AdoptNeeded
		if !errors.As(err, &needed) || len(needed.Places) != 1 || needed.Places[0] != f.place {
			f.t.Errorf("%s: %v, want AdoptNeeded", name, err)
		}
		f.unchanged(before, f.place.Group, name)
	}
}

// While an allotment is being adopted every other script says so and changes nothing: a hold of each
// kind is there, due and not.
func TestGateWhileAdopting(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"live", "due", "confirming out of lease", "to be purged"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 10)
			h := f.hold("buyer", "request", 1)
			switch kind {
			case "due":
				f.advance(holdTime)
			case "confirming out of lease":
				f.begin("order", h)
				f.advance(lease)
			case "to be purged":
				f.cancel(h)
				f.advance(retention)
			}
			f.adoptBegin(f.place, "claim")
			f.shutGate(h)
			f.broken()
		})
	}
}

// What is missing or of another server is adopted, never taken for 0 or full.
func TestGateOfForeignState(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*fixture) error{
		"another server's":       func(f *fixture) error { return f.raw.HSet(f.ctx(), base(f.place, "c"), "identity", "0123abcd").Err() },
		"no identity":            func(f *fixture) error { return f.raw.HDel(f.ctx(), base(f.place, "c"), "identity").Err() },
		"an empty identity":      func(f *fixture) error { return f.raw.HSet(f.ctx(), base(f.place, "c"), "identity", "").Err() },
		"no counters":            func(f *fixture) error { return f.raw.Del(f.ctx(), base(f.place, "c")).Err() },
		"no format":              func(f *fixture) error { return f.raw.HDel(f.ctx(), base(f.place, "c"), "format").Err() },
		"a format of no sense":   func(f *fixture) error { return f.raw.HSet(f.ctx(), base(f.place, "c"), "format", "x").Err() },
		"counters of no kind":    func(f *fixture) error { return f.retype(base(f.place, "c")) },
		"deadlines of no kind":   func(f *fixture) error { return f.retype(base(f.place, "d")) },
		"leases of no kind":      func(f *fixture) error { return f.retype(base(f.place, "l")) },
		"ended of no kind":       func(f *fixture) error { return f.retype(base(f.place, "e")) },
		"a hold time of none":    func(f *fixture) error { return f.raw.HSet(f.ctx(), base(f.place, "c"), "hold", 0).Err() },
		"a sold of not-a-number": func(f *fixture) error { return f.raw.HSet(f.ctx(), base(f.place, "c"), "sold", "nan").Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 10)
			h := f.hold("buyer", "request", 1)
			must(t, damage(f))
			f.shutGate(h)
			f.broken()
		})
	}
}

// retype makes a key one of another type.
func (f *fixture) retype(key string) error {
	if err := f.raw.Del(f.ctx(), key).Err(); err != nil {
		return err
	}
	return f.raw.RPush(f.ctx(), key, "rubbish").Err()
}

// A counter that is missing or no whole number must never read as 0 or full.
func TestGateOfEachCounter(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 1)
	key := base(f.place, "c")
	good := f.raw.HGetAll(f.ctx(), key).Val()
	for _, field := range []string{
		"epoch", "capacity", "available", "held", "confirming", "shrinking", "sold", "sequence", "version", "feed", "state",
		"late", "hold", "longest", "perhold", "perbuyer", "opens", "closes",
	} {
		for _, bad := range []string{"", "missing", "nan", "-nan", "inf", "-inf", "1.5", "x", "1e300", "9007199254740994", "\x00", "OK"} {
			if bad == "missing" {
				must(t, f.raw.HDel(f.ctx(), key, field).Err())
			} else {
				f.set(field, bad)
			}
			before := f.dump(f.place.Group)
			for name, err := range map[string]error{
				"Create":   errOf(f.Create(f.ctx(), f.request("new", "request", 1))),
				"Counters": errOf(f.Counters(f.ctx(), []store.Place{f.place})),
				"Cancel":   errOf(f.Cancel(f.ctx(), f.placed(h))),
			} {
				var needed *store.AdoptNeeded
				if !errors.As(err, &needed) {
					t.Errorf("%s with %s %q: %v, want AdoptNeeded", name, field, bad, err)
				}
			}
			f.unchanged(before, f.place.Group, "a call with "+field+" "+bad)
			f.set(field, good[field])
		}
	}
}

// A format of a newer release is left alone by all, adopts included: its records would be lost.
func TestNewerFormatIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 1)
	f.set("format", 2)
	for _, identity := range []string{"", "0123abcd"} {
		if identity != "" {
			f.set("identity", identity)
		}
		before := f.dump(f.place.Group)
		calls := f.everyCall(h)
		calls["AdoptBegin"] = func() error {
			past, _, err := f.AdoptBegin(f.ctx(), f.place, "claim", lease, true)
			if past != nil {
				t.Error("AdoptBegin began")
			}
			return err
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: %v, want ErrUnavailable", name, err)
			}
		}
		f.unchanged(before, f.place.Group, "calls on a newer format")
	}
	f.broken()
}
