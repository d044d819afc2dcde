package load

import (
	"regexp"
	"testing"
	"time"
)

func onsale() Crowd {
	return Crowd{
		Requests: 200_000, Duration: 10 * time.Second, Two: 0.4, Repeat: 0.02, Completion: 0.65, Window: 12 * time.Second, Seed: 7,
	}
}

// near tells whether a part is what it should be, as far as chance goes.
func near(part, whole int, share float64) bool {
	got := float64(part) / float64(whole)
	return got > share-0.01 && got < share+0.01
}

func TestPlanShares(t *testing.T) {
	p := NewPlan(onsale())
	twos, pays, repeats, early := 0, 0, 0, 0
	for b := range int32(p.Buyers()) {
		if p.Units(b) == 2 {
			twos++
		}
		think, does := p.Pays(b)
		if !does {
			continue
		}
		pays++
		if think < 600*time.Millisecond || think > 10_800*time.Millisecond {
			t.Fatalf("buyer %d thinks for %v", b, think)
		}
		if think < 4*time.Second {
			early++
		}
	}
	for _, r := range p.repeats {
		if r {
			repeats++
		}
	}
	n := p.Buyers()
	if !near(twos, n, 0.4) || !near(pays, n, 0.65) || !near(repeats, 200_000, 0.02) || n+repeats != 200_000 {
		t.Errorf("%d buyers: %d want two, %d pay; %d requests are repeats", n, twos, pays, repeats)
	}
	if 2*early < pays {
		t.Errorf("%d of %d pay in the first third of the window", early, pays)
	}
}

func TestPlanTimes(t *testing.T) {
	p := NewPlan(onsale())
	if p.Intended(0) != 0 || p.Intended(100_000) != 5*time.Second || p.Intended(199_999) != 9_999_950*time.Microsecond {
		t.Errorf("requests at %v, %v, %v", p.Intended(0), p.Intended(100_000), p.Intended(199_999))
	}
	latest := map[int32]int{}
	for i, b := range p.buyers {
		first, known := latest[b]
		if p.repeats[i] != known {
			t.Fatalf("request %d of buyer %d: a repeat is %v", i, b, p.repeats[i])
		}
		if known && i-first > 20_001 {
			t.Fatalf("request %d repeats one that was sent %d requests before", i, i-first)
		}
		latest[b] = i
	}
}

// TestPlanRepeatsItself: one seed is one crowd, another seed another.
func TestPlanRepeatsItself(t *testing.T) {
	a, b := NewPlan(onsale()), NewPlan(onsale())
	other := onsale()
	other.Seed++
	c := NewPlan(other)
	same := 0
	for i := range int32(1000) {
		if a.Buyer(i) != b.Buyer(i) || a.buyers[i] != b.buyers[i] {
			t.Fatalf("buyer %d differs", i)
		}
		if a.Buyer(i).ID == c.Buyer(i).ID {
			same++
		}
	}
	if same > 0 {
		t.Errorf("%d buyers of another seed are the same", same)
	}
}

func TestIDs(t *testing.T) {
	p := NewPlan(onsale())
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for i := range int32(50_000) {
		b := p.Buyer(i)
		for _, id := range []string{b.ID, b.Request, b.Order} {
			if !form.MatchString(id) || seen[id] {
				t.Fatalf("buyer %d has id %s; seen before: %v", i, id, seen[id])
			}
			seen[id] = true
		}
	}
}

func TestLaterIsInOrder(t *testing.T) {
	var l later
	p := NewPlan(onsale())
	for i := range 1000 {
		l.add(task{at: time.Duration(p.draw(0, i) % 500)})
	}
	last := time.Duration(-1)
	for now := time.Duration(0); now < 500; now++ {
		for {
			task, ok, next := l.due(now)
			if !ok {
				if next <= now {
					t.Fatalf("at %d the next is due at %d", now, next)
				}
				break
			}
			if task.at < last || task.at > now {
				t.Fatalf("at %d came what was due at %d, after %d", now, task.at, last)
			}
			last = task.at
		}
	}
	if _, ok, next := l.due(1000); ok || next != never || l.len() != 0 {
		t.Errorf("%d are left", l.len())
	}
}
