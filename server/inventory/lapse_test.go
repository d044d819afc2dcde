package inventory

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// replaced is a Redis that has become another server: everything on it is to be adopted.
type replaced struct{ Redis }

func (replaced) Due(_ context.Context, places []store.Place, _ int) ([]store.Work, error) {
	return nil, &store.AdoptNeeded{Places: places}
}

// After a failover a gap has every allotment of the server swept, and only those. None of these sweeps begins an adopt: so many
// would be under way at once.
func TestSweepsAfterAGapAdoptNothing(t *testing.T) {
	v := &Inventory{redis: replaced{}, log: slog.New(slog.DiscardHandler), places: newDirectory(nil, nil, time.Second)}
	v.adopter, v.sweeper = newAdopter(v), newSweeper(v)
	v.adopter.turns.most = 0 // what is begun stays
	for _, id := range []string{"here", "here-too", "elsewhere"} {
		v.places.remember(store.Place{Allotment: id, Group: id})
	}
	v.sweeper.gap(func(p store.Place) bool { return p.Allotment != "elsewhere" })
	due, _ := v.sweeper.take(time.Now().Add(time.Second))
	if len(due) != 2 {
		t.Errorf("swept are %v, want both that are here", due)
	}
	for _, id := range due {
		v.sweeper.sweep(t.Context(), id)
	}
	if n := len(v.adopter.running); n != 0 {
		t.Errorf("the sweeps began %d adopts", n)
	}
}
