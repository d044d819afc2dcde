package local

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

const tailSize = 4 << 10

// serverLog is a server's log, open for adding, from where this start began.
type serverLog struct {
	*os.File
	from int64
}

// rotate keeps one older log, so that a log does not grow for ever over the runs.
func rotate(path string) {
	_ = os.Rename(path, path+".1") // there may be none
}

func openLog(path string) (*serverLog, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("server log: %w", err)
	}
	from, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		_ = f.Close() // the seek's error says more
		return nil, fmt.Errorf("server log: %w", err)
	}
	return &serverLog{File: f, from: from}, nil
}

// explain adds what the server wrote to an error. Servers tell of a taken port only in their log, in
// English since we set LC_ALL.
func (l *serverLog) explain(err error) error {
	tail, readErr := readTail(l.File, l.from)
	if readErr != nil {
		return fmt.Errorf("%w (and its log: %w)", err, readErr)
	}
	if tail = bytes.TrimSpace(tail); len(tail) == 0 {
		return err
	}
	if bytes.Contains(tail, []byte("Address already in use")) {
		err = fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return fmt.Errorf("%w; end of its log %s:\n%s", err, l.Name(), tail)
}

// readTail reads the end of a log, at the most from an offset on.
func readTail(f *os.File, from int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from = max(from, info.Size()-tailSize)
	return io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
}

// LogTail returns the end of the server's log, for the message of a failed test.
func (s *server) LogTail() string {
	f, err := os.Open(s.folder.log(s.spec.name))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	tail, err := readTail(f, 0)
	if err != nil {
		return err.Error()
	}
	return string(tail)
}
