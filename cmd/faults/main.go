// Command faults breaks what Holdfast stands on, one thing after the other or at random, while callers write down what they
// are told, and checks that every promise was kept.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	logging.Disable() // that a Redis is not there is no news here
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore) // the first signal ends the run, and what was started is stopped; a second one ends us at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
