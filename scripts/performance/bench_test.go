package main

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPlay(t *testing.T) {
	t.Parallel()
	b := &bench{log: io.Discard}
	out, r, err := b.play(t.Context(), exec.Command("sh", "-c", "echo found"))
	if err != nil || out != "found\n" || r.Failure != "" {
		t.Errorf("%q, %+v, %v", out, r, err)
	}
	_, r, err = b.play(t.Context(), exec.Command("sh", "-c", "echo something; echo 'a promise was broken' >&2; exit 1"))
	if err != nil || r.Failure != "a promise was broken; exit status 1" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, _, err := b.play(t.Context(), exec.Command(filepath.Join(t.TempDir(), "nothing"))); err == nil {
		t.Error("a program that is not there was run")
	}
}

// TestInterrupt: what runs is stopped, and has found nothing.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := (&bench{}).play(ctx, exec.Command("sleep", "600")); err == nil {
		t.Error("it was not interrupted")
	}
}

// TestFacts asks servers that it starts.
func TestFacts(t *testing.T) {
	t.Parallel()
	b := &bench{root: t.TempDir()}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", b.binary("holdfast"), "github.com/holdfast-inventory/holdfast/cmd/holdfast")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	f, err := b.readFacts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f.CPU == "" || f.Cores < 1 || f.Kernel == "" || !strings.HasPrefix(f.Go, "1.") || f.Redis == "" || f.Postgres == "" ||
		f.GOGC == "" || f.MaxProcs == "" {
		t.Errorf("%+v", f)
	}
}

// TestGoBenchmark runs one of another package, and misses one that is not there.
func TestGoBenchmark(t *testing.T) {
	t.Parallel()
	b := &bench{root: "../..", scratch: t.TempDir(), tests: map[string]string{}, log: io.Discard}
	g := benchmark{pkg: "store/batch", match: "^BenchmarkAdd$", time: "10x"}
	if r, err := g.once(t.Context(), b); err != nil || len(r.Figures) == 0 || !strings.HasPrefix(r.Figures[0].Name, "Add") {
		t.Errorf("%+v, %v", r, err)
	}
	g.match = "^BenchmarkNothing$"
	if r, err := g.once(t.Context(), b); err == nil || !strings.Contains(err.Error(), "no benchmark") {
		t.Errorf("%+v, %v", r, err)
	}
}
