package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
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

// Round is a case with faults that are drawn when it is played. hit is told of each that was injected.
func Round(hit func(name string)) Case {
	drawn := map[int][]Case{}
	for _, c := range All() {
		if c.Random && !c.Alone {
			drawn[c.kind()] = append(drawn[c.kind()], c)
		}
	}
	return Case{
		Row: record.Row{Case: "F42", Title: "everything at once", Fault: "faults drawn at random"},
		Inject: func(ctx context.Context, s *Scene) error {
			kinds := [][]int{{ofServers}, {ofRedis}, {ofPostgres}, {ofRedis, ofPostgres}, {ofRedis, ofPostgres}}[s.Rand.IntN(5)]
			var chosen []Case
			for _, kind := range kinds {
				chosen = append(chosen, drawn[kind][s.Rand.IntN(len(drawn[kind]))])
			}
			return s.together(ctx, chosen, hit)
		},
	}
}

// together injects faults at the same time.
func (s *Scene) together(ctx context.Context, chosen []Case, hit func(string)) error {
	var all errgroup.Group
	for _, c := range chosen {
		hit(c.Row.Case)
		all.Go(func() error {
			if err := c.Inject(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", c.Row.Case, err)
			}
			return nil
		})
	}
	return errors.Join(all.Wait(), s.Mend(ctx))
}
