package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-inventory/holdfast/cmd/launch/result"
	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

const (
	flushPatience = time.Minute // until the launch has begun, and until its Redis is back
	askEvery      = 2 * time.Millisecond
	askLimit      = 100 * time.Millisecond // of one question
)

// flushed is a launch that loses its Redis at the worst moment.
func flushed() experiment {
	return experiment{
		name: "flush", title: "FLUSHALL at the height of a launch",
		asked: "`launch onsale`, whose Redis is emptied by FLUSHALL when half of the 5,000 units are held. Another caller asks for the stock all the while. " +
			"The holds are lost with Redis (durability none), and their buyers are told so; units that were not sold are held again.",
		measures: []measure{
			{name: "back", unit: "ms", what: "from the end of FLUSHALL to the first answer of the stock", target: atMost(1000)},
			{name: "sold", what: "units sold in the end, of 5,000", target: atMost(5000)},
			{name: "oversold", what: "units oversold", target: always(0)},
			{name: "valid refusals", what: "requests that were refused although enough was free", target: always(0)},
			{name: "told lapsed", what: "confirms that were told HOLD_LAPSED"},
			{name: "undecided", what: "answers that were trouble, or none came; repeats of such are counted, too"},
			{name: "p99", unit: "ms", what: "decision, p99"},
			{name: "late", what: "answers that took more than 100 ms"},
		},
		once: flushOnce,
	}
}

func flushOnce(ctx context.Context, b *bench) (r run, err error) {
	p, err := open(ctx, b.binary("holdfast"), 1)
	if err != nil {
		return run{}, err
	}
	defer func() { err = errors.Join(err, p.close()) }() //nolint:contextcheck // stopping has its own time
	flushing, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	type flush struct {
		back time.Duration
		err  error
	}
	done := make(chan flush, 1)
	go func() {
		back, err := p.flushAtHalf(flushing)
		done <- flush{back, err}
	}()
	var found result.Result
	r, err = b.readJSON(ctx, &found, append([]string{"onsale"}, p.flags()...)...)
	cancel()
	f := <-done
	if err := errors.Join(err, f.err); err != nil {
		return run{}, err
	}
	r.Failure = "" // launch misses the holds that were lost
	r.Figures = flushFigures(&found, f.back)
	return r, nil
}

func flushFigures(found *result.Result, back time.Duration) []figure {
	lapsed := int64(0)
	for _, o := range found.Outcomes {
		if o.Call == "confirm" && o.Why == "HOLD_LAPSED" {
			lapsed += o.Calls
		}
	}
	figures := []figure{
		{"back", "ms", float64(back) / float64(time.Millisecond)},
		{"told lapsed", "", float64(lapsed)},
		{"undecided", "", undecided(found)},
		{"p99", "ms", found.Decisions.P99},
		{"late", "", float64(found.Decisions.Over)},
	}
	if found.End != nil {
		figures = append(figures, figure{"sold", "", float64(found.End.Sold)})
	}
	if v := found.Verdict; v != nil {
		figures = append(figures, figure{"oversold", "", float64(v.Oversold)}, figure{"valid refusals", "", float64(v.ValidRefusals)})
	}
	return figures
}

// flushAtHalf empties Redis when half of the only allotment's units are taken, and returns how long it was until the
// stock could be read again.
func (p *private) flushAtHalf(ctx context.Context) (time.Duration, error) {
	conn, err := grpc.NewClient(p.servers[0].Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	allotment := ""
	err = ask(ctx, func(ctx context.Context) bool {
		got, err := pb.NewAdminServiceClient(conn).ListAllotments(ctx, &pb.ListAllotmentsRequest{})
		if err == nil && len(got.GetAllotments()) > 0 {
			allotment = got.GetAllotments()[0].GetId()
		}
		return allotment != ""
	})
	if err != nil {
		return 0, fmt.Errorf("the launch has opened nothing: %w", err)
	}
	stock := func(enough func(*pb.Availability) bool) error {
		return ask(ctx, func(ctx context.Context) bool {
			got, err := pb.NewInventoryServiceClient(conn).GetAvailability(ctx, &pb.GetAvailabilityRequest{AllotmentId: allotment})
			return err == nil && enough(got.GetAvailability())
		})
	}
	if err := stock(func(a *pb.Availability) bool { return 2*a.GetAvailable() <= a.GetCapacity() }); err != nil {
		return 0, fmt.Errorf("half of the units were never taken: %w", err)
	}
	options, err := redis.ParseURL(p.redis.URL())
	if err != nil {
		return 0, err
	}
	client := redis.NewClient(options)
	defer client.Close()
	if err := client.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	flushedAt := time.Now()
	if err := stock(func(*pb.Availability) bool { return true }); err != nil {
		return 0, fmt.Errorf("the stock could not be read any more: %w", err)
	}
	return time.Since(flushedAt), nil
}

// ask asks until the answer will do.
func ask(ctx context.Context, question func(context.Context) bool) error {
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, askLimit)
		enough := question(limited)
		cancel()
		if enough {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
