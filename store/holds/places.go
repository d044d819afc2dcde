package holds

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-inventory/holdfast/store"
)

const mostBuckets = 1 << 16 // a bucket's number is 16 bits of the tag

// Place implements store.Places.
func (s *Store) Place(ctx context.Context, allotment string) (store.Place, bool, error) {
	text, err := s.hint(ctx, allotment, "get").Text()
	if errors.Is(err, redis.Nil) {
		return store.Place{}, false, nil
	}
	if err != nil && !refused(err, "WRONGTYPE") {
		return store.Place{}, false, unavailable(err)
	}
	p, ok := readHint(allotment, text)
	if !ok { // the ledger knows it too
		s.log.Error(fmt.Sprintf("the key %s is damaged: it must be a group and a power of two", hintKey(allotment)))
	}
	return p, ok, nil
}

func readHint(allotment, text string) (store.Place, bool) {
	group, number, _ := strings.Cut(text, " ")
	buckets, err := strconv.Atoi(number)
	if err != nil || !store.ValidAllotmentID(group) || buckets < 1 || buckets > mostBuckets || buckets&(buckets-1) != 0 {
		return store.Place{}, false
	}
	return store.Place{Allotment: allotment, Group: group, Buckets: buckets}, true
}

// SetPlace implements store.Places.
func (s *Store) SetPlace(ctx context.Context, p store.Place) error {
	value := p.Group + " " + strconv.Itoa(p.Buckets)
	if err := s.hint(ctx, p.Allotment, "set", value).Err(); err != nil {
		return unavailable(err)
	}
	return nil
}

// hint runs a command on the key with an allotment's group, which is under the allotment's own tag. A server that has
// the key no longer says where it is; the command is sent there once. A server that is known to be silent gets one at a time, which
// finds out when it answers again.
func (s *Store) hint(caller context.Context, allotment, command string, args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(caller, s.timeout)
	defer cancel()
	cmd := redis.NewCmd(ctx, append([]any{command, hintKey(allotment)}, args...)...)
	n, err := s.fleet.route(allotment)
	if err != nil {
		cmd.SetErr(err)
		return cmd
	}
	defer n.hints.Add(-1)
	if n.hints.Add(1) > 1 && n.silence.known() {
		cmd.SetErr(n.silent())
		return cmd
	}
	if err = n.client.Process(ctx, cmd); err == nil {
		n.silence.end()
		return cmd
	}
	if caller.Err() == nil { // else it may be the caller who did not wait
		s.blame(n, err)
	}
	addr, asking, moved := movedTo(err, n.addr)
	if !moved {
		return cmd
	}
	if n, err = s.fleet.node(addr); err != nil {
		return cmd
	}
	again := redis.NewCmd(ctx, cmd.Args()...)
	_, _ = n.client.Pipelined(ctx, func(p redis.Pipeliner) error { // the command has its own error
		if asking {
			announce(ctx, p)
		}
		return p.Process(ctx, again)
	})
	return again
}
