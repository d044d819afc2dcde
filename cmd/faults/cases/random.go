package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
)

// RandomDeployment is where faults are drawn at random.
const RandomDeployment = "Sentinel, one master and two replicas, durability replicas:1"

// PrepareRandom makes the world that. Sentinel is slow to take a master for down: one that only has to wait for a busy machine is
// not, and what two masters acknowledge at the same time may be lost.
func PrepareRandom(s *world.Settings) {
	sentinels("replicas:1")(s)
	s.Sentinel.DownAfter = 3 * time.Second
}

// What a fault is of. Those of Redis and of Postgres may be there together; a server cannot start while a store is down.
const (
	ofServers = iota
	ofRedis
	ofPostgres
)

func (c Case) kind() int {
	switch n := c.Number(); {
	case n >= "F05" && n <= "F25":
		return ofRedis
	case n >= "F26" && n <= "F34":
		return ofPostgres
	default:
		return ofServers
	}
}

// Round is a case with faults that are drawn when it is played. tell is told of each before it is injected.
func Round(tell func(Case)) Case {
	drawable := map[int][]Case{}
	for _, c := range All() {
		if c.Random && !c.Alone {
			drawable[c.kind()] = append(drawable[c.kind()], c)
		}
	}
	var drawn []Case
	return Case{
		Row: record.Row{Case: "F42", Title: "everything at once", Fault: "faults drawn at random"},
		Inject: func(ctx context.Context, s *Scene) error {
			kinds := [][]int{{ofServers}, {ofRedis}, {ofPostgres}, {ofRedis, ofPostgres}, {ofRedis, ofPostgres}}[s.Rand.IntN(5)]
			for _, kind := range kinds {
				c := drawable[kind][s.Rand.IntN(len(drawable[kind]))]
				drawn = append(drawn, c)
				tell(c)
			}
			return s.together(ctx, drawn)
		},
		Check: func(s *Scene, h *history.History) {
			for _, c := range drawn {
				if c.Check != nil {
					c.Check(s, h)
				}
			}
		},
	}
}

// together injects faults at the same time.
func (s *Scene) together(ctx context.Context, chosen []Case) error {
	var all errgroup.Group
	for _, c := range chosen {
		all.Go(func() error {
			if err := c.Inject(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", c.Row.Case, err)
			}
			return nil
		})
	}
	return errors.Join(all.Wait(), s.Mend(ctx))
}
