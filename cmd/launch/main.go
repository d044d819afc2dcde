// Command launch rehearses a launch on Holdfast: it makes the load, shows it, and checks every promise afterwards.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore) // the first signal ends the load, and what was sent is judged; a second one ends us at once
	// With nobody told of this signal, it would end us where we write to a pipe that nobody reads. The write fails
	// instead, which outlet takes care of. The signal itself also comes when a server closes a connection: it tells nothing.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
