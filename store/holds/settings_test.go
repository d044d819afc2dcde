package holds

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestCheckSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		args      []string
		bad, weak string
	}{
		{"as it should be", []string{"--appendonly", "yes"}, "", ""},
		{"no append-only file", nil, "", "appendonly"},
		{"all keys may go (F22)", []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, "maxmemory-policy is allkeys-lru", "appendonly"},
		{"keys with a TTL may go", []string{"--maxmemory-policy", "volatile-ttl", "--appendonly", "yes"}, "maxmemory-policy is volatile-ttl", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := &fixture{t: t, clock: new(atomic.Int64)}
			f.open(onRedis(storetest.NewRedis(t, local.RedisOptions{ExtraArgs: c.args}).URL()))
			bad, weak, err := f.CheckSettings(t.Context())
			must(t, err)
			for kind, pair := range map[string][2]string{"bad": {c.bad, strings.Join(bad, "\n")}, "weak": {c.weak, strings.Join(weak, "\n")}} {
				if want, got := pair[0], pair[1]; !strings.Contains(got, want) || want == "" && got != "" {
					t.Errorf("%s: %q, want %q", kind, got, want)
				}
			}
		})
	}
}

// A master that does not answer hides nothing that is wrong at the others.
func TestCheckSettingsBesideAFrozenMaster(t *testing.T) {
	t.Parallel()
	c := storetest.NewRedisCluster(t, local.ClusterOptions{NodeTimeout: time.Minute})
	for _, r := range c.Masters {
		must(t, rawClient(t, r.URL()).ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru").Err())
	}
	f := onFleet(t, c.URL())
	masters, _ := f.fleet.masters()
	frozen := masters[0].addr
	for _, r := range c.Masters {
		if r.Addr() == frozen {
			must(t, r.Pause())
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond) // less than the client waits for one
	defer cancel()
	bad, _, err := f.CheckSettings(ctx)
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), frozen) {
		t.Errorf("%v, want ErrUnavailable of %s", err, frozen)
	}
	if len(bad) != 2 || strings.Contains(strings.Join(bad, ""), frozen) {
		t.Errorf("bad %q, want the policy of both that answer", bad)
	}
}

func TestCheckSettingsOfFsync(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, bad string }{
		{"--appendonly yes --appendfsync always", ""},
		{"--appendonly yes --appendfsync everysec", "appendfsync is everysec: set it to always"},
		{"--appendonly no --appendfsync always", "appendonly is no: set it to yes"},
		{"--appendonly yes --appendfsync always --rename-command CONFIG nothing", "+config|get"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			f := &fixture{t: t, clock: new(atomic.Int64)}
			f.open(onRedis(storetest.NewRedis(t, local.RedisOptions{ExtraArgs: strings.Fields(c.args)}).URL()), durable(Durability{Fsync: true}))
			bad, weak, err := f.CheckSettings(t.Context())
			must(t, err)
			if got := strings.Join(bad, "\n"); !strings.Contains(got, c.bad) || c.bad == "" && got != "" || len(weak) > 0 {
				t.Errorf("bad %q, want %q; weak %q", got, c.bad, weak)
			}
		})
	}
}

// A master with replicas that goes on alone is warned of, where replicas are to have what it decides.
func TestCheckSettingsOfReplicas(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{Persist: true})
	f := &fixture{t: t, clock: new(atomic.Int64)}
	f.open(onRedis(server.URL()), durable(Durability{Replicas: 1}))
	for lag, warned := range map[int]bool{0: true, 10: false} {
		must(t, f.raw.ConfigSet(t.Context(), "min-replicas-max-lag", fmt.Sprint(lag)).Err())
		must(t, f.raw.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
		_, weak, err := f.CheckSettings(t.Context())
		must(t, err)
		if got := strings.Contains(strings.Join(weak, ""), "min-replicas-to-write"); got != warned {
			t.Errorf("with a lag of %d: %q", lag, weak)
		}
	}
}

// asUser makes a user on a server and returns the URL with it.
func asUser(t *testing.T, server *local.Redis, rules string) string {
	t.Helper()
	admin := rawClient(t, server.URL())
	args := []any{"ACL", "SETUSER", "holdfast", "reset", "on", ">secret"}
	for rule := range strings.FieldsSeq(rules) {
		args = append(args, rule)
	}
	must(t, admin.Do(t.Context(), args...).Err())
	u, err := url.Parse(server.URL())
	must(t, err)
	u.User = url.UserPassword("holdfast", "secret")
	return u.String()
}

// asUserFixture is a Store as that user, whose test looks at Redis as the default one.
func asUserFixture(t *testing.T, server *local.Redis, rules string) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: new(atomic.Int64)}
	f.open(onRedis(asUser(t, server, rules)))
	f.url, f.raw = server.URL(), rawClient(t, server.URL())
	return f
}

// The user that the documentation tells to make can do all that is needed, and nothing that it must not.
func TestDocumentedUser(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{ExtraArgs: []string{"--appendonly", "yes"}})
	f := asUserFixture(t, server, "~hf:* &__keyevent@*__:expired +@read +@write +@scripting +@connection +@pubsub -@dangerous -@admin +info +wait +time")
	f.place = f.allot(storetest.UniqueID(t), "", 100)
	f.allEverything()
	if bad, weak, err := f.CheckSettings(t.Context()); len(bad)+len(weak) > 0 || err != nil {
		t.Errorf("settings: bad %q, weak %q, %v", bad, weak, err)
	}
	l := f.listen1()
	short := f.shortHold("short")
	l.hears(short.ID)
	if n := f.logs.count("level=WARN"); n != 1 || f.logs.count("cannot set notify-keyspace-events") != 1 {
		t.Errorf("want one warning, that CONFIG is not allowed:\n%s", f.logs)
	}
	for _, command := range []string{"FLUSHALL", "KEYS *", "SHUTDOWN", "CONFIG GET *"} {
		args := []any{}
		for word := range strings.FieldsSeq(command) {
			args = append(args, word)
		}
		if err := f.redis().Do(t.Context(), args...).Err(); !refused(err, "NOPERM") {
			t.Errorf("%s: %v, want NOPERM", command, err)
		}
	}
}

// Without INFO no script can tell its server: said plainly, and nothing is granted or refused.
func TestUserWithoutInfo(t *testing.T) {
	t.Parallel()
	server := storetest.NewRedis(t, local.RedisOptions{})
	f := asUserFixture(t, server, "~hf:* &* +@all -info")
	bad, _, err := f.CheckSettings(t.Context())
	if err != nil || len(bad) != 1 || !strings.Contains(bad[0], "+info") {
		t.Errorf("CheckSettings: %q, %v, want to be told of +info", bad, err)
	}
	f.place = store.Place{Allotment: "show", Group: "show", Buckets: 16}
	if err := errOf(f.Create(t.Context(), f.request("a", "request", 1))); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Create: %v, want ErrUnavailable", err)
	}
}

// A user that Redis turns away is no outage: a server with such settings does not become ready, and takes nobody's place.
func TestUserTurnedAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules, password, bad string
	}{
		"no scripts":     {"~hf:* &* +@all -@scripting", "secret", "+@scripting"},
		"wrong password": {"~hf:* &* +@all", "public", "does not accept the user and the password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, err := url.Parse(asUser(t, storetest.NewRedis(t, local.RedisOptions{}), c.rules))
			must(t, err)
			u.User = url.UserPassword("holdfast", c.password)
			f := &fixture{t: t, clock: new(atomic.Int64)}
			f.open(onRedis(u.String()))
			bad, _, err := f.CheckSettings(t.Context())
			if err != nil || len(bad) != 1 || !strings.Contains(bad[0], c.bad) || strings.Contains(bad[0], c.password) {
				t.Errorf("CheckSettings: %q, %v, want to be told of %q", bad, err, c.bad)
			}
		})
	}
}

// F25: without CONFIG and without the channel, Listen warns once of each and everything else works; also where
// notifications are off.
func TestUserWithoutEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ args, rules string }{
		"no channel": {"Ex", "~hf:* resetchannels +@all -config"},
		"off":        {"", "~hf:* &* +@all -config"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.NewRedis(t, local.RedisOptions{ExtraArgs: []string{"--notify-keyspace-events", c.args}})
			f := asUserFixture(t, server, c.rules)
			l := f.listen1()
			f.place = f.allot(storetest.UniqueID(t), "", 100)
			f.allEverything()
			storetest.Eventually(t, patience, func() error {
				if n := f.logs.count("no expiry notifications"); n != 1 {
					return fmt.Errorf("%d warnings", n)
				}
				return nil
			})
			if name == "off" { // subscribed anew time and again, and nobody need sweep for what could not have been heard
				f.subscribes(3)
				if n := l.gap.Load(); n != 0 {
					t.Errorf("gap was called %d times, though nothing has ever been heard", n)
				}
			}
			if n := f.logs.count("level=WARN"); n != 2 || f.logs.count("cannot set notify-keyspace-events") != 1 {
				t.Errorf("want one warning of CONFIG and one of silence:\n%s", f.logs)
			}
			must(t, errOf(f.Create(context.Background(), f.request("still", "works", 1))))
		})
	}
}

// shortHold takes a hold that lapses by the server's own clock, at once.
func (f *fixture) shortHold(buyer string) store.Hold {
	f.t.Helper()
	rules := defaultRules()
	rules.HoldDuration = 50 * time.Millisecond
	must(f.t, f.apply(store.Change{Number: f.mustState().counters["feed"] + 1, Kind: store.ChangeRules, Rules: rules}))
	return f.hold(buyer, "short", 1)
}
