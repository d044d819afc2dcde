package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/store/local"
)

// launchLoad is the height of a launch: a queue of buyers, and stock for a while.
var launchLoad = Load{Rate: 2000, Capacity: 40_000}

// sentinel are the faults of a Redis with Sentinels: one master, two replicas.
func sentinel() []Case {
	return []Case{
		{
			Row: record.Row{
				Case: "F07-replicas", Title: "power loss of the master", Deployment: withSentinels("replicas:1"),
				Fault:    "kill -9 of the master, its append-only file cut to half before it comes back as a replica after 3 s (long: 8 s)",
				Expected: "no acknowledged hold is lost",
			},
			Proof: []string{"masters killed", "bytes cut off", "adopts"}, Guards: []string{"survivors"}, Prepare: sentinels("replicas:1"),
			Inject: func(ctx context.Context, s *Scene) error { return failOver(ctx, s, false, cutHalf) },
		},
		failoverCase("F09-none", "none", true, "about 1 s UNAVAILABLE, then normal; what the replica did not have is told HOLD_LAPSED"),
		drawable(failoverCase("F09-replicas-1", "replicas:1", true, "as with none; Sentinel promotes the replica that has more, so that as a rule nothing is lost")),
		failoverCase("F09-replicas-2", "replicas:2", false, "nothing is lost; undecided until there are two replicas again: N should be below the number of replicas"),
		spareReplica(),
		{
			Row: record.Row{
				Case: "F09-replicas-2-rejoined", Title: "Sentinel failover", Deployment: withSentinels("replicas:2"),
				Fault: "kill -9 of the master under 2,000 requests/s (short: 200), started again with the switch, by a script that asks " +
					"the Sentinels for the master and makes a replica of it",
				Expected: "nothing is lost; as quick as with none and the start of a replica",
			},
			Load: launchLoad, Proof: []string{"masters killed", "rejoined", "adopts"}, Guards: []string{"survivors"}, Prepare: sentinels("replicas:2"),
			Inject: rejoinAtOnce,
		},
		{
			Row: record.Row{
				Case: "F09-ordered", Title: "failover by order", Deployment: withSentinels("replicas:2"),
				Fault: "SENTINEL FAILOVER: a replica is promoted; REPLICAOF: what was the master becomes its replica", Expected: "nothing is lost; as quick as with none",
			},
			Load: launchLoad, Proof: []string{"masters switched", "adopts"}, Guards: []string{"survivors"}, Prepare: sentinels("replicas:2"), Inject: orderFailover,
		},
		{
			Row: record.Row{
				Case: "F10", Title: "old master resumes", Deployment: withSentinels("none"),
				Fault: "master frozen until another is promoted, one server cut off from the Sentinels; then the old master resumed, " +
					"and the server still cut off for 3 s (long: 6 s)",
				Expected: "what the server that is pinned to it grants never becomes a sale; it raises no epoch",
			},
			Proof: []string{"granted by the old master"}, Guards: []string{"epoch", "assumed-epoch"}, Prepare: sentinels("none"),
			Inject: resumeOldMaster, Check: countGhosts,
			// The old master does not know what became of a hold at the new one.
			Forgive: []string{"a later answer names an earlier deadline", "the hold was sold before, and is not any more"},
		},
		{
			Row: record.Row{
				Case: "F19-failover", Title: "notifications after a failover", Deployment: withSentinels("none"),
				Fault: "as F09, holds lapse meanwhile", Expected: "each server subscribes at the new master; what lapses comes back",
			},
			Proof:  []string{"masters killed", "subscribed at the new master", "lapsed meanwhile"},
			Guards: []string{"followed"}, Prepare: sentinels("none"), Check: countLapses,
			Inject: func(ctx context.Context, s *Scene) error { return failOver(ctx, s, true, nothing) },
		},
	}
}

func drawable(c Case) Case {
	c.Random = true
	return c
}

// spareReplica is the failover with one more replica than decisions wait for.
func spareReplica() Case {
	c := failoverCase("F09-replicas-2-of-3", "replicas:2", false, "nothing is lost; as quick as with none, since there are two replicas again with the switch")
	c.Deployment = "Sentinel, one master and three replicas, durability replicas:2"
	c.Prepare = func(s *world.Settings) {
		sentinels("replicas:2")(s)
		s.Sentinel.Replicas = 3
	}
	return c
}

func withSentinels(durability string) string {
	return "Sentinel, one master and two replicas, durability " + durability
}

// sentinels prepares such a world.
func sentinels(durability string) func(*world.Settings) {
	return func(s *world.Settings) {
		s.Sentinel, s.Flags = &local.SentinelOptions{Replicas: 2}, []string{"--durability=" + durability}
	}
}

func failoverCase(name, durability string, loses bool, expected string) Case {
	return Case{
		Row: record.Row{
			Case: name, Title: "Sentinel failover", Deployment: withSentinels(durability),
			Fault:    "kill -9 of the master under 2,000 requests/s (short: 200), back as a replica after 3 s (long: 8 s)",
			Expected: expected,
		},
		Load: launchLoad, Proof: []string{"masters killed", "adopts"}, Guards: []string{"trouble"}, Prepare: sentinels(durability),
		Inject: func(ctx context.Context, s *Scene) error { return failOver(ctx, s, loses, nothing) },
	}
}

func nothing(*Scene, *local.Redis) error { return nil }

// outliveMaster kills a master, and returns when another has long been promoted.
func (s *Scene) outliveMaster(ctx context.Context, old *local.Redis) error {
	old.Kill()
	s.Hit("masters killed", 1)
	if err := s.switched(ctx, old); err != nil {
		return err
	}
	return s.Last(ctx, 3*time.Second, 8*time.Second)
}

// failOver kills the master, and starts it again, as a replica, when another has long been promoted. meanwhile is done to
// what it has left.
func failOver(ctx context.Context, s *Scene, loses bool, meanwhile func(*Scene, *local.Redis) error) error {
	old, err := s.Master(ctx, s.Allotment)
	if err != nil {
		return err
	}
	healed := s.Rewind("the master is killed", loses)
	if err := s.outliveMaster(ctx, old); err != nil {
		return err
	}
	if err := meanwhile(s, old); err != nil {
		return err
	}
	if err := errors.Join(old.Restart(ctx), s.InStep(ctx, old)); err != nil {
		return err
	}
	healed()
	return s.subscribedAtMaster(ctx)
}

// rejoinAtOnce kills the master, and starts it as a replica of the next one.
func rejoinAtOnce(ctx context.Context, s *Scene) error {
	old, err := s.Master(ctx, s.Allotment)
	if err != nil {
		return err
	}
	healed := s.Rewind("the master is killed", false)
	old.Kill()
	s.Hit("masters killed", 1)
	if err := s.switched(ctx, old); err != nil {
		return err
	}
	if err := errors.Join(s.Sentinel.Rejoin(ctx, old), s.InStep(ctx, old)); err != nil {
		return err
	}
	s.Hit("rejoined", 1)
	if err := s.Last(ctx, 3*time.Second, 8*time.Second); err != nil {
		return err
	}
	healed()
	return s.subscribedAtMaster(ctx)
}

const switchLimit = 20 * time.Second

// switched waits until an allotment has another master than the old one, and notes when that was.
func (s *Scene) switched(ctx context.Context, old *local.Redis) error {
	for began := s.now(); s.now()-began < switchLimit; {
		if now, err := s.Master(ctx, s.Allotment); err == nil && now != old {
			s.mu.Lock()
			s.switchedAt = s.now()
			s.mu.Unlock()
			return nil
		}
		if err := pause(ctx, readEvery/5); err != nil {
			return err
		}
	}
	return fmt.Errorf("no other master within %v", switchLimit)
}

// subscribedAtMaster waits until each server hears of what expires there.
func (s *Scene) subscribedAtMaster(ctx context.Context) error {
	if s.Sentinel == nil {
		return nil
	}
	if err := s.subscribed(ctx); err != nil {
		return err
	}
	s.Hit("subscribed at the new master", len(s.Servers))
	return nil
}

func cutHalf(s *Scene, r *local.Redis) error {
	size, err := sizeOfLog(r)
	if err != nil {
		return err
	}
	s.Hit("bytes cut off", int(size-size/2))
	return cutLog(r, size/2)
}

func orderFailover(ctx context.Context, s *Scene) error {
	old, err := s.Master(ctx, s.Allotment)
	if err != nil {
		return err
	}
	healed := s.Rewind("another master is ordered", false)
	if err := s.Sentinel.Failover(ctx); err != nil {
		return err
	}
	if err := s.switched(ctx, old); err != nil {
		return err
	}
	s.Hit("masters switched", 1)
	if err := s.Sentinel.Follow(ctx, old); err != nil { // Sentinel does it after 8 to 10 s
		return err
	}
	if err := s.Last(ctx, 3*time.Second, 8*time.Second); err != nil {
		return err
	}
	if err := s.InStep(ctx, old); err != nil {
		return err
	}
	healed()
	return s.subscribedAtMaster(ctx)
}

// resumeOldMaster lets two masters decide at the same time. The first server stays with the old one.
func resumeOldMaster(ctx context.Context, s *Scene) error {
	pinned := s.Servers[0]
	old, err := s.Master(ctx, s.Allotment)
	if err != nil {
		return err
	}
	healed := s.Fault("the old master is resumed, and a server is pinned to it", true)
	for _, to := range pinned.ToSentinels {
		if err := to.Cut(); err != nil {
			return err
		}
	}
	if err := old.Pause(); err != nil {
		return err
	}
	if err := s.switched(ctx, old); err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil { // the others adopt at the new one
		return err
	}
	before, err := s.Epoch(ctx, s.Allotment)
	if err != nil {
		return err
	}
	s.resumed = stay{from: s.now(), server: pinned.Callers.Addr()}
	old.Resume()
	if err := s.Last(ctx, 3*time.Second, 6*time.Second); err != nil { // Sentinel makes a replica of it after 8 s
		return err
	}
	s.resumed.until = s.now()
	after, err := s.Epoch(ctx, s.Allotment)
	if err != nil {
		return err
	}
	if after != before {
		s.Wrong(fmt.Sprintf("a war of epochs: %d before the old master came back, then %d", before, after))
	}
	for _, to := range pinned.ToSentinels {
		if err := to.Heal(); err != nil {
			return err
		}
	}
	if err := s.InStep(ctx, old); err != nil {
		return err
	}
	healed()
	return nil
}

// countGhosts counts the holds that only the old master granted, to callers of the server that was pinned to it. None may have
// become a sale: what the new master granted to the same buyer has another token.
func countGhosts(s *Scene, h *history.History) {
	told, ghosts := map[string]history.Token{}, map[string]history.Token{} // by hold
	for _, c := range h.Calls {
		if c.Kind != history.CreateHold || c.Outcome != history.Done {
			continue
		}
		id, token := c.Hold.ID, c.Hold.Token
		if s.resumed.has(c) && told[id] != token {
			ghosts[id] = token
		}
		told[id] = token
	}
	s.Hit("granted by the old master", len(ghosts))
	if h.Final == nil {
		return
	}
	for _, sale := range h.Final.Sales {
		if token, ghost := ghosts[sale.HoldID]; ghost && token == sale.Token {
			s.Wrong(fmt.Sprintf("hold %s, which only the old master granted, became a sale", sale.HoldID))
		}
	}
}

// stay is a time in which a server is the only one to do something.
type stay struct {
	from, until time.Duration
	server      string // its address
}

func (s stay) has(c *history.Call) bool {
	return c.Server == s.server && c.Sent >= s.from && c.Answered <= s.until
}
