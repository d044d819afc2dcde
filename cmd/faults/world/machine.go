package world

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// shim is what moves the clock of one Redis.
//
//go:embed clock.c.txt
var shim []byte

// clock is that of a Redis, which a file moves.
type clock struct{ file string }

const clockFile = 4096 // bytes, a page: the shim maps it

// furnish makes what Redis is to have of a machine of its own.
func (w *World) furnish(ctx context.Context) error {
	if !w.SmallDisk && !w.Clock {
		return nil
	}
	dir, err := os.MkdirTemp("", "holdfast-machine-")
	if err != nil {
		return err
	}
	w.cleanups = append(w.cleanups, func() error { return os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // under root, Redis is another user
		return err
	}
	if w.SmallDisk {
		return w.mountSmall(ctx, dir)
	}
	return w.makeClock(ctx, dir)
}

// mountSmall gives Redis a small file system.
func (w *World) mountSmall(ctx context.Context, dir string) error {
	if output, err := exec.CommandContext(ctx, "mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("mount: %w: %s", err, output)
	}
	w.cleanups = append(w.cleanups, func() error { return exec.Command("umount", dir).Run() })
	w.Settings.Redis.Dir = dir
	return nil
}

// makeClock compiles the shim and makes Redis start with it.
func (w *World) makeClock(ctx context.Context, dir string) error {
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	w.clock = &clock{file: filepath.Join(dir, "shift")}
	for file, content := range map[string][]byte{source: shim, w.clock.file: make([]byte, clockFile)} {
		if err := os.WriteFile(file, content, 0o644); err != nil { //nolint:gosec // Redis is another user
			return err
		}
	}
	compile := exec.CommandContext(ctx, "gcc", "-O1", "-shared", "-fPIC", "-o", library, source)
	if output, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w: %s", err, output)
	}
	w.Settings.Redis.Env = append(w.Settings.Redis.Env, "LD_PRELOAD="+library, "CLOCK_SHIFT_FILE="+w.clock.file)
	return nil
}

// MoveClock makes the clock of Redis differ from the machine's by whole seconds.
func (w *World) MoveClock(by time.Duration) error {
	file, err := os.OpenFile(w.clock.file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	var shift [8]byte
	binary.NativeEndian.PutUint64(shift[:], uint64(int64(by/time.Second))) //nolint:gosec // two's complement, as the shim reads it
	_, err = file.WriteAt(shift[:], 0)
	return err
}
