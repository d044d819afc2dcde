package main

import (
	"context"
	"io"
	"os"

	"golang.org/x/term"
)

// outlet is where we write for a reader who may go, as head does at the end of a pipe. That ends the load as an
// interrupt does: nobody looks on any more, and the allotment is not left open.
type outlet struct {
	to   io.Writer
	gone context.CancelFunc
}

func (o *outlet) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		o.gone()
	}
	return n, err
}

// isTerminal tells whether somebody looks on, so that a line may change.
func isTerminal(w io.Writer) bool {
	if o, ok := w.(*outlet); ok {
		w = o.to
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
