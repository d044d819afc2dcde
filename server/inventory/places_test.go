package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

// slowBooks are the books of both stores, in which an allotment is found once it was created. A look takes 10 ms.
type slowBooks struct {
	store.Places
	store.Allotments

	created     atomic.Bool
	looks       atomic.Int64
	inside, met atomic.Int64 // looks under way, and the most of them at a time
}

const lookTime = 10 * time.Millisecond

func (b *slowBooks) Place(context.Context, string) (store.Place, bool, error) {
	return store.Place{}, false, nil
}

func (b *slowBooks) Allotment(_ context.Context, id string) (store.Allotment, error) {
	b.looks.Add(1)
	created := b.created.Load()
	b.met.Store(max(b.met.Load(), b.inside.Add(1)))
	defer b.inside.Add(-1)
	time.Sleep(lookTime)
	if !created {
		return store.Allotment{}, &store.Refusal{Reason: store.AllotmentNotFound, Allotment: id}
	}
	return store.Allotment{Place: store.Place{Allotment: id, Group: id, Buckets: 1}}, nil
}

// A crowd that asks for what is not there costs the ledger a look at a time, not one for each.
func TestCrowdForAnUnknownAllotment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &slowBooks{}
		d := newDirectory(books, books, DefaultDecisionTime)
		start := time.Now()
		var crowd sync.WaitGroup
		for range 1000 {
			crowd.Go(func() {
				if _, err := d.place(t.Context(), "typo"); store.Refused(err, store.AllotmentNotFound) == nil {
					t.Errorf("%v, want ALLOTMENT_NOT_FOUND", err)
				}
			})
			time.Sleep(time.Millisecond / 10)
		}
		crowd.Wait()
		if most := int64(time.Since(start)/lookTime) + 1; books.looks.Load() > most {
			t.Errorf("%d looks into the ledger, want at most %d", books.looks.Load(), most)
		}
	})
}

// Who asks after an allotment was created finds it, though it joins those who asked before.
func TestPlaceOfWhatWasJustCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &slowBooks{}
		d := newDirectory(books, books, DefaultDecisionTime)
		var crowd sync.WaitGroup
		for n := range 20 {
			if n == 5 {
				books.created.Store(true)
			}
			crowd.Go(func() {
				p, err := d.place(t.Context(), "new")
				if n >= 5 && (err != nil || p.Group != "new") {
					t.Errorf("caller %d: %v, %v", n, p, err)
				}
			})
			time.Sleep(time.Millisecond)
		}
		crowd.Wait()
	})
}

// A crowd that asks for many allotments that are not there takes few connections of either store, and those for whom there is no
// time are told to come again.
func TestCrowdForManyUnknownAllotments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &slowBooks{}
		d := newDirectory(books, books, DefaultDecisionTime)
		var crowd sync.WaitGroup
		var unknown, full atomic.Int64
		for n := range 1000 {
			crowd.Go(func() {
				_, err := d.place(t.Context(), fmt.Sprint("typo-", n))
				switch {
				case store.Refused(err, store.AllotmentNotFound) != nil:
					unknown.Add(1)
				case errors.Is(err, store.ErrQueueFull):
					full.Add(1)
				default:
					t.Errorf("%v, want ALLOTMENT_NOT_FOUND or QUEUE_FULL", err)
				}
			})
		}
		crowd.Wait()
		if most := books.met.Load(); most > 4 || unknown.Load() < 4 || full.Load() == 0 {
			t.Errorf("%d looks at a time; %d were told that there is none, %d to come again", most, unknown.Load(), full.Load())
		}
	})
}
