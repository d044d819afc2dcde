// Command holdfast is the inventory service: a gRPC server that holds units in Redis and sells them in Postgres,
// and what goes with it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Set by the linker.
var (
	version  = "unknown"
	revision = "unknown"
)

func main() {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore) // the first signal stops us; a second one ends us at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
