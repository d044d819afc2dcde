package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// cluster is the data folder of a Postgres.
type cluster struct {
	folder *folder
	initdb string
	sync   bool
}

// prepare makes a new cluster in an empty folder, and looks whether an old one is free.
func (c cluster) prepare(ctx context.Context, run runner) error {
	_, err := os.Stat(filepath.Join(c.folder.data, "PG_VERSION"))
	if err == nil {
		return c.checkFree()
	}
	if !os.IsNotExist(err) {
		return fmt.Errorf("data folder: %w", err)
	}
	return c.create(ctx, run)
}

// create runs initdb beside the data folder and renames its work at the end, so that a half-made cluster is
// never taken for a whole one.
func (c cluster) create(ctx context.Context, run runner) error {
	unfinished, _ := filepath.Glob(filepath.Join(c.folder.dir, "initdb-*")) // the pattern is fixed and right
	for _, path := range unfinished {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove unfinished cluster: %w", err)
		}
	}
	fresh, err := os.MkdirTemp(c.folder.dir, "initdb-")
	if err != nil {
		return fmt.Errorf("make cluster: %w", err)
	}
	if err := c.folder.give(fresh); err != nil {
		return err
	}
	locale := "C.UTF-8"
	if runtime.GOOS != "linux" {
		locale = "C" // older macOS has no C.UTF-8
	}
	args := []string{
		"-D", fresh, "-U", superuser, "-A", "trust", "--locale=" + locale, "--encoding=UTF8", "--no-instructions",
	}
	if !c.sync {
		args = append(args, "--no-sync")
	}
	if err := run(ctx, c.initdb, args...); err != nil {
		return err
	}
	if err := os.Remove(c.folder.data); err != nil { // refuses if anything is in it
		return fmt.Errorf("data folder is no Postgres cluster: %w", err)
	}
	if err := os.Rename(fresh, c.folder.data); err != nil {
		return fmt.Errorf("make cluster: %w", err)
	}
	return nil
}

// checkFree looks for a server that somebody else started on the folder, without our lock. Postgres checks this
// too, but is misled by a postmaster.pid left by a crash whose number is taken, by some other process of the same
// user or by the dead server that nobody has waited for; both are common in containers. Such a file is removed.
func (c cluster) checkFree() error {
	path := filepath.Join(c.folder.data, "postmaster.pid")
	lines, err := readLines(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	pid := number(lines[0])
	if pid <= 0 || !exists(pid) {
		return nil // Postgres knows what to do
	}
	if isPostgres(pid) {
		return fmt.Errorf("%w: a Postgres with process id %d runs on %s; stop it, or choose another state folder",
			ErrInUse, pid, c.folder.data)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove stale postmaster.pid: %w", err)
	}
	return nil
}

// removeSharedMemory removes the System V segment of a killed Postgres, which its next start would do if there
// was one. A segment is small, but a machine has only some thousands, and when they are used up no
// Postgres starts. Best effort: one that stopped cleanly has no postmaster.pid and no segment.
func (c cluster) removeSharedMemory() {
	const shared = 6 // the line with the segment's key and id
	lines, err := readLines(filepath.Join(c.folder.data, "postmaster.pid"))
	if err != nil || len(lines) <= shared {
		return
	}
	if fields := strings.Fields(lines[shared]); len(fields) == 2 {
		_ = exec.Command("ipcrm", "-m", fields[1]).Run() // it may be gone
	}
}

// readLines returns at least one line, without the spaces around it.
func readLines(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	lines := strings.Split(string(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines, err
}
