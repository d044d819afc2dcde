// Package guards is the protections of the protocol as texts of the sources, and builds the program without some of them: what
// a test cannot miss when it is gone proves nothing.
package guards

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Guard is one protection: the text that makes it, and the text that takes it out.
type Guard struct {
	Name, Why string
	File      string // from the root of the sources
	With      string
	Without   string
}

// Remove returns the text of the guard's file without it. There must be one such place.
func (g Guard) Remove(text string) (string, error) {
	if n := strings.Count(text, g.With); n != 1 {
		return "", fmt.Errorf("guard %s: %s has its text %d times, want once", g.Name, g.File, n)
	}
	return strings.Replace(text, g.With, g.Without, 1), nil
}

// Build builds the sources in the working directory into program, without the guards named. The sources stay as they are.
func Build(ctx context.Context, program string, without []string) error {
	var out []Guard
	for _, name := range without {
		at := slices.IndexFunc(All, func(g Guard) bool { return g.Name == name })
		if at < 0 {
			return fmt.Errorf("there is no guard %q", name)
		}
		out = append(out, All[at])
	}
	return build(ctx, program, out)
}

// next is a change of the scripts that changes nothing for anybody.
var next = Guard{Name: "next", Why: "a later version", File: "lua/prelude.lua", With: "local BOUND = 128", Without: "local BOUND = 127"}

// BuildNext builds what might be the next version: its scripts are other ones to Redis.
func BuildNext(ctx context.Context, program string) error { return build(ctx, program, []Guard{next}) }

// build builds with the fail points, which do nothing unless one is named.
func build(ctx context.Context, program string, without []Guard) error {
	args := []string{"build", "-tags", "failpoints", "-o", program}
	if len(without) > 0 {
		overlay, err := makeOverlay(program+".overlay", without)
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	build := exec.CommandContext(ctx, "go", append(args, "./cmd/holdfast")...)
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/holdfast: %w\n%s", err, output)
	}
	return nil
}

// makeOverlay writes the files without the guards, and the list of them that go build reads.
func makeOverlay(dir string, without []Guard) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	texts := map[string]string{} // by file
	for _, g := range without {
		if _, there := texts[g.File]; !there {
			text, err := os.ReadFile(g.File)
			if err != nil {
				return "", err
			}
			texts[g.File] = string(text)
		}
		text, err := g.Remove(texts[g.File])
		if err != nil {
			return "", err
		}
		texts[g.File] = text
	}
	return writeOverlay(dir, texts)
}

func writeOverlay(dir string, texts map[string]string) (string, error) {
	replace := map[string]string{}
	for file, text := range texts {
		from, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[from] = to
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}
