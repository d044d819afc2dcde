package inventory

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
)

const (
	passEvery    = time.Second // an allotment with anything live is looked at so often
	passJitter   = 100 * time.Millisecond
	passWorkers  = 16
	passPage     = 1000
	rowsEvery    = 3 * time.Second  // between two readings of all rows
	idleLooks    = 500              // looks a second at all idle allotments together
	idleMost     = time.Minute      // but each so often
	lookRounds   = 20               // of work at one allotment in one look
	lookPatience = 5 * time.Second  // with one allotment
	queueMost    = 1000             // allotments that wait to be adopted; more are found again by the next pass
	dueMost      = 256              // pieces of work of each kind in one round
	offForGood   = 10 * time.Second // a difference that stands so long is repaired
	hintEvery    = time.Minute      // between two settings of a grouped allotment's hint
	// overdueKept is how long a confirm whose lease was out counts as overdue: between two claims that do not end it, its lease
	// looks as if all were well.
	overdueKept = 3 * passEvery
	leaveMost   = 24 * time.Hour // after its retirement somebody has let an allotment leave Redis
)

// supervisor finishes what others began. It runs on every replica, with no leader: work is claimed
// by a lease inside a script, and each piece of it may be done twice.
type supervisor struct {
	v *Inventory

	mu        sync.Mutex
	watched   map[string]*watch
	left      map[string]bool // retired allotments that have left Redis; of rows only
	ledgerUp  bool
	clocks    clocks
	hot       hot
	unadopted chan store.Place // found by looks, which do not wait for them
	hints     chan store.Place // whose hint is to be set

	known   map[string]*store.Allotment // rows, as of knownAt; written by the loop alone, between looks
	knownAt time.Time
}

// watch is what the supervisor remembers of an allotment between two passes.
type watch struct {
	place    store.Place
	server   string // that had it at the last look
	nextLook time.Time
	expected time.Time // when a confirm was left open here
	off      int64     // by what its counters miss conservation
	offSince time.Time // zero: they don't
	mended   time.Time // when it was last adopted for that

	held, confirming  int64         // units
	confirms, overdue int64         // confirms and shrinks under way, and those whose lease was out
	overdueSeen       time.Time     // when that was found
	lapsed            time.Duration // how long the first deadline had passed of which a hold still had its units
	adopt             bool          // nothing is decided before it has been adopted
	queued            bool          // it is among the unadopted, and no pass looks at it
	hinted            time.Time     // when its hint was last set, or is about to be; zero: it could not be
}

// note keeps what a look found.
func (w *watch) note(found store.Work) {
	w.nextLook, w.adopt = time.Now(), false
	w.held, w.confirming = found.Held, found.Confirming+found.Shrinking
	w.confirms = found.Pending
	if n := int64(len(found.Confirms)); n > 0 || time.Since(w.overdueSeen) > overdueKept {
		w.overdue, w.overdueSeen = n, time.Now()
	}
	w.lapsed = 0
	if !found.NextLapse.IsZero() {
		w.lapsed = max(0, found.Now.Sub(found.NextLapse))
	}
}

func newSupervisor(v *Inventory) *supervisor {
	return &supervisor{
		v: v, watched: map[string]*watch{}, left: map[string]bool{}, clocks: clocks{}, ledgerUp: true,
		unadopted: make(chan store.Place, queueMost), hints: make(chan store.Place, queueMost),
	}
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
	s.v.adopter.backoffs.forget(time.Now())
	rows := s.rows(ctx)
	s.mu.Lock()
	s.hot.turn(s.v.redis.Asked(), time.Now())
	s.mu.Unlock()
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
}

// rows reads the allotments that Redis may have from the ledger every few seconds; nil while it is away, when the places
// that are known must do.
func (s *supervisor) rows(ctx context.Context) map[string]*store.Allotment {
	if s.known != nil && time.Since(s.knownAt) < rowsEvery {
		return s.known
	}
	rows := map[string]*store.Allotment{}
	s.known, s.knownAt = nil, time.Now()
	for after, since := "", s.knownAt.Add(-leaveMost); ; {
		page, err := s.v.o.Background.InRedis(ctx, since, after, passPage)
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
			s.known = rows
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
	now := time.Now()
	if rows != nil {
		maps.DeleteFunc(s.watched, func(id string, w *watch) bool { return rows[id] == nil && w.expected.Before(s.knownAt) })
		maps.DeleteFunc(s.left, func(id string, _ bool) bool { return rows[id] == nil })
		for id, row := range rows {
			if !row.Retired {
				delete(s.left, id)
			}
			if s.left[id] {
				delete(s.watched, id)
			} else if s.watched[id] == nil {
				s.watched[id] = &watch{place: row.Place, nextLook: now}
			}
		}
	} else {
		for _, p := range s.v.places.all() {
			if s.watched[p.Allotment] == nil {
				s.watched[p.Allotment] = &watch{place: p, nextLook: now}
			}
		}
	}
	var places []store.Place
	for id, w := range s.watched {
		if !w.queued && (!w.nextLook.After(now) || s.hot.isShown(id)) {
			places = append(places, w.place)
		}
	}
	return places
}

// expect has the next passes look at holds whose confirm was left open, however idle their allotments were.
func (s *supervisor) expect(holds []store.PlacedHold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range holds {
		w := s.watched[h.Allotment]
		if w == nil {
			w = &watch{place: h.Place}
			s.watched[h.Allotment] = w
		}
		w.nextLook, w.expected = time.Now(), time.Now()
	}
}

// look does what is due at one allotment.
func (s *supervisor) look(ctx context.Context, p store.Place, row *store.Allotment) {
	if row != nil && row.Retired && s.leave(ctx, *row) {
		return
	}
	for range lookRounds {
		sent := time.Now()
		work, err := s.v.redis.Due(ctx, []store.Place{p}, dueMost)
		if err != nil {
			s.adopt(p, err)
			return
		}
		w := work[0]
		s.watchClock(ctx, w, reading{sent: sent, redis: w.Now, received: time.Now()})
		s.v.driveOn(ctx, p, w.Confirms)
		if len(w.Ended) > 0 {
			if err := s.v.redis.Purge(ctx, p, w.Ended); err != nil {
				s.v.log.Debug("purge", slog.Any("error", err))
			}
		}
		s.note(w)
		if len(w.Confirms) < dueMost && len(w.Ended) < dueMost || s.v.ledger.Down() {
			s.judge(ctx, w, row)
			return
		}
	}
}

// adopt has an allotment adopted if err says that it must be. It does not wait for that: an adopt takes as long as there is
// state, and who looks at others has to be with them in time. The next look that finds it adopted tells so.
func (s *supervisor) adopt(p store.Place, err error) {
	if _, needed := errors.AsType[*store.AdoptNeeded](err); !needed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watched[p.Allotment]
	if w == nil || w.queued {
		return
	}
	w.adopt = true
	select {
	case s.unadopted <- p:
		w.queued = true
	default:
	}
}

// tend adopts what was found unadopted, one at a time. Of these loops there are as many as looks at a time.
func (s *supervisor) tend(ctx context.Context) { forEach(ctx, s.unadopted, s.tendOne) }

// forEach does what is queued, one after the other, until ctx is done.
func forEach(ctx context.Context, queued <-chan store.Place, do func(context.Context, store.Place)) {
	for {
		select {
		case p := <-queued:
			do(ctx, p)
		case <-ctx.Done():
			return
		}
	}
}

// tendOne adopts an allotment if nobody has meanwhile. It waits for the end so long, so that not all begin at once.
func (s *supervisor) tendOne(ctx context.Context, p store.Place) {
	defer s.unqueue(p)
	_, err := s.v.redis.Due(ctx, []store.Place{p}, 1)
	if _, needed := errors.AsType[*store.AdoptNeeded](err); needed {
		ctx, cancel := context.WithTimeout(ctx, lookPatience)
		defer cancel()
		s.v.adopter.tend(ctx, p) // it says itself why it fails
	}
}

// unqueue has passes look at an allotment again.
func (s *supervisor) unqueue(p store.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watched[p.Allotment]; w != nil {
		w.queued = false
	}
}

// note keeps what a look found.
func (s *supervisor) note(w store.Work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if watched := s.watched[w.Allotment]; watched != nil {
		watched.note(w)
		s.remind(watched)
	}
	s.hot.note(w.Counters)
}

// remind has the hint of a grouped allotment set now and then: it may be on another master, which was away when it was to be
// set, or has lost it. Any other hint is beside what it tells of, so both are lost together, and an adopt sets both.
func (s *supervisor) remind(w *watch) {
	if w.place.Group == w.place.Allotment || time.Since(w.hinted) < hintEvery {
		return
	}
	select {
	case s.hints <- w.place:
		w.hinted = time.Now()
	default:
	}
}

// hint sets hints, one after the other: those of a master that is away keep nothing but each other waiting.
func (s *supervisor) hint(ctx context.Context) { forEach(ctx, s.hints, s.setHint) }

// setHint sets a hint. If that fails, the next look has it tried again.
func (s *supervisor) setHint(ctx context.Context, p store.Place) {
	err := s.v.redis.SetPlace(ctx, p)
	if err == nil || ctx.Err() != nil {
		return
	}
	s.v.unhinted.Log(s.v.log, slog.LevelWarn, time.Now(), "the key that tells an allotment's group is not set yet: a replica that is started while Postgres is down would not know it",
		slog.String("allotment", p.Allotment), slog.Any("error", err))
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watched[p.Allotment]; w != nil {
		w.hinted = time.Time{}
	}
}

// judge looks at the numbers.
func (s *supervisor) judge(ctx context.Context, w store.Work, row *store.Allotment) {
	if !w.NextLapse.IsZero() {
		s.v.sweeper.note(w.Allotment, w.NextLapse.Sub(w.Now))
	}
	off, known, apart := s.v.conservation(ctx, w.Counters, row, s.isNew(w.Place))
	s.remember(w, off, known)
	if apart {
		s.v.adopter.suspect(w.Place)
	}
	if row != nil && s.v.retire(ctx, *row, w) {
		s.mu.Lock()
		s.left[w.Allotment] = true
		s.mu.Unlock()
	}
}

// isNew says whether the row that is known of an allotment was read after something was last left open there.
func (s *supervisor) isNew(p store.Place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watched[p.Allotment]
	return w == nil || w.expected.Before(s.knownAt)
}

// since is how long ago t was; 0 if it is zero.
func since(now, t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return now.Sub(t)
}

// remember notes when to look again, and repairs a difference that stands.
func (s *supervisor) remember(w store.Work, off int64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	watched := s.watched[w.Allotment]
	if watched == nil {
		return
	}
	if known {
		watched.off = off
	}
	switch {
	case watched.off == 0:
		watched.offSince, watched.mended = time.Time{}, time.Time{}
		idle := w.NextLapse.IsZero() && watched.confirming == 0 && time.Since(watched.expected) > lookPatience // that look may have been before
		if idle {                                                                                              // all of those share so many looks a second
			every := min(idleMost, max(passEvery, time.Duration(len(s.watched))*time.Second/idleLooks))
			watched.nextLook = watched.nextLook.Add(every - passEvery)
		}
	case watched.offSince.IsZero():
		watched.offSince = time.Now()
		s.v.log.Error("an allotment's numbers do not add up; it is repaired if this stays so",
			slog.String("allotment", w.Allotment), slog.Int64("off_by", watched.off))
	case time.Since(later(watched.offSince, watched.mended)) >= offForGood:
		s.v.log.Error("an allotment's numbers still do not add up; it is adopted",
			slog.String("allotment", w.Allotment), slog.Int64("off_by", watched.off))
		watched.mended = time.Now()
		s.v.adopter.suspect(w.Place)
	}
}

// watchClock raises the alarm when Redis's clock has jumped: deadlines have then moved by as much.
func (s *supervisor) watchClock(ctx context.Context, w store.Work, r reading) {
	s.mu.Lock()
	before := w.Server
	if watched := s.watched[w.Allotment]; watched != nil {
		before, watched.server = watched.server, w.Server
	}
	jump := s.clocks.read(w.Server, before, r)
	s.mu.Unlock()
	if jump != 0 {
		s.v.metrics.clockJumps.Add(ctx, 1)
		s.v.log.Error("the clock of Redis has jumped, and deadlines with it", slog.Duration("by", jump))
	}
}

// feed applies what the ledger still has for Redis, again and again.
func (s *supervisor) feed(ctx context.Context) {
	for ctx.Err() == nil {
		for after := ""; ; {
			ids, err := s.v.o.Background.Pending(ctx, after, passPage)
			if err != nil || len(ids) == 0 {
				break
			}
			for _, id := range ids {
				s.feedOne(ctx, id)
			}
			after = ids[len(ids)-1]
		}
		_ = pause(ctx, passEvery)
	}
}

func (s *supervisor) feedOne(ctx context.Context, id string) {
	timed, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	row, err := s.v.o.Background.Allotment(timed, id)
	if err == nil && !row.Retired {
		err = s.v.feedTo(timed, row.Place, row.Feed)
	}
	if _, needed := errors.AsType[*store.AdoptNeeded](err); needed {
		s.adopt(row.Place, err) // which counts what the feed has
		return
	}
	if errors.Is(err, errFeedGap) {
		s.v.adopter.start(row.Place, true)
	}
	if err != nil && ctx.Err() == nil {
		s.v.log.Warn("the feed of an allotment is not applied yet", slog.String("allotment", id), slog.Any("error", err))
	}
}

// leave removes a retired allotment from Redis, where whoever retired it died before that. It says
// false while something in it is still to be done.
func (s *supervisor) leave(ctx context.Context, row store.Allotment) bool {
	if err := s.v.redis.Leave(ctx, row.Place, row.Epoch, row.Feed); err != nil {
		return !errors.Is(err, store.ErrStale)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[row.Place.Allotment] = true
	return true
}

// sums adds up over allotments, for the gauges.
func (s *supervisor) sums(now time.Time) sums {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n sums
	for _, w := range s.watched {
		if w.off != 0 {
			n.off++
			n.offUnits += max(w.off, -w.off)
			n.offFor = max(n.offFor, since(now, w.offSince))
		}
		n.held += w.held
		n.confirming += w.confirming
		n.confirms += w.confirms
		n.overdue += w.overdue
		if w.adopt {
			n.rebuilding++
		}
		n.lapseOverdue = max(n.lapseOverdue, w.lapsed)
		n.lag = max(n.lag, now.Sub(w.nextLook))
	}
	return n
}
