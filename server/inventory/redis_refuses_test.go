package inventory_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-inventory/holdfast/server/inventory"
	"github.com/holdfast-inventory/holdfast/store"
	"github.com/holdfast-inventory/holdfast/store/holds"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestRedisRefusesToWork: a Redis that answers and takes no writes is trouble for whoever asks for what is free, never a
// refusal, and nothing is decided. When it takes writes again, the repeats with the same ids are granted, nobody's hold is lost,
// and world.open checks that all adds up.
func TestRedisRefusesToWork(t *testing.T) {
	t.Parallel()
	for kind, story := range map[string]struct {
		args         []string
		refuse, work func(w *world)
	}{
		"OOM":        {nil, config("maxmemory", "1mb"), config("maxmemory", "0")},
		"NOREPLICAS": {nil, config("min-replicas-to-write", "1"), config("min-replicas-to-write", "0")},
		"MISCONF":    {[]string{"--save", "3600 1000000"}, (*world).failSave, (*world).save}, // it never saves of its own accord
		"READONLY":   {nil, (*world).demote, (*world).promote},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := storetest.NewRedis(t, local.RedisOptions{ExtraArgs: story.args})
			w := newWorld(t, 2, withRedis(server.URL()), func(w *world) { w.timeout = holds.DefaultTimeout },
				withOptions(func(o *inventory.Options) {
					o.DecisionTime, o.ConfirmTime = inventory.DefaultDecisionTime, inventory.DefaultConfirmTime
				}))
			w.broken = true // its times are as short as in production
			a, b := w.pair(6, 6)
			early := w.hold(a, "early", "r", 1)
			story.refuse(w)
			for i := range w.replicas {
				w.until(func() error { return w.refusedAs(i, kind, a) })
				_, err := w.cart(i, "family", "r", line(a, 2), line(b, 2))
				wantTrouble(t, err)
				if _, err = w.tryConfirm(i, early, "order-early"); err != nil { // one takes no memory, so OOM lets it pass
					wantTrouble(t, err)
				}
			}
			story.work(w)
			if again := w.hold(a, "late", "r", 1); again.ID != store.NewHoldID(a, "late", "r") {
				t.Errorf("the repeat has hold %s", again.ID)
			}
			family := insistOn(t, func() ([]store.Hold, error) { return w.cart(0, "family", "r", line(a, 2), line(b, 2)) })
			w.confirm(early, "order-early")
			w.wantStock(a, 2, 3, 1)
			w.wantStock(b, 4, 2, 0)
			w.wantSales(a, 1)
			for _, h := range family {
				w.wantState(h, store.Held)
			}
		})
	}
}

// refusedAs is nil if a replica says that Redis refuses in this word. Anything but trouble ends the test. Scripts look at the role
// before they write, so that READONLY is met by none: a replica's state is another server's.
func (w *world) refusedAs(replica int, kind, allotment string) error {
	w.t.Helper()
	_, err := w.tryHold(replica, allotment, "late", "r", 1)
	if refusalOf(err) != "" || !isTrouble(err) {
		w.t.Fatalf("got %v, want an error that says unavailable", err)
	}
	if no, told := errors.AsType[*store.Rejection](err); kind != "READONLY" && (!told || no.Kind != kind) {
		return fmt.Errorf("replica %d: %w", replica, err) // busy machines know other trouble, too
	}
	return nil
}

func config(name, value string) func(w *world) {
	return func(w *world) {
		w.t.Helper()
		must(w.t, w.raw.ConfigSet(w.ctx(), name, value).Err())
	}
}

// failSave has a folder where Redis is to save to. Root, too, cannot rename a file to that.
func (w *world) failSave() {
	w.t.Helper()
	must(w.t, os.Mkdir(w.dumpFile(), 0o700))
	w.bgsave("err")
}

func (w *world) save() {
	w.t.Helper()
	must(w.t, os.Remove(w.dumpFile()))
	w.bgsave("ok")
}

func (w *world) dumpFile() string {
	w.t.Helper()
	dir, err := w.raw.ConfigGet(w.ctx(), "dir").Result()
	must(w.t, err)
	return filepath.Join(dir["dir"], "dump.rdb")
}

func (w *world) bgsave(status string) {
	w.t.Helper()
	must(w.t, w.raw.BgSave(w.ctx()).Err())
	w.until(func() error {
		info, err := w.raw.Info(w.ctx(), "persistence").Result()
		if err == nil && !strings.Contains(info, "rdb_last_bgsave_status:"+status) {
			err = errors.New("the last save did not end so: " + status)
		}
		return err
	})
}

// demote makes Redis a replica, while everybody is connected, of a master that never says a word.
func (w *world) demote() {
	w.t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.t, err)
	w.t.Cleanup(func() { _ = silent.Close() })
	host, port, err := net.SplitHostPort(silent.Addr().String())
	must(w.t, err)
	must(w.t, w.raw.ReplicaOf(w.ctx(), host, port).Err())
}

func (w *world) promote() {
	w.t.Helper()
	must(w.t, w.raw.ReplicaOf(w.ctx(), "NO", "ONE").Err())
}
