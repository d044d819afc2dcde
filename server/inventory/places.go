package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	// directoryMost bounds the places that a replica remembers: some 100 bytes each.
	directoryMost = 200_000
	// directoryAsks is how many unknown ids each store is asked for at a time: who asks for what is not there, under ever
	// new names, leaves the connections to others.
	directoryAsks = 4
)

// directory knows where allotments are. A place never changes, so what is known stays true; an id
// that nobody knows is asked for each time, since it may be created at any moment.
type directory struct {
	hints    store.Places
	ledger   store.Allotments
	patience time.Duration // until it is the turn of an id
	asking   singleflight.Group

	hintTurns, ledgerTurns *semaphore.Weighted

	mu    sync.RWMutex
	known map[string]store.Place
}

func newDirectory(hints store.Places, ledger store.Allotments, patience time.Duration) *directory {
	return &directory{
		hints: hints, ledger: ledger, patience: patience, known: map[string]store.Place{},
		hintTurns: semaphore.NewWeighted(directoryAsks), ledgerTurns: semaphore.NewWeighted(directoryAsks),
	}
}

// place returns an allotment's place, or an AllotmentNotFound refusal, which only the ledger can give.
func (d *directory) place(ctx context.Context, id string) (store.Place, error) {
	d.mu.RLock()
	p, known := d.known[id]
	d.mu.RUnlock()
	if known {
		return p, nil
	}
	// When a launch begins, thousands ask at once for what a fresh replica does not know yet.
	p, shared, err := d.askTogether(ctx, id)
	if shared && store.Refused(err, store.AllotmentNotFound) != nil {
		// It may have been created between that question and this caller's arrival, which any further question is behind.
		p, _, err = d.askTogether(ctx, id)
	}
	return p, err
}

// askTogether joins those who are asking, if there are any; shared: this was so, or others joined.
func (d *directory) askTogether(ctx context.Context, id string) (p store.Place, shared bool, err error) {
	asked := d.asking.DoChan(id, func() (any, error) { return d.ask(context.WithoutCancel(ctx), id) })
	select {
	case r := <-asked:
		p, _ = r.Val.(store.Place)
		return p, r.Shared, r.Err
	case <-ctx.Done():
		return store.Place{}, false, fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
	}
}

func (d *directory) ask(ctx context.Context, id string) (store.Place, error) {
	var p store.Place
	var found bool
	hintErr := d.inTurn(ctx, d.hintTurns, func() (err error) {
		p, found, err = d.hints.Place(ctx, id)
		return err
	})
	if found {
		d.remember(p)
		return p, nil
	}
	var a store.Allotment
	err := d.inTurn(ctx, d.ledgerTurns, func() (err error) {
		a, err = d.ledger.Allotment(ctx, id)
		return err
	})
	if err != nil {
		return store.Place{}, errors.Join(err, hintErr)
	}
	d.remember(a.Place)
	return a.Place, nil
}

// inTurn asks a store when it is this id's turn; ErrQueueFull if that does not come in time.
func (d *directory) inTurn(ctx context.Context, turns *semaphore.Weighted, ask func() error) error {
	waiting, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	if err := turns.Acquire(waiting, 1); err != nil {
		return fmt.Errorf("%w: for allotments that are not known here", store.ErrQueueFull)
	}
	defer turns.Release(1)
	return ask()
}

func (d *directory) places(ctx context.Context, ids []string) ([]store.Place, error) {
	places := make([]store.Place, len(ids))
	for i, id := range ids {
		var err error
		if places[i], err = d.place(ctx, id); err != nil {
			return nil, err
		}
	}
	return places, nil
}

func (d *directory) remember(p store.Place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= directoryMost {
		for id := range d.known { // any one: the map's order is as good as another
			delete(d.known, id)
			break
		}
	}
	d.known[p.Allotment] = p
}

// all returns every place that is remembered.
func (d *directory) all() []store.Place {
	d.mu.RLock()
	defer d.mu.RUnlock()
	places := make([]store.Place, 0, len(d.known))
	for _, p := range d.known {
		places = append(places, p)
	}
	return places
}

func (d *directory) hold(ctx context.Context, id store.HoldID) (store.PlacedHold, error) {
	p, err := d.place(ctx, id.Allotment)
	if no := store.Refused(err, store.AllotmentNotFound); no != nil {
		err = &store.Refusal{Reason: store.HoldNotFound, Allotment: id.Allotment, HoldID: id.String()}
	}
	return store.PlacedHold{Place: p, ID: id}, err
}

// sameGroup returns a DifferentGroups refusal unless all places are of one group.
func sameGroup(places []store.Place) error {
	for _, p := range places {
		if p.Group != places[0].Group {
			return &store.Refusal{Reason: store.DifferentGroups, Allotment: p.Allotment}
		}
	}
	return nil
}
