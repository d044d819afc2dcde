package cases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/linear"
	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/cmd/launch/books"
	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
	"github.com/holdfast-inventory/holdfast/cmd/launch/load"
)

const (
	createLimit = 20 * time.Second
	calmBefore  = 1500 * time.Millisecond // of the load, before the fault
	calmAfter   = 2 * time.Second
	longestLoad = 10 * time.Minute
	settleLimit = 5 * time.Second // after healing, until all adds up
	restLimit   = 30 * time.Second
	readEvery   = 50 * time.Millisecond

	// Whatever hangs ends then. The longest fault lasts for half a minute, and what is behind it for as long again.
	injectLimit = 4 * time.Minute
	mendLimit   = 2 * time.Minute
	playLimit   = 9 * time.Minute // less than the load lasts
)

// Stage is where a case is played.
type Stage struct {
	World   *world.World
	Long    bool
	Seed    uint64
	Scratch string // where histories go
	Case    Case
	Next    string // the program with another version of its scripts, if the case needs it

	load    Load
	start   time.Time
	scene   *Scene
	open    *load.Open
	books   *books.Books
	before  []world.Vitals
	history history.History
	small   linear.Verdict
	settled time.Duration // after healing; never: not within the limit
	problem string        // that was left when it had not settled
	stepped time.Duration // the clock of this machine

	mu     sync.Mutex
	stocks []history.Stock
}

// Played is what came of it.
type Played struct {
	Result  record.Result
	History *history.History
	Verdict *history.Verdict
	Story   []string // of the worst breach
	// Stepped is by how much the clock of this machine was stepped, beyond a millisecond.
	Stepped time.Duration
}

// timeless promises are kept whatever a clock does.
var timeless = []string{"R1", "R4", "R5"}

// Void says that what failed may be the doing of this machine's clock.
func (p *Played) Void() bool {
	broken := p.Verdict != nil && slices.ContainsFunc(p.Verdict.Promises, func(promise *history.Promise) bool {
		return promise.Breaches > 0 && slices.Contains(timeless, promise.ID)
	})
	return p.Stepped > 0 && len(p.Result.Failures) > 0 && !broken
}

func (p *Played) fail(format string, args ...any) {
	p.Result.Failures = append(p.Result.Failures, fmt.Sprintf(format, args...))
}

// Play lets callers call, injects the fault, and judges. An error: it could not be played.
func (s *Stage) Play(ctx context.Context) (*Played, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, playLimit, fmt.Errorf("the case was not over after %v", playLimit))
	defer cancel()
	played, err := s.play(ctx)
	if err == nil && len(played.Result.Failures) == 0 {
		return played, nil
	}
	err = errors.Join(err, s.keepLogs())
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, fmt.Errorf("%w: %w", cause, err)
	}
	return played, err
}

func (s *Stage) play(ctx context.Context) (*Played, error) {
	s.start = time.Now()
	s.load = s.Case.Load.filled(s.Long)
	allotment := strings.ToLower(s.Case.Row.Case) + fmt.Sprintf("-%d", s.start.UnixNano())
	s.scene = &Scene{
		World: s.World, Long: s.Long, Rand: rand.New(rand.NewPCG(s.Seed, 1)), //nolint:gosec // faults are drawn, no secrets
		Allotment: allotment, Next: s.Next, now: s.now, silent: map[string]bool{},
	}
	last := s.World.Servers[len(s.World.Servers)-1]
	var err error
	if s.books, err = books.Open(last.Callers.Addr(), "", allotment, s.now); err != nil {
		return nil, err
	}
	defer s.books.Close()
	s.scene.books = s.books
	if s.Case.Before != nil {
		if err := s.Case.Before(ctx, s.scene); err != nil {
			return nil, err
		}
	}
	creating, cancel := context.WithTimeout(ctx, createLimit)
	defer cancel()
	if err := s.books.Create(creating, s.load.Capacity, s.load.Window); err != nil {
		return nil, err
	}
	if s.before, err = s.vitals(ctx); err != nil {
		return nil, err
	}
	before, err := s.World.Epoch(ctx, allotment)
	if err != nil {
		return nil, err
	}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	after, err := s.World.Epoch(ctx, allotment)
	if err != nil {
		return nil, err
	}
	if after > before {
		s.scene.Hit("adopts", int(after-before))
	}
	return s.judge(ctx)
}

func (s *Stage) now() time.Duration { return time.Since(s.start) }

func (s *Stage) vitals(ctx context.Context) ([]world.Vitals, error) {
	var all []world.Vitals
	for _, server := range s.World.Servers {
		v, err := server.Vitals(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// run sends the load and injects the fault meanwhile, and waits until all is at rest.
func (s *Stage) run(ctx context.Context) error {
	plan := load.NewPlan(load.Crowd{
		Requests: s.load.Rate * int(longestLoad.Seconds()), Duration: longestLoad, Two: 0.3, Repeat: 0.05, Completion: 0.5,
		Window: s.load.Window, Seed: s.Seed,
	})
	s.open = &load.Open{
		Plan: plan, Allotment: s.books.Allotment, Addresses: s.World.Addresses(), Connections: 2 * len(s.World.Servers), Retries: 3, Start: s.start,
	}
	if err := s.open.Connect(ctx); err != nil {
		return err
	}
	loading, stopLoad := context.WithCancel(ctx)
	defer stopLoad()
	small, err := s.beginSmall(loading)
	if err != nil {
		return err
	}
	watching, stopWatch := context.WithCancel(ctx)
	defer stopWatch()
	var watcher sync.WaitGroup
	watcher.Go(func() { s.books.Watch(watching, readEvery, s.note) })
	watcher.Go(func() { s.stepped = watchClock(watching, ahead) })
	var injected error
	var injecting sync.WaitGroup
	injecting.Go(func() {
		defer stopLoad()
		injected = s.inject(ctx)
		s.scene.loadEnd = s.now()
	})
	calls := s.open.Run(loading, s.now())
	injecting.Wait()
	s.small = small.check()
	s.history = history.History{
		Allotment: s.books.Allotment, Capacity: s.load.Capacity, Window: s.load.Window, Buyer: plan.Buyer, Calls: calls,
		Forgive: s.Case.Forgive,
	}
	for _, f := range s.scene.faults {
		s.history.Faults = append(s.history.Faults, *f)
	}
	if injected != nil {
		stopWatch()
		watcher.Wait()
		return injected
	}
	settled := s.rest(ctx)
	stopWatch()
	watcher.Wait()
	s.history.Stocks = s.stocks
	finishing, cancel := context.WithTimeout(ctx, createLimit)
	defer cancel()
	if s.history.Final, err = s.books.Final(finishing, settled); err != nil {
		s.scene.Wrong(err.Error())
	}
	return nil
}

// inject waits, breaks, mends, and waits again.
func (s *Stage) inject(ctx context.Context) error {
	if err := pause(ctx, calmBefore); err != nil {
		return err
	}
	injecting, cancel := context.WithTimeoutCause(ctx, injectLimit, fmt.Errorf("the fault was not over after %v", injectLimit))
	defer cancel()
	err := s.Case.Inject(injecting, s.scene)
	healed := s.now()
	if err != nil {
		mending, cancel := context.WithTimeout(ctx, mendLimit)
		defer cancel()
		if cause := context.Cause(injecting); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return errors.Join(err, s.World.Mend(mending))
	}
	s.settle(ctx, healed)
	return pause(ctx, calmAfter-min(calmAfter, s.now()-healed))
}

// settle waits until both stores add up after healing, while callers go on.
func (s *Stage) settle(ctx context.Context, healed time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for s.settled = never; s.now()-healed < settleLimit; {
		b, err := s.World.Books(ctx, s.books.Allotment)
		switch {
		case err != nil:
			s.problem = lastly(s.problem, err)
		case b.Problem(false) != "":
			s.problem = b.Problem(false)
		default:
			s.settled = s.now() - healed
			return
		}
		if pause(ctx, readEvery) != nil {
			return
		}
	}
}

// rest waits until nothing is held and nothing is under way, and tells whether that came true.
func (s *Stage) rest(ctx context.Context) bool {
	problem := ""
	ctx, cancel := context.WithTimeout(ctx, s.load.Window+restLimit)
	defer cancel()
	for began := s.now(); s.now()-began < s.load.Window+restLimit; {
		b, err := s.World.Books(ctx, s.books.Allotment)
		switch {
		case err != nil:
			problem = lastly(problem, err)
		case b.Held != 0 || b.Confirming != 0 || b.Shrinking != 0:
			problem = fmt.Sprintf("%d held, %d confirming, %d shrinking", b.Held, b.Confirming, b.Shrinking)
		default:
			if problem = b.Problem(true); problem == "" {
				return true
			}
		}
		if pause(ctx, readEvery) != nil {
			break
		}
	}
	s.scene.Wrong("not at rest after every deadline: " + problem)
	return false
}

// lastly is what to tell when the time was over while the stores were read: what was wrong before.
func lastly(problem string, err error) string {
	if problem != "" && errors.Is(err, context.DeadlineExceeded) {
		return problem
	}
	return err.Error()
}

func (s *Stage) note(stock history.Stock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stocks = append(s.stocks, stock)
}

// judge says what was found.
func (s *Stage) judge(ctx context.Context) (*Played, error) {
	p := &Played{History: &s.history, Verdict: history.Judge(&s.history), Stepped: s.stepped}
	if s.Case.Check != nil {
		s.Case.Check(s.scene, &s.history)
	}
	p.Result = record.Result{Case: s.Case.Row.Case, Date: time.Now().UTC(), Long: s.Long, Seed: s.Seed}
	p.Result.Calls = count(&s.history, p.Verdict)
	p.Result.Times = times(&s.history, s.scene)
	p.Result.Times.Settled = ms(s.settled)
	for _, promise := range p.Verdict.Promises {
		for _, breach := range promise.Examples {
			p.fail("%s %s: %s", promise.ID, promise.Name, breach)
		}
	}
	for _, part := range s.Case.Forgive { // in an order
		if n := p.Verdict.Forgiven[part]; n > 0 {
			s.scene.Hit(part, n)
		}
	}
	p.Result.Hits = s.scene.hits
	if s.settled == never {
		p.Result.Times.Settled = ms(settleLimit)
		p.fail("the stores did not add up within %v of healing: %s", settleLimit, s.problem)
	}
	for _, wrong := range s.scene.wrong {
		p.fail("%s", wrong)
	}
	s.judgeSmall(p)
	s.judgeVitals(ctx, p)
	p.Story = s.history.Story(p.Verdict)
	return p, s.write()
}

// keepLogs leaves the last lines that each server logged in files, for a case that failed.
func (s *Stage) keepLogs() error {
	var failures []error
	for i, server := range s.World.Servers {
		file := filepath.Join(s.Scratch, fmt.Sprintf("%s-server-%d.log", s.scene.Allotment, i+1))
		failures = append(failures, os.WriteFile(file, []byte(server.Tail()+"\n"), 0o600))
	}
	return errors.Join(failures...)
}

// write leaves the history in a file.
func (s *Stage) write() error {
	file, err := os.Create(filepath.Join(s.Scratch, s.books.Allotment+".jsonl"))
	if err != nil {
		return err
	}
	return errors.Join(s.history.Write(file), file.Close())
}
