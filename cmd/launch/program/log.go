package program

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
)

// serverLog waits for the lines of the start, and keeps the last ones for whoever asks what went wrong.
type serverLog struct {
	ready chan struct{} // closed when it takes calls; the addresses are set then

	mu         sync.Mutex
	grpc, http string
	isUp       bool   // said so
	rest       []byte // of a line
	lines      []string
}

const keptLines = 20

func newServerLog() *serverLog { return &serverLog{ready: make(chan struct{})} }

func (l *serverLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, text...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		l.take(line)
		l.rest = rest
	}
}

func (l *serverLog) take(line []byte) {
	l.lines = append(l.lines, string(line))
	l.lines = l.lines[max(0, len(l.lines)-keptLines):]
	var entry struct{ Msg, GRPC, HTTP string }
	if json.Unmarshal(line, &entry) != nil || (l.isUp && l.grpc != "") {
		return // not every line need be an entry
	}
	switch entry.Msg { // in any order
	case "serving":
		l.grpc, l.http = entry.GRPC, entry.HTTP
	case "ready":
		l.isUp = true
	}
	if l.isUp && l.grpc != "" {
		close(l.ready)
	}
}

func (l *serverLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
