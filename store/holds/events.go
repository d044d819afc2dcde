package holds

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store"
)

const eventSetting = "notify-keyspace-events"

const (
	listenTick   = time.Second     // between two looks at the canary
	listenSilent = 4 * time.Second // without any message: the subscription is deaf
	listenRetry  = time.Second     // before subscribing anew
)

var errDeaf = errors.New("the canary's expiry was not announced: notifications are off, or the link is dead")

// errNoCanary: whether the subscription hears is not known. It is made anew all the same, as the link may be dead.
var errNoCanary = errors.New("the canary could not be set")

// Listen implements store.Events. Each master announces what lapses on it, and nothing else does.
func (s *Store) Listen(ctx context.Context, lapsed func(store.HoldID), gap func(at func(store.Place) bool)) {
	var listeners sync.WaitGroup
	defer listeners.Wait()
	running := map[*node]context.CancelFunc{}
	for ctx.Err() == nil {
		masters, changed := s.fleet.masters()
		for _, n := range masters {
			if running[n] != nil {
				continue
			}
			own, stop := context.WithCancel(ctx)
			running[n] = stop
			listeners.Go(func() { s.listenTo(own, n, lapsed, func() { gap(s.isAt(n)) }) })
		}
		for n, stop := range running {
			if !slices.Contains(masters, n) {
				stop()
				delete(running, n)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	for _, stop := range running {
		stop()
	}
}

// isAt says of a place whether it is at this server.
func (s *Store) isAt(n *node) func(store.Place) bool {
	return func(p store.Place) bool {
		to, err := s.fleet.route(p.Group)
		return err == nil && to == n
	}
}

// listenTo listens to one server. A subscription can be deaf without an error, so a canary, a key of this replica that
// expires every second, must be heard; when it is not, it subscribes anew.
func (s *Store) listenTo(ctx context.Context, n *node, lapsed func(store.HoldID), gap func()) {
	log := s.log.With(slog.String("redis", n.addr))
	s.hearing.heard(n, time.Now())
	defer s.hearing.forget(n)
	deaf, told := false, false
	for ctx.Err() == nil {
		// Each time, since the setting is gone with a restart of the server.
		if err := enableEvents(ctx, n.client); err != nil && !told {
			told = true
			log.Warn("cannot set "+eventSetting+" on this Redis; set it to Ex there, or holds lapse by sweeping and on need alone",
				slog.Any("error", err))
		}
		err := s.listen(ctx, n, lapsed, func() {
			if deaf {
				log.Info("expiry notifications are heard again")
			}
			deaf = false
			s.hearing.heard(n, time.Now())
		}, gap)
		if ctx.Err() != nil {
			return
		}
		if !deaf {
			deaf = true
			log.Warn("no expiry notifications; holds lapse by sweeping and on need", slog.Any("error", err))
		}
		_ = pause(ctx, listenRetry)
	}
}

// enableEvents switches the notifications on. An error: the server does not allow it. One that cannot be
// reached is found by what comes next.
func enableEvents(ctx context.Context, client *redis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, upkeepTimeout)
	defer cancel()
	values, err := client.ConfigGet(ctx, eventSetting).Result()
	if err == nil {
		flags := values[eventSetting]
		if strings.ContainsAny(flags, "E") && strings.ContainsAny(flags, "xA") {
			return nil
		}
		err = client.ConfigSet(ctx, eventSetting, flags+"Ex").Err()
	}
	if refused(err, "NOPERM", "ERR") {
		return err
	}
	return nil
}

// listen holds one subscription until it fails or is deaf. What was missed before it can be told only once it is known to hear:
// so there is one gap for each time of deafness, however often it subscribes meanwhile, and none at all where notifications are off.
func (s *Store) listen(ctx context.Context, n *node, lapsed func(store.HoldID), alive, gap func()) error {
	channel := fmt.Sprintf("__keyevent@%d__:expired", s.database)
	sub := n.client.Subscribe(ctx, channel)
	defer func() { _ = sub.Close() }()
	if _, err := sub.ReceiveTimeout(ctx, listenTick); err != nil {
		return fmt.Errorf("subscribe to %s: %w", channel, err)
	}
	keys := s.fleet.keysOn(n, canaryKey(rand.Text()))
	if len(keys) == 0 {
		return fmt.Errorf("%s has no slots", n.addr)
	}
	canary := keys[0]
	heard, looked, proven := time.Now(), time.Time{}, false
	var unsung error
	for ctx.Err() == nil {
		if time.Since(looked) >= listenTick {
			unsung = s.singCanary(ctx, n, canary)
			looked = time.Now()
		}
		if time.Since(heard) > listenSilent {
			if unsung != nil {
				return fmt.Errorf("%w: %w", errNoCanary, unsung)
			}
			return errDeaf
		}
		message, err := sub.ReceiveTimeout(ctx, listenTick)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			continue
		}
		if err != nil {
			return err
		}
		event, ok := message.(*redis.Message)
		switch {
		case !ok: // subscribed anew under the hood
			proven = false
		case event.Payload == canary:
			heard = time.Now()
			alive()
			if !proven {
				proven = true
				gap()
			}
		default:
			if id, ours := markerHold(event.Payload); ours {
				lapsed(id)
			}
		}
	}
	return ctx.Err()
}

// singCanary reads the canary of the last tick, which makes Redis notice that it has expired (by
// itself that can take minutes among many keys), and sets it anew. So a Redis that refuses to write is noticed while nobody asks
// for anything, too.
func (s *Store) singCanary(ctx context.Context, n *node, key string) error {
	ctx, cancel := context.WithTimeout(ctx, listenTick)
	defer cancel()
	var set *redis.StatusCmd
	_, err := n.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Get(ctx, key)
		set = p.Set(ctx, key, 1, listenTick/2)
		return nil
	})
	if own := set.Err(); own != nil || errors.Is(err, redis.Nil) {
		err = own // that there was nothing to read is no failure
	}
	s.report(n, "canary", err)
	return err
}
