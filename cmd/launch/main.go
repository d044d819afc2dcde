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
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
