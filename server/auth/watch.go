package auth

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"os"
	"time"
)

// watched is files that are read together, and again when one has changed. They are compared by content: a mounted secret
// changes by way of symbolic links, whose targets' times tell nothing.
type watched struct {
	log   *slog.Logger
	what  string
	paths []string
	load  func(contents [][]byte) error
	seen  [sha256.Size]byte
	lost  bool // the files could not be read the last time
}

// watch reads the files for the first time.
func watch(log *slog.Logger, what string, load func(contents [][]byte) error, paths ...string) (*watched, error) {
	w := &watched{log: log, what: what, paths: paths, load: load}
	contents, sum, err := w.read()
	if err != nil {
		return nil, err
	}
	w.seen = sum
	if err := load(contents); err != nil {
		return nil, inFile(paths[0], err)
	}
	return w, nil
}

func (w *watched) read() (contents [][]byte, sum [sha256.Size]byte, err error) {
	whole := sha256.New()
	for _, path := range w.paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, sum, err
		}
		part := sha256.Sum256(content)
		whole.Write(part[:])
		contents = append(contents, content)
	}
	return contents, [sha256.Size]byte(whole.Sum(nil)), nil
}

// look loads the files if they have changed. Each change is logged once, whether it was of use or not.
func (w *watched) look() {
	contents, sum, err := w.read()
	if err != nil {
		if !w.lost {
			w.log.Error("cannot be read again: what was read before stays in force", "what", w.what, "error", err)
		}
		w.lost = true
		return
	}
	w.lost = false
	if sum == w.seen {
		return
	}
	w.seen = sum
	if err := w.load(contents); err != nil {
		w.log.Error("has changed and is wrong: what was read before stays in force", "what", w.what, "file", w.paths[0], "error", err)
		return
	}
	w.log.Info("read again", "what", w.what, "file", w.paths[0])
}

// follow looks at all of them, again and again until ctx is done.
func follow(ctx context.Context, every time.Duration, all ...*watched) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, w := range all {
			w.look()
		}
	}
}
