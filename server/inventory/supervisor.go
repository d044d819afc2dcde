package inventory

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	passEvery   = time.Second      // an allotment with anything live is looked at so often
	idleEvery   = 10 * time.Second // and one without
	passJitter  = 100 * time.Millisecond
	passWorkers = 16
	passPage    = 1000
	dueMost     = 256              // pieces of work of each kind taken in one look
	offForGood  = 10 * time.Second // a difference that stands so long is repaired
)

// supervisor finishes what others began. It runs on every replica, with no leader: work is claimed
// by a lease inside a script, and each piece of it may be done twice.
type supervisor struct {
	v *Inventory

	mu       sync.Mutex
	watched  map[string]*watch
	left     map[string]bool // retired allotments that are known to have left Redis
	ledgerUp bool
}

// watch is what the supervisor remembers of an allotment between two passes.
type watch struct {
	place    store.Place
	nextLook time.Time
	off      int64     // by what its counters miss conservation
	offSince time.Time // zero: they don't
	held     int64
	pending  int64
}

func newSupervisor(v *Inventory) *supervisor {
	return &supervisor{v: v, watched: map[string]*watch{}, left: map[string]bool{}, ledgerUp: true}
}

// run makes a pass at once and then every second.
func (s *supervisor) run(ctx context.Context) {
	for ctx.Err() == nil {
		s.pass(ctx)
		//nolint:gosec // jitter, not a secret
		_ = pause(ctx, passEvery+rand.N(passJitter)-passJitter/2)
	}
}

// pass looks at every allotment whose turn it is.
func (s *supervisor) pass(ctx context.Context) {
	rows := s.rows(ctx)
	var looks sync.WaitGroup
	defer looks.Wait()
	slots := make(chan struct{}, passWorkers)
	for _, p := range s.turn(rows) {
		if ctx.Err() != nil {
			return
		}
		slots <- struct{}{}
		looks.Go(func() {
			defer func() { <-slots }()
			_ = s.v.recovered("supervisor", func() error {
				s.look(ctx, p, rows[p.Allotment])
				return nil
			})
		})
	}
	s.feeds(ctx)
	s.leave(ctx, rows)
}

// rows reads the allotments from the ledger; nil while it is away, when the places that are known must do.
func (s *supervisor) rows(ctx context.Context) map[string]*store.Allotment {
	rows := map[string]*store.Allotment{}
	for after := ""; ; {
		page, err := s.v.o.Background.ListAllotments(ctx, after, passPage)
		if err != nil {
			s.sayLedger(err)
			return nil
		}
		for i := range page {
			rows[page[i].Place.Allotment] = &page[i]
			after = page[i].Place.Allotment
		}
		if len(page) < passPage {
			s.sayLedger(nil)
			return rows
		}
	}
}

// sayLedger logs the transitions only.
func (s *supervisor) sayLedger(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if up := err == nil; up != s.ledgerUp {
		s.ledgerUp = up
		if up {
			s.v.log.Info("the ledger answers again")
		} else if !errors.Is(err, context.Canceled) {
			s.v.log.Warn("the ledger does not answer: holds are decided, confirms wait", slog.Any("error", err))
		}
	}
}

// turn returns the places to look at in this pass.
func (s *supervisor) turn(rows map[string]*store.Allotment) []store.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rows != nil {
		for id, w := range s.watched {
			if row := rows[id]; row == nil || row.Retired {
				delete(s.watched, id)
			} else {
				w.place = row.Place
			}
		}
		for id, row := range rows {
			if !row.Retired && s.watched[id] == nil {
				s.watched[id] = &watch{place: row.Place}
			}
		}
	}
	for _, p := range s.v.places.all() {
		if rows == nil && s.watched[p.Allotment] == nil {
			s.watched[p.Allotment] = &watch{place: p}
		}
	}
	now := time.Now()
	var places []store.Place
	for _, w := range s.watched {
		if !w.nextLook.After(now) {
			places = append(places, w.place)
		}
	}
	return places
}

// look does what is due at one allotment.
func (s *supervisor) look(ctx context.Context, p store.Place, row *store.Allotment) {
	work, err := s.v.redis.Due(ctx, []store.Place{p}, dueMost)
	if err != nil {
		var needed *store.AdoptNeeded
		if errors.As(err, &needed) {
			s.v.adopter.start(p, false)
		}
		return
	}
	w := work[0]
	if !w.NextLapse.IsZero() {
		s.v.sweeper.note(p.Allotment, w.NextLapse.Sub(w.Now))
	}
	s.v.driveOn(ctx, p, w.Confirms)
	if len(w.Ended) > 0 {
		if err := s.v.redis.Purge(ctx, p, w.Ended); err != nil {
			s.v.log.Debug("purge", slog.Any("error", err))
		}
	}
	off, gone := s.v.conservation(ctx, w.Counters, row)
	s.remember(p, w, off, gone)
	if row != nil {
		s.v.retire(ctx, *row, w)
	}
}

// remember notes when to look again, and repairs a difference that stands.
func (s *supervisor) remember(p store.Place, w store.Work, off int64, wentBack bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	watched := s.watched[p.Allotment]
	if watched == nil {
		return
	}
	idle := w.NextLapse.IsZero() && w.Confirming == 0 && w.Shrinking == 0 && off == 0 && len(w.Ended) == 0
	watched.nextLook = time.Now()
	if idle {
		watched.nextLook = watched.nextLook.Add(idleEvery - passEvery)
	}
	watched.off, watched.held, watched.pending = off, w.Held, w.Confirming+w.Shrinking
	switch {
	case wentBack:
		s.v.adopter.suspect(p)
	case off == 0:
		watched.offSince = time.Time{}
	case watched.offSince.IsZero():
		watched.offSince = time.Now()
		s.v.log.Error("an allotment's numbers do not add up; it is repaired if this stays so",
			slog.String("allotment", p.Allotment), slog.Int64("off_by", off))
	case time.Since(watched.offSince) >= offForGood:
		s.v.log.Error("an allotment's numbers still do not add up; it is adopted",
			slog.String("allotment", p.Allotment), slog.Int64("off_by", off))
		s.v.adopter.suspect(p)
	}
}

// feeds applies what the ledger still has for Redis.
func (s *supervisor) feeds(ctx context.Context) {
	for after := ""; ctx.Err() == nil; {
		ids, err := s.v.o.Background.Pending(ctx, after, passPage)
		if err != nil || len(ids) == 0 {
			return
		}
		for _, id := range ids {
			after = id
			row, err := s.v.o.Background.Allotment(ctx, id)
			if err == nil && !row.Retired {
				err = s.v.applyFeed(ctx, row.Place, row.Feed)
			}
			if err != nil && ctx.Err() == nil {
				s.v.log.Warn("the feed of an allotment is not applied yet", slog.String("allotment", id), slog.Any("error", err))
			}
		}
	}
}

// leave removes from Redis what is retired, where whoever retired it died before that. A replica
// looks at each such allotment once.
func (s *supervisor) leave(ctx context.Context, rows map[string]*store.Allotment) {
	for id, row := range rows {
		if !row.Retired {
			delete(s.left, id)
			continue
		}
		if s.left[id] || ctx.Err() != nil {
			continue
		}
		err := s.v.redis.Leave(ctx, row.Place, row.Feed)
		var needed *store.AdoptNeeded
		if err == nil || errors.As(err, &needed) {
			s.left[id] = true
		}
	}
}

// totals sums up over allotments, for the gauges: how many are off, by how much in all, units held and confirming.
func (s *supervisor) totals() (allotments, off, held, pending int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watched {
		if w.off != 0 {
			allotments++
			off += max(w.off, -w.off)
		}
		held += w.held
		pending += w.pending
	}
	return allotments, off, held, pending
}
