package holds

import (
	"context"
	"fmt"
	"strings"
)

// CheckSettings says what makes this server unfit (bad) and what weakens the promises (weak), each
// with what to set. An error: it could not be asked.
func (s *Store) CheckSettings(ctx context.Context) (bad, weak []string, err error) {
	info, err := s.client.Info(ctx).Result()
	if err != nil {
		if refused(err, "NOPERM") {
			return []string{"the Redis user may not run INFO, by which each script recognises its server: grant +info"}, nil, nil
		}
		return nil, nil, unavailable(err)
	}
	fields := map[string]string{}
	for line := range strings.SplitSeq(info, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = value
		}
	}
	if policy := fields["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		bad = append(bad, fmt.Sprintf("maxmemory-policy is %s, under which Redis drops counters or holds: set it to noeviction", policy))
	}
	if fields["aof_enabled"] == "0" {
		weak = append(weak, "appendonly is no: a crash of Redis loses acknowledged holds (never oversells): set it to yes")
	}
	return bad, weak, nil
}
