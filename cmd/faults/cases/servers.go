package cases

import (
	"context"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
)

const standalone = "standalone"

// servers are the faults of Holdfast's own processes.
func servers() []Case {
	return []Case{
		{
			Row: record.Row{
				Case: "F01", Title: "app replica killed", Deployment: standalone, Fault: "kill -9 of one of three servers under load; started again after 1 s",
				Expected: "the others go on; what it was confirming is ended within 2 s of the lease",
			},
			Short: true, Random: true, Proof: []string{"killed"}, Guards: []string{"pin", "outcome"},
			Inject: func(ctx context.Context, s *Scene) error {
				victim := s.Victim()
				healed := s.Fault("a server is killed", false)
				s.Silent(victim)
				victim.Kill()
				<-victim.Ended()
				s.Hit("killed", 1)
				if err := s.Last(ctx, time.Second, 2*time.Second); err != nil {
					return err
				}
				if err := victim.Start(ctx); err != nil {
					return err
				}
				healed()
				return nil
			},
		},
	}
}
