// Command holdfast is the inventory service: a gRPC server that holds units in Redis and sells them in Postgres,
// and what goes with it.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// Set by the linker.
var (
	version  = "unknown"
	revision = "unknown"
)

// gcPercent lets garbage grow to four times the heap before it is collected, unless GOGC says otherwise: what lives is
// small, what a call leaves behind is much, and at Go's default collecting it is a quarter of the work of a
// call (BenchmarkHold in package server, client included). GOMEMLIMIT is obeyed.
const gcPercent = 400

func main() {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore) // the first signal stops us; a second one ends us at once
	signal.Ignore(syscall.SIGPIPE)  // whoever reads the log may go away; the service does not
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
