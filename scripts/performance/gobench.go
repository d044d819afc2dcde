package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// benchmark is a Go benchmark whose figures are published.
type benchmark struct {
	name     string // of the experiment
	title    string
	pkg      string // folder
	match    string // for -bench
	time     string // for -benchtime; empty: a second
	asked    string
	shows    []string  // units of the figures that are shown; none: all
	measures []measure // those that have a target, or a row in the README
}

func goBenchmarks() []experiment {
	var all []experiment
	for _, g := range benchmarks {
		command := fmt.Sprintf("`go test -run '^$' -bench '%s' -benchtime %s ./%s`", g.match, g.benchtime(), g.pkg)
		all = append(all, experiment{
			name: g.name, title: g.title, asked: command + ": " + g.asked, measures: g.measures, once: g.once,
			rest: func(unit string) bool { return len(g.shows) == 0 || slices.Contains(g.shows, unit) },
		})
	}
	return all
}

func (g benchmark) benchtime() string { return cmp.Or(g.time, "1s") }

// once runs it, compiled before: neither takes the compiler the processors nor is it in the way of a signal. A benchmark
// that is not there is an error.
func (g benchmark) once(ctx context.Context, b *bench) (run, error) {
	binary, err := b.test(ctx, g.pkg)
	if err != nil {
		return run{}, err
	}
	cmd := exec.Command(binary, "-test.run=^$", "-test.bench="+g.match, "-test.benchtime="+g.benchtime(), "-test.timeout=20m")
	cmd.Dir = filepath.Join(b.root, g.pkg)
	output, r, err := b.play(ctx, cmd)
	if err != nil {
		return run{}, err
	}
	r.Figures = parseBenchmarks(output)
	switch {
	case len(r.Figures) > 0:
		return r, nil
	case r.Failure != "":
		return run{}, errors.New(r.Failure)
	default:
		return run{}, fmt.Errorf("there is no benchmark %s in %s, or it was skipped", g.match, g.pkg)
	}
}

// test compiles the tests of a package once, and returns where they are.
func (b *bench) test(ctx context.Context, pkg string) (string, error) {
	if b.tests[pkg] == "" {
		binary := filepath.Join(b.scratch, strings.ReplaceAll(pkg, "/", "-")+".test")
		compile := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./"+pkg)
		compile.Dir = b.root
		if output, err := compile.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go test -c ./%s: %w: %s", pkg, err, output)
		}
		b.tests[pkg] = binary
	}
	return b.tests[pkg], nil
}
