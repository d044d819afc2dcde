package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

const (
	mostWatched  = 100 // in one call
	redrawEvery  = 250 * time.Millisecond
	reopenAfter  = 200 * time.Millisecond // as the service asks for
	reopenAtMost = 5 * time.Second
	triesAtFirst = 5
)

// watchCommand shows the numbers of allotments as they change.
type watchCommand struct {
	connection `embed:"" group:"Connection:"`

	IDs  []string `arg:"" optional:"" name:"id" help:"The allotments, up to 100. None: the first 100 of all."`
	Once bool     `name:"once" help:"Print the numbers as they are now, and end."`
}

// Run implements Command. An interrupt is how it ends, and no error.
func (c *watchCommand) Run(ctx context.Context, out, errOut io.Writer) error {
	ids, err := c.watched(ctx)
	if err != nil {
		return err
	}
	if c.Once {
		return c.once(ctx, ids, out)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news := make(chan news)
	go c.follow(ctx, ids, news)
	return c.show(ctx, ids, news, out, errOut)
}

// watched are the allotments to show: those that were named, or those that there are.
func (c *watchCommand) watched(ctx context.Context) ([]string, error) {
	if len(c.IDs) > 0 {
		return c.IDs, nil
	}
	r, err := call(ctx, &c.connection, pb.AdminServiceClient.ListAllotments, &pb.ListAllotmentsRequest{PageSize: mostWatched})
	if err != nil {
		return nil, needs(err, "which allotments there are is read from Postgres: holdfast admin watch ID needs only Redis")
	}
	var ids []string
	for _, a := range r.GetAllotments() {
		ids = append(ids, a.GetId())
	}
	if len(ids) == 0 {
		return nil, &UsageError{Problems: []string{"there is no allotment to watch: holdfast admin create makes one"}}
	}
	return ids, nil
}

func (c *watchCommand) once(ctx context.Context, ids []string, out io.Writer) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	r, err := pb.NewInventoryServiceClient(conn).BatchGetAvailability(ctx, &pb.BatchGetAvailabilityRequest{AllotmentIds: ids})
	if err != nil {
		return needs(explain(err), "the numbers are read from Redis")
	}
	v := newView(ids)
	for _, a := range r.GetAvailabilities() {
		v.note(a, time.Now())
		if c.JSON {
			if err := writeJSON(out, a); err != nil {
				return err
			}
		}
	}
	if c.JSON {
		return nil
	}
	return writeTable(out, v.table(time.Now()))
}

// needs adds to trouble with a store which one is needed.
func needs(err error, what string) error {
	if trouble, ok := errors.AsType[*callError](err); ok && trouble.reason == "STORE_UNAVAILABLE" {
		return fmt.Errorf("%w\n  %s", err, what)
	}
	return err
}

// news is one thing that a watch tells: numbers, or that there is trouble, after which it goes on; or its end.
type news struct {
	numbers *pb.Availability
	trouble error
	end     error
}

// follow watches until ctx is done, and again whenever the watch ends for the server's or the network's sake. Before anything
// has come it gives up after some tries.
func (c *watchCommand) follow(ctx context.Context, ids []string, tell chan<- news) {
	say := func(n news) {
		select {
		case tell <- n:
		case <-ctx.Done():
		}
	}
	conn, err := c.dial()
	if err != nil {
		say(news{end: err})
		return
	}
	defer conn.Close()
	client, wait, came := pb.NewInventoryServiceClient(conn), reopenAfter, false
	for try := 1; ctx.Err() == nil; try++ {
		stream, err := client.WatchAvailability(ctx, &pb.WatchAvailabilityRequest{AllotmentIds: ids})
		for err == nil {
			var r *pb.WatchAvailabilityResponse
			if r, err = stream.Recv(); err == nil {
				came, wait = true, reopenAfter
				say(news{numbers: r.GetAvailability()})
			}
		}
		if status.Code(err) != codes.Unavailable || !came && try == triesAtFirst {
			say(news{end: explain(err)})
			return
		}
		say(news{trouble: explain(err)})
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, reopenAtMost)
	}
}

// show shows news until they end or ctx is done: in place on a terminal, otherwise a line for each change.
func (c *watchCommand) show(ctx context.Context, ids []string, tell <-chan news, out, errOut io.Writer) error {
	v := newView(ids)
	var redraw <-chan time.Time
	screen := terminal(out)
	if c.JSON {
		screen = nil
	}
	if screen != nil {
		ticks := time.NewTicker(redrawEvery)
		defer ticks.Stop()
		defer screen.leave()
		redraw = ticks.C
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-redraw:
			err = screen.draw(v, time.Now())
		case n := <-tell:
			err = c.take(n, v, screen, out, errOut)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// take notes what a watch tells and, without a screen, prints it.
func (c *watchCommand) take(n news, v *view, screen *screen, out, errOut io.Writer) error {
	switch {
	case n.end != nil:
		return n.end
	case n.trouble != nil:
		v.trouble = n.trouble
		if screen == nil {
			fmt.Fprintln(errOut, "holdfast: the watch ended, and is opened again:", n.trouble)
		}
		return nil
	}
	v.trouble = nil
	changed := v.note(n.numbers, time.Now())
	switch {
	case screen != nil || !changed:
		return nil
	case c.JSON:
		return writeJSON(out, n.numbers)
	default:
		_, err := fmt.Fprintln(out, v.line(n.numbers, time.Now()))
		return err
	}
}
