// Command performance measures what docs/performance.md promises to have measured, writes that document, and fills in the
// README's table. Its figures are kept beside the document as JSON, from which both are rendered.
//
//	go run ./scripts/performance                        everything, some hours on a machine with neighbours
//	go run ./scripts/performance --only launch,closed   only these; the other results stay as they are
//	go run ./scripts/performance --render               nothing: only writes the texts anew
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// document is where the results are published. Elsewhere they are an attempt, and the README does not show them.
const document = "docs/performance.md"

// The rule that the document states.
const (
	wantedRuns = 5
	mostTries  = 15
)

type settings struct {
	only        string
	runs, tries int
	out         string
	render      bool
}

func main() {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore) // the first signal stops what was started; a second one ends us at once
	s := readSettings()
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "performance:", err)
		os.Exit(1)
	}
}

func readSettings() settings {
	var s settings
	flag.StringVar(&s.only, "only", "", "measure only these experiments: `NAME,...`, or the beginning of a name, such as closed")
	flag.IntVar(&s.runs, "runs", wantedRuns, "how many undisturbed runs of an experiment are wanted")
	flag.IntVar(&s.tries, "tries", mostTries, "how many runs may be tried for that")
	flag.StringVar(&s.out, "out", document, "write the document to this `FILE.md`, and the figures to FILE.json; the README's table is only filled in from "+document)
	flag.BoolVar(&s.render, "render", false, "measure nothing: write the texts anew from the figures that are there")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: performance [flags]")
		flag.PrintDefaults()
		fmt.Fprintln(flag.CommandLine.Output(), "experiments:", strings.Join(names(experiments()), ", "))
	}
	flag.Parse()
	return s
}

func (s settings) run(ctx context.Context) error {
	if flag.NArg() > 0 || s.runs < 1 || s.tries < s.runs || filepath.Ext(s.out) != ".md" {
		return errors.New("--runs must be 1 or more, --tries no fewer than those, --out a FILE.md, and nothing else is taken")
	}
	chosen, err := choose(experiments(), s.only)
	if err != nil {
		return err
	}
	r, err := load(s.figures())
	if err != nil {
		return err
	}
	if s.render {
		return s.write(r)
	}
	b, err := prepare(ctx)
	if err != nil {
		return err
	}
	defer b.close()
	return s.measure(ctx, b, chosen, r)
}

// measure measures one experiment after the other, and writes each result when it is there.
func (s settings) measure(ctx context.Context, b *bench, chosen []experiment, r *record) error {
	facts, err := b.readFacts(ctx)
	if err != nil {
		return err
	}
	sources := revision(ctx)
	var failed []string
	for _, e := range chosen {
		result := b.measure(ctx, e, s.runs, s.tries)
		if ctx.Err() != nil {
			return errors.New("interrupted: what was finished before is written")
		}
		result.Machine, result.Revision = facts, sources
		r.put(result)
		if err := s.write(r); err != nil {
			return err
		}
		if len(result.failures()) > 0 {
			failed = append(failed, e.name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("there were failures, which the document shows: %s", strings.Join(failed, ", "))
	}
	return nil
}

// figures is where the results are kept.
func (s settings) figures() string { return strings.TrimSuffix(s.out, ".md") + ".json" }

// write writes the results, and the texts that are made from them.
func (s settings) write(r *record) error {
	if err := r.save(s.figures()); err != nil {
		return err
	}
	if err := writeFile(s.out, render(experiments(), r)); err != nil {
		return err
	}
	if s.out != document {
		return nil
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	filled, err := fill(string(text), readmeTable(experiments(), r))
	if err != nil {
		return fmt.Errorf("README.md: %w", err)
	}
	return writeFile("README.md", filled)
}

func writeFile(name, text string) error {
	return os.WriteFile(name, []byte(text), 0o644) //nolint:gosec // for everybody
}
