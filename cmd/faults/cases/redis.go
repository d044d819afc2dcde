package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/store/local"
)

// redis are the faults of Redis's process and data.
func redis() []Case {
	return []Case{
		{
			Row: record.Row{
				Case: "F05", Title: "Redis kill -9, append-only file, restart", Deployment: standalone,
				Fault:    "kill -9 of Redis (appendonly yes), started again after 1 s (long: 3 s)",
				Expected: "UNAVAILABLE while it is down; adopted then; every acknowledged hold is there",
			},
			Short: true, Random: true, Alone: true, Proof: []string{"adopts", "trouble"}, Guards: []string{"survivors"}, Inject: killRedis,
		},
		{
			Row: record.Row{
				Case: "F06", Title: "Redis restart empty", Deployment: standalone, Fault: "kill -9 of Redis, appendonlydir deleted, started",
				Expected: "epoch raised, rebuilt from the ledger; lost holds are told HOLD_LAPSED; never oversold",
			},
			Short: true, Random: true, Alone: true, Proof: []string{"adopts", "lost"}, Guards: []string{"sold"}, Inject: emptyRedis,
		},
		{
			Row: record.Row{
				Case: "F07", Title: "power loss", Deployment: "standalone, appendfsync everysec",
				Fault:    "kill -9 of Redis, and its append-only file cut to what it was 0.7 s before",
				Expected: "as F06 for what was cut off",
			},
			Short: true, Random: true, Alone: true, Proof: []string{"bytes cut off", "adopts"}, Guards: []string{"identity"}, Inject: losePower,
		},
		{
			Row: record.Row{
				Case: "F08", Title: "stale replica promoted", Deployment: "one replica, durability none",
				Fault:    "link to the replica a black hole for 1 s, master killed, replica promoted, servers led to it",
				Expected: "adopted; what the replica did not have is told HOLD_LAPSED; never oversold",
			},
			Proof: []string{"adopts", "lost"}, Guards: []string{"identity"},
			Inject:  func(ctx context.Context, s *Scene) error { return promoteStale(ctx, s, true) },
			Prepare: func(s *world.Settings) { s.Replicas = 1 },
		},
		{
			Row: record.Row{
				Case: "F08-replicas", Title: "stale replica promoted", Deployment: "two replicas, durability replicas:1",
				Fault:    "links to both replicas black holes for 1 s, master killed, one promoted, the other made its replica, servers led to it",
				Expected: "nothing is acknowledged that the replicas do not have, so nothing is lost",
			},
			Proof: []string{"adopts", "trouble"}, Guards: []string{"replicas"},
			Inject:  func(ctx context.Context, s *Scene) error { return promoteStale(ctx, s, false) },
			Prepare: func(s *world.Settings) { s.Replicas, s.Flags = 2, []string{"--durability=replicas:1"} },
		},
		{
			Row: record.Row{
				Case: "F11-one", Title: "the only replica lost with min-replicas 1", Deployment: "one replica, min-replicas-to-write 1",
				Fault:    "SIGSTOP of the replica for 4 s (long: 10 s)",
				Expected: "NOREPLICAS: UNAVAILABLE at once; back with the replica",
			},
			Proof: []string{"NOREPLICAS", "trouble"}, Guards: []string{"trouble"}, Inject: pauseReplica,
			Prepare: func(s *world.Settings) { s.Replicas, s.Redis.ExtraArgs = 1, minReplicas() },
		},
		{
			Row: record.Row{
				Case: "F11-two", Title: "one of two replicas lost with min-replicas 1", Deployment: "two replicas, min-replicas-to-write 1",
				Fault:     "SIGSTOP of a replica for 4 s (long: 10 s)",
				Expected:  "nothing",
				NoControl: "none: nothing is to happen",
			},
			Proof: []string{"paused"}, Inject: pauseReplica,
			Prepare: func(s *world.Settings) { s.Replicas, s.Redis.ExtraArgs = 2, minReplicas() },
		},
		{
			Row: record.Row{
				Case: "F12", Title: "Redis frozen 50 to 400 ms", Deployment: standalone,
				Fault:    "SIGSTOP and SIGCONT of Redis, 5 times (long: 30)",
				Expected: "answers in time; nothing is taken twice",
			},
			Short: true, Random: true, Proof: []string{"frozen", "trouble"}, Guards: []string{"retries", "repeat"}, Inject: freezeRedis,
		},
		{
			Row: record.Row{
				Case: "F13", Title: "Redis frozen 30 s", Deployment: standalone, Fault: "SIGSTOP of Redis for 2 s (long: 30 s)",
				Expected: "UNAVAILABLE within 100 ms each; nothing leaks; back at once",
			},
			Short: true, Random: true, Proof: []string{"frozen", "trouble"}, Guards: []string{"budget", "deadline", "patience"}, Inject: pauseRedis, Check: answeredInTime,
		},
		{
			Row: record.Row{
				Case: "F17", Title: "FLUSHALL", Deployment: standalone, Fault: "FLUSHALL under 2,000 requests/s (short: 200)",
				Expected: "rebuilt; never treated as nothing or as all; a decision within 1 s",
			},
			Load: launchLoad, Short: true, Random: true, Proof: []string{"adopts", "lost"}, Guards: []string{"sold"}, Inject: flushRedis,
		},
		{
			Row: record.Row{
				Case: "F17-one", Title: "DEL of one counter", Deployment: standalone, Fault: "DEL of the allotment's counters",
				Expected: "rebuilt from the holds and the ledger; nothing is lost",
			},
			Random: true, Proof: []string{"adopts"}, Guards: []string{"survivors"}, Inject: deleteCounters,
		},
		{
			Row: record.Row{
				Case: "F18", Title: "SCRIPT FLUSH", Deployment: standalone, Fault: "SCRIPT FLUSH, 5 times (long: 20)",
				Expected: "the scripts are loaded again; a short pause; nothing is adopted",
			},
			Short: true, Random: true, Proof: []string{"NOSCRIPT"}, Guards: []string{"noscript"}, Inject: flushScripts,
		},
	}
}

func minReplicas() []string {
	return []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"}
}

func killRedis(ctx context.Context, s *Scene) error {
	healed := s.Fault("Redis is killed", false)
	s.Redis.Kill()
	s.Hit("killed", 1)
	if err := s.Last(ctx, time.Second, 3*time.Second); err != nil {
		return err
	}
	if err := s.Redis.Restart(ctx); err != nil {
		return err
	}
	healed()
	return nil
}

// files is the folder of a Redis's append-only file.
func files(r *local.Redis) string { return filepath.Join(r.Dir(), "redis", "appendonlydir") }

func emptyRedis(ctx context.Context, s *Scene) error {
	healed := s.Fault("Redis comes back empty", true)
	s.Redis.Kill()
	if err := os.RemoveAll(files(s.Redis)); err != nil {
		return err
	}
	s.Hit("emptied", 1)
	if err := s.Redis.Restart(ctx); err != nil {
		return err
	}
	healed()
	return nil
}

// log is the file that a Redis appends to.
func log(r *local.Redis) (string, error) {
	found, err := filepath.Glob(filepath.Join(files(r), "*.incr.aof"))
	if err != nil || len(found) != 1 {
		return "", errors.Join(err, fmt.Errorf("%d append-only files", len(found)))
	}
	return found[0], nil
}

func sizeOfLog(r *local.Redis) (int64, error) {
	file, err := log(r)
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// cutLog leaves so many bytes of the file that a Redis appends to.
func cutLog(r *local.Redis, size int64) error {
	file, err := log(r)
	if err != nil {
		return err
	}
	return os.Truncate(file, size)
}

// losePower cuts off what Redis may not have flushed to the disk yet: it does so each second.
func losePower(ctx context.Context, s *Scene) error {
	before, err := sizeOfLog(s.Redis)
	if err != nil {
		return err
	}
	healed := s.Fault("power is lost, and what Redis wrote from now on", true)
	if err := pause(ctx, 700*time.Millisecond); err != nil {
		return err
	}
	s.Redis.Kill()
	after, err := sizeOfLog(s.Redis)
	if err != nil {
		return err
	}
	s.Hit("bytes cut off", int(after-before))
	if err := errors.Join(cutLog(s.Redis, before), s.Redis.Restart(ctx)); err != nil {
		return err
	}
	healed()
	return nil
}

// promoteStale makes a replica that has not heard of the last second the master.
func promoteStale(ctx context.Context, s *Scene, loses bool) error {
	replica := s.Replicas[0]
	healed := s.Rewind("a replica that is behind becomes the master", loses)
	for _, r := range s.Replicas {
		if err := r.ToMaster.BlackHole(); err != nil {
			return err
		}
	}
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	s.Redis.Kill()
	client := world.Talk(replica.Addr())
	if err := client.ReplicaOf(ctx, "NO", "ONE").Err(); err != nil {
		return errors.Join(err, client.Close())
	}
	s.Hit("promoted", 1)
	for _, other := range s.Replicas[1:] {
		if err := errors.Join(other.ToMaster.Heal(), other.ToMaster.Lead(replica.Addr())); err != nil {
			return errors.Join(err, client.Close())
		}
	}
	for _, server := range s.Servers {
		if err := server.ToRedis.Lead(replica.Addr()); err != nil {
			return errors.Join(err, client.Close())
		}
	}
	s.Follow(client)
	healed()
	return nil
}

func pauseReplica(ctx context.Context, s *Scene) error {
	refused := s.refusals(ctx, "NOREPLICAS")
	healed := s.Fault("a replica stands still", false)
	if err := s.Replicas[0].Pause(); err != nil {
		return err
	}
	s.Hit("paused", 1)
	if err := s.Last(ctx, 4*time.Second, 10*time.Second); err != nil {
		return err
	}
	s.Replicas[0].Resume()
	s.Hit("NOREPLICAS", s.refusals(ctx, "NOREPLICAS")-refused)
	if err := s.writable(ctx); err != nil {
		return err
	}
	healed()
	return nil
}

// writable waits until Redis takes writes again: it hears of a replica's return within a second.
func (s *Scene) writable(ctx context.Context) error {
	var err error
	for range 100 {
		if err = s.Client.Set(ctx, "faults:probe", 1, time.Second).Err(); err == nil {
			return nil
		}
		if err := pause(ctx, readEvery); err != nil {
			return err
		}
	}
	return fmt.Errorf("no writes by Redis: %w", err)
}

func freezeRedis(ctx context.Context, s *Scene) error {
	times := 5
	if s.Long {
		times = 30
	}
	master, err := s.Master(ctx, s.Allotment)
	if err != nil {
		return err
	}
	healed := s.Fault("Redis stands still again and again", false)
	for range times {
		if err := master.Pause(); err != nil {
			return err
		}
		if err := pause(ctx, time.Duration(50+s.Rand.IntN(350))*time.Millisecond); err != nil {
			return err
		}
		master.Resume()
		s.Hit("frozen", 1)
		if err := pause(ctx, time.Duration(50+s.Rand.IntN(150))*time.Millisecond); err != nil {
			return err
		}
	}
	healed()
	return nil
}

func pauseRedis(ctx context.Context, s *Scene) error {
	master, err := s.Master(ctx, s.Allotment)
	if err != nil {
		return err
	}
	healed := s.Fault("Redis stands still", false)
	if err := master.Pause(); err != nil {
		return err
	}
	s.Hit("frozen", 1)
	if err := s.Last(ctx, 2*time.Second, 30*time.Second); err != nil {
		return err
	}
	master.Resume()
	healed()
	return nil
}

func flushRedis(ctx context.Context, s *Scene) error {
	healed := s.Fault("FLUSHALL", true)
	if err := s.Client.FlushAll(ctx).Err(); err != nil {
		return err
	}
	s.Hit("FLUSHALL", 1)
	healed()
	return nil
}

func deleteCounters(ctx context.Context, s *Scene) error {
	healed := s.Fault("the counters are deleted", false)
	deleted, err := s.Client.Del(ctx, "hf:{"+s.Allotment+"}:c").Result()
	if err != nil {
		return err
	}
	s.Hit("deleted", int(deleted))
	healed()
	return nil
}

func flushScripts(ctx context.Context, s *Scene) error {
	before := s.refusals(ctx, "NOSCRIPT")
	times := 5
	if s.Long {
		times = 20
	}
	healed := s.Fault("SCRIPT FLUSH", false)
	for range times {
		if err := s.Client.ScriptFlush(ctx).Err(); err != nil {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	healed()
	s.Hit("NOSCRIPT", s.refusals(ctx, "NOSCRIPT")-before)
	return nil
}
