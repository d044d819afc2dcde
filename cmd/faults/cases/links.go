package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/store/local/link"
)

// links are the faults of the way to Redis, and of what it announces.
func links() []Case {
	return []Case{
		{
			Row: record.Row{
				Case: "F14", Title: "Redis reply lost", Deployment: standalone,
				Fault:    "every server's connections to Redis end when it answers, for 200 ms, 3 times (long: 20)",
				Expected: "unknown; the repeat with the same id gets the first answer",
			},
			Short: true, Random: true, Alone: true, Proof: []string{"links cut", "trouble"}, Guards: []string{"repeat"}, Inject: loseReplies,
		},
		{
			Row: record.Row{
				Case: "F15", Title: "Redis link black hole", Deployment: standalone,
				Fault:    "nothing passes between servers and Redis, and nothing is closed, for 2 s (long: 30 s)",
				Expected: "as F13; each server's subscription is back by itself",
			},
			Random: true, Alone: true, Proof: []string{"black holes", "trouble"}, Guards: []string{"budget", "deadline", "patience"}, Inject: blackHole, Check: answeredInTime,
		},
		{
			Row: record.Row{
				Case: "F16", Title: "Redis latency + 80 ms", Deployment: standalone,
				Fault:    "every answer of Redis comes 80 ms later, for 3 s (long: 10 s)",
				Expected: "UNAVAILABLE in time rather than an answer too late",
				SlowOK:   "the caller's way is in it",
			},
			Random: true, Alone: true, Proof: []string{"links slowed", "trouble"}, Guards: []string{"trouble"}, Inject: slowRedis,
		},
		{
			Row: record.Row{
				Case: "F19", Title: "notifications off, events lost", Deployment: standalone,
				Fault:    "notify-keyspace-events emptied and subscriptions killed, again and again for 4 s (long: 10 s)",
				Expected: "what lapses comes back by sweeping and on need",
			},
			Random: true, Proof: []string{"subscriptions killed", "lapsed meanwhile"}, Guards: []string{"need", "sweep", "reads"}, Inject: loseEvents, Check: countLapses,
		},
		{
			Row: record.Row{
				Case: "F19-killed", Title: "subscribers killed while holds lapse", Deployment: standalone,
				Fault:    "CLIENT KILL TYPE pubsub, 10 times in 3 s",
				Expected: "each server subscribes again and sweeps",
			},
			Random: true, Proof: []string{"subscriptions killed"}, Guards: []string{"subscription"}, Inject: killSubscribers,
		},
	}
}

// onLinks does something to every server's link to Redis.
func (s *Scene) onLinks(do func(*link.Link) error) error {
	var failures []error
	for _, server := range s.Servers {
		failures = append(failures, do(server.ToRedis))
	}
	return errors.Join(failures...)
}

func loseReplies(ctx context.Context, s *Scene) error {
	times := 3
	if s.Long {
		times = 20
	}
	healed := s.Fault("replies of Redis are lost", false)
	for range times {
		if err := s.onLinks((*link.Link).LoseAnswers); err != nil {
			return err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		s.Hit("links cut", len(s.Servers))
		if err := s.onLinks((*link.Link).Heal); err != nil {
			return err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	healed()
	return nil
}

func blackHole(ctx context.Context, s *Scene) error {
	healed := s.Fault("the way to Redis is a black hole", false)
	if err := s.onLinks((*link.Link).BlackHole); err != nil {
		return err
	}
	s.Hit("black holes", len(s.Servers))
	if err := s.Last(ctx, 2*time.Second, 30*time.Second); err != nil {
		return err
	}
	if err := s.onLinks((*link.Link).Heal); err != nil {
		return err
	}
	healed()
	return s.subscribed(ctx)
}

const (
	eventChannel   = "__keyevent@0__:expired"
	subscribeLimit = 10 * time.Second
)

// subscribed waits until each server hears of what expires again.
func (s *Scene) subscribed(ctx context.Context) error {
	var heard int64
	for began := time.Now(); time.Since(began) < subscribeLimit; {
		counts, err := s.Client.PubSubNumSub(ctx, eventChannel).Result()
		if heard = counts[eventChannel]; err == nil && heard >= int64(len(s.Servers)) {
			return nil
		}
		if err := pause(ctx, readEvery); err != nil {
			return err
		}
	}
	s.Wrong(fmt.Sprintf("%d of %d servers have subscribed again within %v", heard, len(s.Servers), subscribeLimit))
	return nil
}

func slowRedis(ctx context.Context, s *Scene) error {
	healed := s.Fault("Redis answers 80 ms later", false)
	if err := s.onLinks(func(l *link.Link) error { return l.Delay(80 * time.Millisecond) }); err != nil {
		return err
	}
	s.Hit("links slowed", len(s.Servers))
	if err := s.Last(ctx, 3*time.Second, 10*time.Second); err != nil {
		return err
	}
	if err := s.onLinks((*link.Link).Heal); err != nil {
		return err
	}
	healed()
	return nil
}

// loseEvents keeps Redis from announcing what expires, though each server switches it on when it subscribes.
func loseEvents(ctx context.Context, s *Scene) error {
	times := 20
	if s.Long {
		times = 50
	}
	healed := s.Fault("no events", false)
	for range times {
		if err := s.Client.ConfigSet(ctx, "notify-keyspace-events", "").Err(); err != nil {
			return err
		}
		killed, err := s.Client.ClientKillByFilter(ctx, "TYPE", "pubsub").Result()
		if err != nil {
			return err
		}
		s.Hit("subscriptions killed", int(killed))
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	if err := s.Client.ConfigSet(ctx, "notify-keyspace-events", "Ex").Err(); err != nil {
		return err
	}
	healed()
	return nil
}

func killSubscribers(ctx context.Context, s *Scene) error {
	healed := s.Fault("subscriptions are killed", false)
	for range 10 {
		killed, err := s.Client.ClientKillByFilter(ctx, "TYPE", "pubsub").Result()
		if err != nil {
			return err
		}
		s.Hit("subscriptions killed", int(killed))
		if err := pause(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
	healed()
	return s.subscribed(ctx)
}
