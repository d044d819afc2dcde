package inventory

import (
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestClock: what is called a jump of Redis's clock, and what is only a slow answer or one that came out of turn.
func TestClock(t *testing.T) {
	host, redis := time.Now(), time.Now().Add(time.Hour)
	at := func(sent, told, received time.Duration) reading {
		return reading{sent: host.Add(sent), redis: redis.Add(told), received: host.Add(received)}
	}
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		name string
		next reading
		want time.Duration
	}{
		{"a second later", at(s, s, s+ms), 0},
		{"slewed", at(s, s+500*ms, s+ms), 0},
		{"forward", at(s, 11*s, s+ms), 10*s - ms},
		{"back", at(s, -9*s, s+ms), -10*s + ms},
		{"back a little more than a second", at(5*s, 4*s-2*ms, 5*s+ms), -s - ms},
		{"answered late", at(s, s, 2*s), 0},
		{"answered too late to tell", at(s, 30*s, 3*s), 0},
		{"asked for before the last came", at(0, 30*s, s), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var watch clock
			if jump := watch.read(at(0, 0, ms)); jump != 0 {
				t.Fatalf("the first reading is a jump by %s", jump)
			}
			if jump := watch.read(c.next); jump != c.want {
				t.Errorf("a jump by %s, want %s", jump, c.want)
			}
			if jump := watch.read(at(20*s, c.next.redis.Sub(redis)+20*s-c.next.sent.Sub(host), 20*s+ms)); c.want != 0 && jump != 0 {
				t.Errorf("the same jump is told again, by %s", jump)
			}
		})
	}
}

// TestClocksOfSeveralServers: that hosts differ is no jump; that an allotment has come to a host with another time is one, told
// once, for its deadlines were set by the old one.
func TestClocksOfSeveralServers(t *testing.T) {
	host, redis := time.Now(), time.Now().Add(time.Hour)
	now := time.Duration(0)
	all := clocks{}
	look := func(server, before string, ahead, want time.Duration) {
		t.Helper()
		now += time.Second
		at := host.Add(now)
		if jump := all.read(server, before, reading{sent: at, redis: redis.Add(now + ahead), received: at}); jump != want {
			t.Errorf("after %s, at %s after %q: a jump by %s, want %s", now, server, before, jump, want)
		}
	}
	for range 3 {
		look("a", "", 0, 0)
		look("b", "", time.Minute, 0)
	}
	look("b", "b", 2*time.Minute, time.Minute) // its clock was set
	look("restarted", "a", 0, 0)
	look("replica", "b", time.Hour, 58*time.Minute)
	look("replica", "b", time.Hour, 0) // another allotment
	look("restarted", "restarted", 0, 0)
	look("a", "replica", 0, 0) // one that was moved, to a server that is known
	for range 2 * clocksMost {
		now += time.Second
		look(now.String(), "a", 0, 0)
	}
	if len(all) > clocksMost {
		t.Errorf("%d clocks are remembered", len(all))
	}
}

// TestTurns: adopts that callers wait for come first; of the others one goes on meanwhile.
func TestTurns(t *testing.T) {
	s := turns{most: 2}
	took := make(chan int)
	all := make([]*turn, 8)
	queue := func(i int, asked bool) {
		all[i] = &turn{begin: make(chan struct{}), asked: asked}
		go func() {
			s.take(all[i])
			took <- i
		}()
	}
	want := func(wanted ...int) {
		t.Helper()
		left := map[int]bool{}
		for _, i := range wanted {
			left[i] = true
		}
		for range wanted {
			if i := <-took; !left[i] {
				t.Errorf("turn %d began, want one of %v", i, wanted)
			} else {
				delete(left, i)
			}
		}
		select {
		case i := <-took:
			t.Errorf("turn %d began too early", i)
		default:
		}
	}
	queue(0, false)
	want(0)
	queue(1, false)
	want(1)
	queue(2, true) // those at work do not delay it
	want(2)
	queue(3, true)
	want(3)
	s.give(all[0])
	queue(4, false) // one of the others, 1, is at work
	s.give(all[1])
	want(4)
	queue(5, false)
	storetest.Eventually(t, time.Minute, func() error { return s.waits(all[5]) })
	s.ask(all[5]) // promoted, but two that are asked for are at work
	s.give(all[2])
	want(5)
	s.ask(all[4]) // at work: from now on it counts among those that are asked for
	queue(6, false)
	want(6)
	for _, i := range []int{3, 4, 5, 6} {
		s.give(all[i])
	}
	if s.working != [2]int{} {
		t.Errorf("at work are %v", s.working)
	}
	if s.waiting[0] != nil || s.waiting[1] != nil {
		t.Error("those who waited are kept in memory")
	}
}

// waits is nil once t is in the queue.
func (s *turns) waits(t *turn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.waiting[0] {
		if other == t {
			return nil
		}
	}
	return errElsewhere
}
