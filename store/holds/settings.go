package holds

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// CheckSettings says what makes a server unfit (bad) and what weakens the promises (weak), each
// with what to set, of every master. All are asked at once, so that one that does not answer takes no time from the others. An error: one could not be
// asked; what was found at the others stands.
func (s *Store) CheckSettings(ctx context.Context) (bad, weak []string, err error) {
	masters, _ := s.fleet.masters()
	if len(masters) == 0 {
		return nil, nil, unavailable(errNoMaster)
	}
	found := make([]findings, len(masters))
	var checks sync.WaitGroup
	for i, n := range masters {
		checks.Go(func() { found[i].bad, found[i].weak, found[i].err = s.checkServer(ctx, n) })
	}
	checks.Wait()
	for i, n := range masters {
		if found[i].err != nil {
			err = unavailable(fmt.Errorf("%s: %w", n.addr, found[i].err))
		}
		bad, weak = append(bad, s.ofServer(n, found[i].bad)...), append(weak, s.ofServer(n, found[i].weak)...)
	}
	return bad, weak, err
}

// findings are of the settings of one server.
type findings struct {
	bad, weak []string
	err       error
}

// ofServer names the server where there are several.
func (s *Store) ofServer(n *node, texts []string) []string {
	if s.fleet.target.kind != standalone {
		for i := range texts {
			texts[i] = n.addr + ": " + texts[i]
		}
	}
	return texts
}

func (s *Store) checkServer(ctx context.Context, n *node) (bad, weak []string, err error) {
	info, err := n.client.Info(ctx).Result()
	if err != nil {
		return unfitUser(err)
	}
	if err := n.client.ScriptExists(ctx, s.scripts[createScript].SHA).Err(); err != nil {
		return unfitUser(err)
	}
	fields := map[string]string{}
	for line := range strings.SplitSeq(info, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = value
		}
	}
	n.evicted.Store(integer(fields["evicted_keys"]))
	n.memory.Store(&memory{used: integer(fields["used_memory"]) - integer(fields["mem_not_counted_for_evict"]), most: integer(fields["maxmemory"])})
	if policy := fields["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		bad = append(bad, fmt.Sprintf("maxmemory-policy is %s, under which Redis drops counters or holds: set it to noeviction", policy))
	}
	if s.durable.Fsync {
		unsynced, err := checkFsync(ctx, n.client, fields)
		if err != nil {
			return bad, nil, err
		}
		bad = append(bad, unsynced...)
	} else if fields["aof_enabled"] == "0" {
		weak = append(weak, "appendonly is no: a crash of Redis loses acknowledged holds (never oversells): set it to yes")
	}
	if wanted := s.durable.Replicas; wanted > 0 {
		switch attached := attachedReplicas(fields); {
		case attached < wanted:
			weak = append(weak, fmt.Sprintf("durability is replicas:%d, but with %d attached nothing is decided: "+
				"have at least %d, so that one may fail, or set a lower N", wanted, attached, wanted+1))
		case attached == wanted:
			weak = append(weak, fmt.Sprintf("durability is replicas:%d, and no more are attached: when one fails or is promoted, nothing is decided "+
				"until another is attached: have at least %d, or set a lower N", wanted, wanted+1))
		}
	}
	// INFO has this field only if both settings are above 0.
	if _, guarded := fields["min_slaves_good_slaves"]; !guarded && (s.fleet.target.kind == sentinel || s.durable.Replicas > 0) {
		weak = append(weak, "min-replicas-to-write is 0: a master that is cut off goes on deciding until it is replaced, "+
			"and what it decides is lost (never oversold): set it to 1 or more, and min-replicas-max-lag to 1 or 2")
	}
	return bad, weak, nil
}

// unfitUser tells what a Redis that was reached refuses its user from what is an outage.
func unfitUser(err error) (bad, weak []string, _ error) {
	switch {
	case refused(err, "NOPERM"):
		bad = []string{"the Redis user may not do what Holdfast does: grant +info, by which each script recognises its server, and +@scripting: " + err.Error()}
	case refused(err, "WRONGPASS", "NOAUTH"):
		bad = []string{"Redis does not accept the user and the password that it is given: " + err.Error()}
	default:
		return nil, nil, err
	}
	return bad, nil, nil
}

// evicted is how many keys the masters have evicted.
func (s *Store) evicted() int64 {
	masters, _ := s.fleet.masters()
	all := int64(0)
	for _, n := range masters {
		all += n.evicted.Load()
	}
	return all
}

// memory is what a server uses of what it may, in bytes.
type memory struct {
	used int64 // buffers that do not count left out
	most int64 // 0: as much as there is
}

// share is how much of what it may use it does.
func (m *memory) share() float64 {
	if m.most == 0 {
		return 0
	}
	return float64(m.used) / float64(m.most)
}

// fullest is the memory of the master that has least left; nil: none is known.
func (s *Store) fullest() *memory {
	masters, _ := s.fleet.masters()
	var fullest *memory
	for _, n := range masters {
		if m := n.memory.Load(); m != nil && (fullest == nil || m.share() > fullest.share()) {
			fullest = m
		}
	}
	return fullest
}

// attachedReplicas is how many replicas follow a server.
func attachedReplicas(info map[string]string) int {
	n := 0
	for name, value := range info {
		if strings.HasPrefix(name, "slave") && strings.Contains(value, "state=online") {
			n++
		}
	}
	return n
}

// checkFsync says what keeps a server from having each decision on its disk before it is answered.
func checkFsync(ctx context.Context, client *redis.Client, info map[string]string) ([]string, error) {
	if info["aof_enabled"] == "0" {
		return []string{"durability is fsync, but appendonly is no: set it to yes"}, nil
	}
	const setting = "appendfsync"
	values, err := client.ConfigGet(ctx, setting).Result()
	switch {
	case refused(err, "NOPERM", "ERR"):
		return []string{"durability is fsync, but the Redis user may not read appendfsync: grant +config|get"}, nil
	case err != nil:
		return nil, err
	case values[setting] != "always":
		return []string{fmt.Sprintf("durability is fsync, but appendfsync is %s: set it to always", values[setting])}, nil
	}
	return nil, nil
}
