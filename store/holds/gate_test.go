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
		"another server's":     (*fixture).makeForeign,
		"no counters":          func(f *fixture) error { return f.raw.Del(f.ctx(), base(f.place, "c")).Err() },
		"no format":            func(f *fixture) error { return f.raw.HDel(f.ctx(), base(f.place, "c"), "format").Err() },
		"a format of no sense": func(f *fixture) error { return f.raw.HSet(f.ctx(), base(f.place, "c"), "format", "x").Err() },
		"counters of no kind":  func(f *fixture) error { return f.retype(base(f.place, "c")) },
		"deadlines of no kind": func(f *fixture) error { return f.retype(base(f.place, "d")) },
		"a hold time of none":  func(f *fixture) error { f.setCounter("hold", 0); return nil },
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

// Scripts that do not write leases or ended holds work on if those cannot be written, the others change nothing. A
// supervisor's look, which is one of them, has it adopted.
func TestGateOfIndexesOfNoKind(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"l", "e"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := setup(t, 10)
			h := f.hold("buyer", "request", 1)
			must(t, f.retype(base(f.place, kind)))
			calls := f.everyCall(h)
			for _, name := range []string{"Counters", "Get", "repeat", "Create", "Apply"} {
				must(t, calls[name]())
				delete(calls, name)
			}
			before := f.dump(f.place.Group)
			for name, call := range calls {
				var needed *store.AdoptNeeded
				if err := call(); !errors.As(err, &needed) {
					t.Errorf("%s: %v, want AdoptNeeded", name, err)
				}
				f.unchanged(before, f.place.Group, name)
			}
			if past, _, err := f.AdoptBegin(f.ctx(), f.place, "claim", lease, false); past == nil || err != nil {
				t.Errorf("not to be adopted: %v", err)
			}
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

// Counters that are missing or not what a script wrote must never read as 0 or full.
func TestGateOfDamagedCounters(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 1)
	key := base(f.place, "c")
	good := f.raw.HGet(f.ctx(), key, "counters").Val()
	for name, bad := range map[string]string{
		"missing": "", "empty": "", "a number": "10", "too short": good[1:], "too long": good + "x", "the identity alone": good[:40],
	} {
		if name == "missing" {
			must(t, f.raw.HDel(f.ctx(), key, "counters").Err())
		} else {
			f.setField("counters", bad)
		}
		before := f.dump(f.place.Group)
		for call, err := range map[string]error{
			"Create":   errOf(f.Create(f.ctx(), f.request("new", "request", 1))),
			"Counters": errOf(f.Counters(f.ctx(), []store.Place{f.place})),
			"Cancel":   errOf(f.Cancel(f.ctx(), f.placed(h))),
		} {
			var needed *store.AdoptNeeded
			if !errors.As(err, &needed) {
				t.Errorf("%s with counters that are %s: %v, want AdoptNeeded", call, name, err)
			}
		}
		f.unchanged(before, f.place.Group, "a call with counters that are "+name)
		f.setField("counters", good)
	}
}

// A format of a newer release is left alone by all, adopts included: its records would be lost.
func TestNewerFormatIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := setup(t, 10)
	h := f.hold("buyer", "request", 1)
	f.setField("format", 2)
	for _, foreign := range []bool{false, true} {
		if foreign {
			must(t, f.makeForeign())
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
