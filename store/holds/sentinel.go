package holds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/redis/go-redis/v9"
)

const switchChannel = "+switch-master"

// named is a Sentinel's word on the master.
type named struct {
	addr  string
	epoch int64 // of that configuration: the highest is the newest
}

// askSentinels follows the newest word of at least half of the Sentinels. A Sentinel that is cut off together with an old
// master still names that one, and is alone with it.
func (f *fleet) askSentinels(ctx context.Context) error {
	enough := (len(f.sentinels) + 1) / 2
	answers, failure := poll(ctx, f.sentinels, enough, f.askSentinel)
	got, newest := 0, &named{epoch: -1}
	for _, a := range answers {
		if a == nil {
			continue
		}
		got++
		if a.epoch > newest.epoch {
			newest = a
		}
	}
	known := len(f.view.Load().masters) > 0
	if got > 0 && (got >= enough || !known) { // better one word than none
		if err := f.follow([]string{newest.addr}, nil); err != nil {
			return err
		}
	}
	if got < enough {
		return fmt.Errorf("%d of %d Sentinels name a master called %s, which is less than half: %w",
			got, len(f.sentinels), f.target.master, failure)
	}
	return nil
}

// askSentinel fails if it does not know the master, too. The address is asked for by the command that
// already names the promoted one while its fellows are still being told.
func (f *fleet) askSentinel(ctx context.Context, client *redis.Client) (*named, error) {
	var addr *redis.StringSliceCmd
	details := redis.NewMapStringStringCmd(ctx, "sentinel", "master", f.target.master)
	_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error { // each has its own error
		addr = redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", f.target.master)
		_ = p.Process(ctx, addr)
		_ = p.Process(ctx, details)
		return nil
	})
	err := cmp.Or(addr.Err(), details.Err())
	if errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("%s knows none of that name", client.Options().Addr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", client.Options().Addr, err)
	}
	epoch, err := strconv.ParseInt(details.Val()["config-epoch"], 10, 64)
	if err != nil || len(addr.Val()) != 2 {
		return nil, fmt.Errorf("%s: an answer that makes no sense", client.Options().Addr)
	}
	return &named{addr: net.JoinHostPort(addr.Val()[0], addr.Val()[1]), epoch: epoch}, nil
}

// hearSwitches makes the fleet look as soon as a Sentinel announces another master.
func (f *fleet) hearSwitches(ctx context.Context, client *redis.Client) {
	for ctx.Err() == nil {
		sub := client.Subscribe(ctx, switchChannel)
		stop := context.AfterFunc(ctx, func() { _ = sub.Close() }) // a waiting Receive does not look at its context
		for {
			if _, err := sub.Receive(ctx); err != nil {
				break
			}
			f.suspect()
		}
		stop()
		_ = sub.Close() // it is broken
		_ = pause(ctx, listenRetry)
	}
}
