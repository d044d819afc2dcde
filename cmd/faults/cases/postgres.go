package cases

import (
	"context"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
)

// postgres are the faults of Postgres and of the way to it.
func postgres() []Case {
	return []Case{
		{
			Row: record.Row{
				Case: "F27", Title: "Postgres stopped", Deployment: standalone, Fault: "kill -9 of Postgres and all its sessions, started again after 2 s (long: 10 s)",
				Expected: "holds are decided as before; confirms wait in CONFIRMING, do not lapse, and are ended after its return",
			},
			Short: true, Random: true, Proof: []string{"trouble"},
			Inject: func(ctx context.Context, s *Scene) error {
				healed := s.Fault("Postgres is killed", false)
				s.Postgres.Kill()
				s.Hit("killed", 1)
				if err := s.Last(ctx, 2*time.Second, 10*time.Second); err != nil {
					return err
				}
				if err := s.Postgres.Restart(ctx); err != nil {
					return err
				}
				healed()
				return nil
			},
		},
	}
}

func callers() []Case { return nil }
