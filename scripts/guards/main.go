// Command guards takes the guards of the protocol out, one at a time, in a copy of the tree, and runs the
// seeded random test; if that does not miss the guard, the tests of the stores must, or those of the server.
//
//	go run ./scripts/guards            all of them, an hour or two
//	go run ./scripts/guards token feed the named ones
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-inventory/holdfast/cmd/faults/guards"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "guards:", err)
		os.Exit(1)
	}
}

func run(names []string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "holdfast-guards-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	copied := filepath.Join(work, "tree")
	unnoticed := 0
	for _, g := range guards.All {
		if len(names) > 0 && !slices.Contains(names, g.Name) {
			continue
		}
		noticed, err := try(g, root, copied)
		if err != nil {
			return fmt.Errorf("guard %s: %w", g.Name, err)
		}
		if len(noticed) == 0 {
			unnoticed++
			noticed = []string{"NOT NOTICED"}
		}
		fmt.Printf("%-18s %-60s %s\n", g.Name, g.Why, strings.Join(noticed, ", "))
	}
	if unnoticed > 0 {
		return fmt.Errorf("%d guards were not missed", unnoticed)
	}
	return nil
}

// try returns the tests that failed without the guard.
func try(g guards.Guard, root, tree string) ([]string, error) {
	if err := os.RemoveAll(tree); err != nil {
		return nil, err
	}
	if err := copyTree(root, tree); err != nil {
		return nil, err
	}
	file := filepath.Join(tree, g.File)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	without, err := g.Remove(string(text))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, []byte(without), 0o600); err != nil {
		return nil, err
	}
	for _, args := range tests(g) {
		if names, err := failing(tree, args...); err != nil || len(names) > 0 {
			return names, err
		}
	}
	return nil, nil
}

// tests are those that may miss a guard, the likeliest first.
func tests(g guards.Guard) [][]string {
	if path.Dir(g.File) == "server" {
		return [][]string{{"./server"}}
	}
	return [][]string{
		{"./server/inventory", "-run", "TestRandomCrashes", "-seeds", "3000", "-seed-time", "100s"}, {"./store/..."}, {"./server/inventory"},
	}
}

// hanging is how go test names a test that ran when the time was over.
var hanging = regexp.MustCompile(`(?m)^\t+(Test\w+) \(\d`)

// failing runs go test and returns the names of the tests that failed, or did not end.
func failing(tree string, args ...string) ([]string, error) {
	cmd := exec.Command("go", append([]string{"test", "-tags", "failpoints", "-timeout", "5m"}, args...)...)
	cmd.Dir = tree
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return nil, err
	}
	var names []string
	for line := range strings.SplitSeq(string(out), "\n") {
		if name, found := strings.CutPrefix(line, "--- FAIL: "); found {
			names = append(names, strings.Fields(name)[0])
		}
	}
	for _, match := range hanging.FindAllStringSubmatch(string(out), -1) {
		names = append(names, match[1])
	}
	if failed != nil && len(names) == 0 {
		return nil, fmt.Errorf("go test %s: %s", args[0], out)
	}
	return names, nil
}

// copyTree copies what git knows of the tree, and what is new in it.
func copyTree(root, tree string) error {
	list, err := exec.Command("git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSpace(string(list)), "\n") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		to := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
