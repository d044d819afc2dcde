package cases

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
)

// redis are the faults of Redis and of the way to it.
func redis() []Case {
	return []Case{
		{
			Row: record.Row{
				Case: "F05", Title: "Redis kill -9, append-only file, restart", Deployment: standalone,
				Fault:    "kill -9 of Redis (appendonly yes), started again after 1 s (long: 3 s)",
				Expected: "UNAVAILABLE while it is down; adopted then; every acknowledged hold is there",
			},
			Short: true, Random: true, Proof: []string{"adopts", "trouble"}, Guards: []string{"identity"},
			Inject: func(ctx context.Context, s *Scene) error {
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
			},
		},
		{
			Row: record.Row{
				Case: "F06", Title: "Redis restart empty", Deployment: standalone, Fault: "Redis stopped, appendonlydir deleted, started",
				Expected: "epoch raised, rebuilt from the ledger; lost holds are told HOLD_LAPSED; never oversold",
			},
			Short: true, Random: true, Proof: []string{"adopts", "lost"},
			Inject: func(ctx context.Context, s *Scene) error {
				healed := s.Fault("Redis comes back empty", true)
				s.Redis.Kill()
				if err := os.RemoveAll(filepath.Join(s.Redis.Dir(), "redis", "appendonlydir")); err != nil {
					return err
				}
				s.Hit("emptied", 1)
				if err := s.Redis.Restart(ctx); err != nil {
					return err
				}
				healed()
				return nil
			},
		},
		{
			Row: record.Row{
				Case: "F13", Title: "Redis frozen 30 s", Deployment: standalone, Fault: "SIGSTOP of Redis for 2 s (long: 30 s)",
				Expected: "UNAVAILABLE within 100 ms each; nothing leaks; back at once",
			},
			Short: true, Random: true, Proof: []string{"trouble"},
			Inject: func(ctx context.Context, s *Scene) error {
				healed := s.Fault("Redis stands still", false)
				if err := s.Redis.Pause(); err != nil {
					return err
				}
				if err := s.Last(ctx, 2*time.Second, 30*time.Second); err != nil {
					return err
				}
				s.Redis.Resume()
				healed()
				return nil
			},
		},
		{
			Row: record.Row{
				Case: "F17", Title: "FLUSHALL, DEL of one counter", Deployment: standalone, Fault: "FLUSHALL, at the height of the sale",
				Expected: "rebuilt; never treated as nothing or as all; a decision within 1 s",
			},
			Short: true, Random: true, Proof: []string{"adopts", "lost"},
			Inject: func(ctx context.Context, s *Scene) error {
				healed := s.Fault("FLUSHALL", true)
				if err := s.Client.FlushAll(ctx).Err(); err != nil {
					return err
				}
				s.Hit("FLUSHALL", 1)
				healed()
				return nil
			},
		},
	}
}

func redisSettings() []Case { return nil }
