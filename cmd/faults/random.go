package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/faults/cases"
	"github.com/holdfast-inventory/holdfast/cmd/faults/guards"
	"github.com/holdfast-inventory/holdfast/cmd/faults/record"
	"github.com/holdfast-inventory/holdfast/cmd/faults/world"
	"github.com/holdfast-inventory/holdfast/store/local"
)

// playRandom draws faults for as long as was asked for. Without a guard it ends with the first failure.
func (p *player) playRandom(ctx context.Context) error {
	program := p.Holdfast
	if len(p.Without) > 0 {
		program = filepath.Join(p.scratch, "holdfast-without")
		if err := guards.Build(ctx, program, p.Without); err != nil {
			return err
		}
	}
	settings := world.Settings{Holdfast: program, Servers: p.Servers, Redis: local.RedisOptions{Persist: true}}
	cases.PrepareRandom(&settings)
	var err error
	if p.world, err = world.New(ctx, settings); err != nil {
		return err
	}
	began := time.Now()
	r := record.Random{Date: began.UTC(), Seed: p.Seed, Deployment: cases.RandomDeployment, Without: p.Without}
	draw := rand.New(rand.NewPCG(p.Seed, 4)) //nolint:gosec // faults are drawn, no secrets
	for time.Since(began) < p.Duration && (len(p.Without) == 0 || len(r.Failures) == 0) {
		if err := p.playRound(ctx, draw.Uint64(), &r); err != nil {
			if ctx.Err() != nil {
				return err
			}
			r.Failures = append(r.Failures, err.Error())
			break
		}
	}
	r.Seconds = time.Since(began).Round(time.Second).Seconds()
	p.judgeRandom(r)
	p.record.PutRandom(r)
	if p.Record == "" {
		return nil
	}
	return p.record.Save(p.Record, cases.Rows())
}

// playRound plays some faults on an allotment of its own.
func (p *player) playRound(ctx context.Context, seed uint64, r *record.Random) error {
	var names []string
	var drawn []cases.Case
	c := cases.Round(func(c cases.Case) {
		names, drawn = append(names, c.Row.Case), append(drawn, c)
	})
	stage := &cases.Stage{World: p.world, Seed: seed, Scratch: p.scratch, Case: c}
	played, err := stage.Play(ctx)
	if err != nil {
		return fmt.Errorf("round %d (%s): %w", r.Rounds+1, strings.Join(names, " and "), err)
	}
	if played.Void() {
		r.Void++
		p.tellRound("void", names, played)
		fmt.Fprintf(p.out, "        the clock of this machine was stepped by %v meanwhile\n", played.Stepped)
		return nil
	}
	r.Rounds++
	r.Add(played.Result)
	for _, c := range drawn {
		if len(c.Unproven(played.Result)) == 0 {
			r.Hit(c.Row.Case)
		}
	}
	for _, f := range played.Result.Failures {
		r.Failures = append(r.Failures, fmt.Sprintf("round %d (%s): %s", r.Rounds, strings.Join(names, " and "), f))
	}
	p.tellRound(strconv.Itoa(r.Rounds), names, played)
	return nil
}

// tellRound prints what was seen in a round, which goes by its number.
func (p *player) tellRound(number string, names []string, played *cases.Played) {
	fmt.Fprintf(p.out, "%4s %-28s %s\n", number, strings.Join(names, " and "), played.Result.Text())
	for _, line := range slices.Concat(played.Result.Failures, played.Story) {
		fmt.Fprintln(p.out, "       ", line)
	}
}

// judgeRandom: a run fails, and one without a guard fails if nothing else does.
func (p *player) judgeRandom(r record.Random) {
	if len(p.Without) == 0 && len(r.Failures) > 0 {
		p.failed = append(p.failed, fmt.Sprintf("the random run (%d failures, the first: %s)", len(r.Failures), r.Failures[0]))
	}
	if len(p.Without) > 0 && len(r.Failures) == 0 {
		p.failed = append(p.failed, "not missed: "+strings.Join(p.Without, ", "))
	}
	fmt.Fprintf(p.out, "%d rounds and %d void in %.0f s, seed %d: %d failures\n", r.Rounds, r.Void, r.Seconds, r.Seed, len(r.Failures))
}
