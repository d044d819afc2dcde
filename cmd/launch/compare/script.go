package compare

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9" //nolint:depguard // this is what Holdfast is compared with: Redis without it
)

// checkAndTake is all that many a shop has: a counter that is checked and lowered in one step. It keeps no hold, so it can
// neither lapse nor be repeated safely.
const checkAndTake = `
local left = tonumber(redis.call('GET', KEYS[1]))
local quantity = tonumber(ARGV[1])
if left < quantity then return 0 end
redis.call('DECRBY', KEYS[1], quantity)
return 1`

// counter is a shop on a counter of Redis, with one script call for each request.
type counter struct {
	client   *redis.Client
	script   *redis.Script
	key      string
	callers  int
	clock    clock
	capacity int64
}

func openScript(_ context.Context, e *env) (shop, error) {
	options, err := redis.ParseURL(e.stores.redisURL)
	if err != nil {
		return nil, err
	}
	options.MaxRetries = -1 // a call whose answer was lost may have run
	return &counter{
		client: redis.NewClient(options), script: redis.NewScript(checkAndTake), key: e.stores.scratch + ":stock",
		callers: e.settings.Workers, clock: e.clock,
	}, nil
}

func (s *counter) restock(ctx context.Context, capacity int64) error {
	s.capacity = capacity
	return s.client.Set(ctx, s.key, capacity, 0).Err()
}

func (s *counter) ask(ctx context.Context, d demand) ([]answer, error) {
	keys := []string{s.key}
	return play(ctx, d.draw(), s.callers, s.clock, func(ctx context.Context, r request) (bool, error) {
		status, err := s.script.Run(ctx, s.client, keys, r.quantity).Int()
		return status == 1, err
	})
}

func (s *counter) audit(ctx context.Context, t tally) (string, error) {
	left, err := s.client.Get(ctx, s.key).Int64()
	if err == nil && s.capacity-left != t.Sold {
		err = fmt.Errorf("the counter says %d sold, buyers were told %d", s.capacity-left, t.Sold)
	}
	return "", err
}

// close also cleans up: the Redis may be the user's.
func (s *counter) close() error {
	defer s.client.Close()
	return s.client.Del(context.Background(), s.key).Err()
}

// forget deletes the keys of a server that is not ours alone. Every key of Holdfast begins with its group.
func forget(ctx context.Context, url, group string) error {
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer client.Close()
	found := client.Scan(ctx, 0, "hf:{"+group+"*", 1000).Iterator()
	for found.Next(ctx) {
		if err := client.Unlink(ctx, found.Val()).Err(); err != nil {
			return err
		}
	}
	return found.Err()
}
