package inventory

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/holdfast-inventory/holdfast/store"
)

// Availability says what can be had of an allotment now.
func (v *Inventory) Availability(ctx context.Context, id string) (store.Availability, error) {
	all, err := v.Availabilities(ctx, []string{id})
	if err != nil {
		return store.Availability{}, err
	}
	return all[0], nil
}

// Availabilities says it of several, in their order; those of one group at the same moment.
func (v *Inventory) Availabilities(ctx context.Context, ids []string) ([]store.Availability, error) {
	found := &readings{all: make(map[string]store.Availability, len(ids))}
	err := v.decision(ctx, func(ctx context.Context) error {
		places, err := v.places.places(ctx, ids)
		if err != nil {
			return err
		}
		groups, ctx := errgroup.WithContext(ctx) // at once: the queue makes one round trip of them
		for _, group := range byGroup(places) {
			groups.Go(func() error { return v.readGroup(ctx, group, found) })
		}
		return groups.Wait()
	})
	if err != nil {
		return nil, err
	}
	all := make([]store.Availability, len(ids))
	for i, id := range ids {
		all[i] = found.all[id]
	}
	return all, nil
}

// readings gathers what is read of several groups at once.
type readings struct {
	mu  sync.Mutex
	all map[string]store.Availability
}

func (r *readings) add(a store.Availability) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[a.Allotment] = a
}

func (v *Inventory) readGroup(ctx context.Context, places []store.Place, found *readings) error {
	var counters []store.Counters
	err := v.adopted(ctx, func(ctx context.Context) error {
		var err error
		counters, err = v.redis.Counters(ctx, places)
		return err
	})
	var gone *retiredError
	if errors.As(err, &gone) {
		found.add(retiredAvailability(gone.row))
		rest := slices.DeleteFunc(slices.Clone(places), func(p store.Place) bool { return p == gone.row.Place })
		if len(rest) == 0 {
			return nil
		}
		return v.readGroup(ctx, rest, found)
	}
	if err != nil {
		return err
	}
	for _, c := range counters {
		found.add(availability(c))
		if !c.NextLapse.IsZero() {
			v.sweeper.note(c.Allotment, c.NextLapse.Sub(c.Now))
		}
	}
	return nil
}

// retiredAvailability is the ledger's answer for an allotment that has left Redis.
func retiredAvailability(a store.Allotment) store.Availability {
	return store.Availability{
		Allotment: a.Place.Allotment, Capacity: a.Capacity, Available: a.Capacity - a.Sold, Sold: a.Sold,
		Version: a.Epoch*epochVersions + a.Version, State: a.State, ReadTime: time.Now().UTC(),
	}
}

func availability(c store.Counters) store.Availability {
	held, sold := store.Shown(c.Held+c.Confirming+c.Shrinking, c.Sold)
	return store.Availability{
		Allotment: c.Allotment, Capacity: c.Capacity, Available: max(0, c.Available), Held: held, Sold: sold, Version: c.Version, State: c.State,
		NextLapse: c.NextLapse, ReadTime: c.Now,
	}
}

// byGroup splits places by group, without repeats.
func byGroup(places []store.Place) [][]store.Place {
	var groups [][]store.Place
	at, seen := map[string]int{}, map[string]bool{}
	for _, p := range places {
		if seen[p.Allotment] {
			continue
		}
		seen[p.Allotment] = true
		i, known := at[p.Group]
		if !known {
			i = len(groups)
			at[p.Group] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], p)
	}
	return groups
}

// watchTick is how often a watched allotment is read, however many watch it.
const watchTick = 200 * time.Millisecond

// Watch sends the availability of each allotment, and then again whenever it has changed, until
// ctx ends or send fails. Changes within a tick are sent as one. Trouble is waited out.
func (v *Inventory) Watch(ctx context.Context, ids []string, send func(store.Availability) error) error {
	first, err := v.Availabilities(ctx, ids)
	if err != nil {
		return err
	}
	last := map[string]store.Availability{}
	for _, a := range first {
		if _, sent := last[a.Allotment]; sent {
			continue
		}
		if err := send(a); err != nil {
			return err
		}
		last[a.Allotment] = a
	}
	ticker := time.NewTicker(watchTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		for id, old := range last {
			now, err := v.snapshots.read(ctx, id)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil || (now.Version == old.Version && now.State == old.State) {
				continue
			}
			if err := send(now); err != nil {
				return err
			}
			last[id] = now
		}
	}
}

// snapshots lets any number of watchers share one read of an allotment per tick.
type snapshots struct {
	v     *Inventory
	calls singleflight.Group

	mu            sync.Mutex
	recent, older map[string]snapshot // of what was read since turned, and in a tick before that
	turned        time.Time
}

type snapshot struct {
	a  store.Availability
	at time.Time
}

func newSnapshots(v *Inventory) *snapshots {
	return &snapshots{v: v, recent: map[string]snapshot{}}
}

// read reads, or waits for who does; not longer than ctx lasts.
func (s *snapshots) read(ctx context.Context, id string) (store.Availability, error) {
	if a, known := s.find(id, time.Now()); known {
		return a, nil
	}
	asked := s.calls.DoChan(id, func() (any, error) {
		var a store.Availability
		err := s.v.recovered("watch", func() (err error) {
			a, err = s.v.Availability(context.WithoutCancel(ctx), id)
			return err
		})
		if err == nil {
			s.keep(id, a, time.Now())
		}
		return a, err
	})
	select {
	case <-ctx.Done():
		return store.Availability{}, ctx.Err()
	case r := <-asked:
		a, _ := r.Val.(store.Availability)
		return a, r.Err
	}
}

// find returns what was read of an allotment just now.
func (s *snapshots) find(id string, now time.Time) (store.Availability, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shot, known := s.recent[id]
	if !known {
		shot, known = s.older[id]
	}
	return shot.a, known && now.Sub(shot.at) < watchTick/2
}

// keep forgets in passing what was read more than a tick or two ago, all at once: looking through it for each would take more
// time than reading.
func (s *snapshots) keep(id string, a store.Availability, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.turned) > watchTick {
		s.recent, s.older, s.turned = map[string]snapshot{}, s.recent, now
	}
	s.recent[id] = snapshot{a: a, at: now}
}
