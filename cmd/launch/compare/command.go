package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"

	"github.com/holdfast-inventory/holdfast/cmd/launch/flags"
)

// Command is the flags of `launch compare`.
type Command struct {
	Capacity int64    `default:"5000" placeholder:"N" help:"Items for sale."`
	Requests int      `default:"20000" placeholder:"N" help:"Requests, each for one item (0.6) or two (0.4)."`
	Workers  int      `default:"64" placeholder:"N" help:"Callers at the same time. Each asks again when it has been answered."`
	Conns    int      `default:"16" placeholder:"N" help:"Most connections of a way to Postgres."`
	Seed     uint32   `default:"20260730" placeholder:"N" help:"Where the demand's random numbers start."`
	Ways     []string `placeholder:"NAME,..." help:"Only these ways: unprotected, mutex, optimistic, for-update, conditional, with-sale, redis, holdfast."`

	PostgresURL string `name:"postgres-url" placeholder:"URL" help:"Use this Postgres, in a scratch database that is dropped at the end, instead of a private one."`
	RedisURL    string `name:"redis-url" placeholder:"URL" help:"Use this Redis, under keys that are deleted at the end, instead of a private one."`
	Holdfast    string `placeholder:"PATH" help:"The holdfast program to serve with. Default: the one beside launch, else the one in PATH."`
	Addr        string `placeholder:"HOST:PORT" help:"Use the Holdfast that serves here, with its own stores, instead of starting one. The allotments made there are closed at the end."`

	JSON string `name:"json" placeholder:"FILE" help:"Write the figures there, too."`

	Replica bool `hidden:"" help:"Be one of the processes that have a mutex each."`
}

// Limits that keep a slip of the finger from taking the machine down.
const (
	mostRequests = 1_000_000
	mostWorkers  = 10_000
	mostConns    = 180 // a private Postgres has 200
	mostCapacity = 1_000_000_000
)

// Validate is called by kong when the command line has been read.
func (c *Command) Validate() error {
	if c.Replica {
		return nil
	}
	chosen, err := choose(c.Ways)
	return errors.Join(err,
		flags.Count("--capacity", c.Capacity, 1, mostCapacity),
		flags.Count("--requests", c.Requests, 1, mostRequests),
		flags.Count("--workers", c.Workers, 1, mostWorkers),
		flags.Count("--conns", c.Conns, 1, mostConns),
		c.checkServer(chosen),
		flags.File("--json", c.JSON),
		checkURL("--postgres-url", c.PostgresURL, "postgres", "postgresql"),
		checkURL("--redis-url", c.RedisURL, "redis", "rediss"))
}

// checkServer checks which Holdfast is compared.
func (c *Command) checkServer(chosen []way) error {
	isAsked := slices.ContainsFunc(chosen, func(w way) bool { return w.name == usesHoldfast })
	switch {
	case c.Addr != "" && c.Holdfast != "":
		return errors.New("--addr and --holdfast: must be one or the other")
	case (c.Addr != "" || c.Holdfast != "") && len(chosen) > 0 && !isAsked:
		return errors.New("--addr and --holdfast: must not be given where --ways leaves holdfast out")
	case c.Addr != "":
		return flags.Address("--addr", c.Addr)
	case c.Holdfast != "":
		if _, err := exec.LookPath(c.Holdfast); err != nil {
			return fmt.Errorf("--holdfast must be a program: %w", err)
		}
	}
	return nil
}

// checkURL checks a URL that may hold a password: it never shows any of it.
func checkURL(flag, text string, schemes ...string) error {
	if text == "" {
		return nil
	}
	if u, err := url.Parse(text); err != nil || !slices.Contains(schemes, u.Scheme) {
		return fmt.Errorf("%s must be a URL that begins with %s://", flag, schemes[0])
	}
	return nil
}

// Run plays the demand through each way and prints the table. It fails if a way breaks a promise that it makes.
func (c *Command) Run(ctx context.Context, out, errOut io.Writer) (err error) {
	if c.Replica {
		return runReplica(ctx, os.Stdin, out)
	}
	chosen, err := choose(c.Ways)
	if err != nil {
		return err
	}
	fmt.Fprintln(errOut, "starting the stores")
	stores, err := openStores(ctx, c, chosen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stores.close()) }() //nolint:contextcheck // stopping has its own time
	r := newReport(c)
	for i, w := range chosen {
		fmt.Fprintf(errOut, "%d of %d: %s\n", i+1, len(chosen), w.title)
		row, err := runWay(ctx, w, &env{settings: c, stores: stores, clock: newClock()})
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		r.add(row)
	}
	if err := r.print(out); err != nil {
		return err
	}
	if c.JSON != "" {
		if err := r.write(c.JSON); err != nil {
			return err
		}
	}
	return r.verdict(chosen)
}
