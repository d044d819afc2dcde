package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/cases"
	"github.com/holdfast-inventory/holdfast/cmd/faults/guards"
	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/store/local"
)

// player plays cases, one after the other.
type player struct {
	*settings

	out     io.Writer
	scratch string
	record  *record.Record
	failed  []string // what did
	world   *world.World
	program string // of world
}

var errFailed = errors.New("not all is as it must be")

// play does what the command line asks for.
func play(ctx context.Context, s *settings, out io.Writer) (err error) {
	p := &player{settings: s, out: out, record: &record.Record{}}
	if s.Record != "" {
		if p.record, err = record.Load(s.Record); err != nil {
			return err
		}
	}
	if s.Render {
		return p.record.Save(s.Record, cases.Rows())
	}
	p.record.Machine = machineFacts()
	if s.Seed == 0 {
		s.Seed = rand.Uint64()>>12 + 1 //nolint:gosec // faults are drawn, no secrets
	}
	if p.scratch, err = os.MkdirTemp("", "holdfast-faults-"); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, p.close())
	}()
	fmt.Fprintf(out, "seed %d, histories in %s\n", s.Seed, p.scratch)
	if s.Holdfast == "" {
		s.Holdfast = filepath.Join(p.scratch, "holdfast")
		if err := guards.Build(ctx, s.Holdfast, nil); err != nil {
			return err
		}
	}
	if s.Duration > 0 {
		return p.playRandom(ctx)
	}
	return p.playCases(ctx)
}

// close ends what runs, and keeps the histories if something failed.
func (p *player) close() error {
	err := p.leave()
	if len(p.failed) == 0 && p.Keep {
		return err
	}
	if len(p.failed) == 0 {
		return errors.Join(err, os.RemoveAll(p.scratch))
	}
	fmt.Fprintf(p.out, "\nfailed: %s\nthe histories are in %s\n", strings.Join(p.failed, ", "), p.scratch)
	return errors.Join(err, errFailed)
}

// playCases plays those that were asked for.
func (p *player) playCases(ctx context.Context) error {
	for _, c := range p.choose() {
		if err := p.playCase(ctx, c); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("%s: %w", c.Row.Case, err)
			}
			p.abandon(c, err)
		}
		if p.Record != "" {
			if err := p.record.Save(p.Record, cases.Rows()); err != nil {
				return err
			}
		}
	}
	return nil
}

// abandon records that a case could not be played to its end; the others can.
func (p *player) abandon(c cases.Case, err error) {
	fmt.Fprintf(p.out, "%-7s FAILED %v\n", c.Row.Case, err)
	p.failed = append(p.failed, c.Row.Case)
	p.record.Put(record.Result{Case: c.Row.Case, Date: time.Now().UTC(), Long: !p.Short, Seed: p.Seed, Failures: []string{err.Error()}})
}

// choose returns the cases that are to be played: those that share a world first.
func (p *player) choose() []cases.Case {
	var chosen, own []cases.Case
	for _, c := range cases.All() {
		wanted := len(p.Only) == 0 && (c.Short || !p.Short) || slices.Contains(p.Only, c.Row.Case) || slices.Contains(p.Only, c.Number())
		switch {
		case !wanted || c.NotApplicable != "":
		case c.Prepare != nil:
			own = append(own, c)
		default:
			chosen = append(chosen, c)
		}
	}
	return append(chosen, own...)
}

// playCase plays one case, and its control if that was asked for.
func (p *player) playCase(ctx context.Context, c cases.Case) error {
	result, err := p.once(ctx, c, p.Holdfast, nil)
	if err != nil {
		return err
	}
	if p.Controls && len(c.Guards) > 0 && result.Skipped == "" {
		if err := p.control(ctx, c, &result); err != nil {
			return err
		}
	}
	p.record.Put(result)
	return nil
}

// control plays a case without its guards.
func (p *player) control(ctx context.Context, c cases.Case, result *record.Result) error {
	program := filepath.Join(p.scratch, "holdfast-without-"+strings.Join(c.Guards, "-"))
	if err := guards.Build(ctx, program, c.Guards); err != nil {
		return err
	}
	failed := p.failed
	without, err := p.once(ctx, c, program, c.Guards)
	if err != nil {
		without.Failures = append(without.Failures, err.Error())
	}
	p.failed = failed
	result.Control = &record.Control{Date: time.Now().UTC(), Guards: c.Guards}
	if len(without.Failures) > 0 {
		result.Control.Failure = without.Failures[0]
	} else {
		p.failed = append(p.failed, c.Row.Case+" without "+strings.Join(c.Guards, ", "))
	}
	return p.leave()
}

// tellControl prints whether a case was missed that lacked guards.
func (p *player) tellControl(c cases.Case, r record.Result, without []string, took time.Duration) {
	what := strings.Join(without, ", ")
	if len(r.Failures) == 0 {
		fmt.Fprintf(p.out, "%-7s FAILED control: without %s it must fail, and does not (%.1f s)\n        %s\n", c.Row.Case, what, took.Seconds(), r.Text())
		return
	}
	fmt.Fprintf(p.out, "%-7s ok     control: without %s it fails, as it must (%.1f s)\n        - %s\n", c.Row.Case, what, took.Seconds(), r.Failures[0])
}

// mostPlays is how often a case is played that fails while the clock of this machine is stepped.
const mostPlays = 3

// once plays a case with a program without some guards, and again if what failed may be the clock's doing.
func (p *player) once(ctx context.Context, c cases.Case, program string, without []string) (record.Result, error) {
	began := time.Now()
	if c.Needs != nil {
		if missing := c.Needs(); missing != "" {
			fmt.Fprintf(p.out, "%-7s SKIPPED: %s\n", c.Row.Case, missing)
			return record.Result{Case: c.Row.Case, Date: began.UTC(), Skipped: missing}, nil
		}
	}
	next := ""
	if c.Upgrades {
		next = filepath.Join(p.scratch, "holdfast-next")
		if err := guards.BuildNext(ctx, next); err != nil {
			return record.Result{}, err
		}
	}
	for plays := 1; ; plays++ {
		played, err := p.stage(ctx, c, program, next)
		if err != nil {
			return record.Result{}, err
		}
		again := played.Void() && plays < mostPlays
		p.tell(c, played, without, again, time.Since(began))
		if !again {
			return played.Result, nil
		}
	}
}

// stage plays a case in the world that it needs.
func (p *player) stage(ctx context.Context, c cases.Case, program, next string) (*cases.Played, error) {
	if err := p.enter(ctx, c, program); err != nil {
		return nil, err
	}
	stage := &cases.Stage{
		World: p.world, Long: !p.Short, Seed: p.Seed, Scratch: p.scratch, Case: c, Next: next,
	}
	played, err := stage.Play(ctx)
	if err != nil {
		return nil, errors.Join(err, p.leave())
	}
	for _, sign := range c.Unproven(played.Result) {
		played.Result.Failures = append(played.Result.Failures, "the fault did not hit: no sign of "+sign)
	}
	if c.Prepare != nil {
		err = p.leave()
	}
	return played, err
}

// enter makes the world that a case needs, if it is not there.
func (p *player) enter(ctx context.Context, c cases.Case, program string) error {
	if p.world != nil && p.program == program && c.Prepare == nil {
		return nil
	}
	if err := p.leave(); err != nil {
		return err
	}
	s := world.Settings{Holdfast: program, Servers: p.Servers, Redis: local.RedisOptions{Persist: true}}
	if c.Prepare != nil {
		c.Prepare(&s)
	}
	w, err := world.New(ctx, s)
	if err != nil {
		return err
	}
	p.world, p.program = w, program
	return nil
}

// leave ends the world.
func (p *player) leave() error {
	if p.world == nil {
		return nil
	}
	w := p.world
	p.world = nil
	return w.Close()
}

// tell prints what came of a case, which may be played again. Without guards it must fail.
func (p *player) tell(c cases.Case, played *cases.Played, without []string, again bool, took time.Duration) {
	r := played.Result
	outcome := "ok"
	switch {
	case again:
		outcome = "VOID"
	case len(without) > 0:
		p.tellControl(c, r, without, took)
		return
	case len(r.Failures) > 0:
		outcome = "FAILED"
		p.failed = append(p.failed, c.Row.Case)
	}
	fmt.Fprintf(p.out, "%-7s %-6s %s (%.1f s)\n        %s\n", c.Row.Case, outcome, c.Fault, took.Seconds(), r.Text())
	for _, f := range r.Failures {
		fmt.Fprintln(p.out, "        -", f)
	}
	if played.Void() {
		fmt.Fprintf(p.out, "        - the clock of this machine was stepped by %v meanwhile\n", played.Stepped)
	}
	for _, line := range played.Story {
		fmt.Fprintln(p.out, "          ", line)
	}
}
