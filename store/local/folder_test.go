package local

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var nobody = []string{"nobody"}

func TestRootNeedsAnUnprivilegedUser(t *testing.T) {
	t.Parallel()
	if _, err := firstUser([]string{"no-such-user", "root"}); err == nil {
		t.Error("root was taken for an unprivileged user")
	}
	as, err := firstUser([]string{"no-such-user", "nobody"})
	if err != nil || as.uid == 0 {
		t.Errorf("got %+v, %v; want nobody", as, err)
	}
}

func TestMayPass(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := owner(info)
	tests := []struct {
		name string
		mode fs.FileMode
		as   identity
		want bool
	}{
		{"owner", 0o700, identity{uid, gid + 1}, true},
		{"owner shut out", 0o077, identity{uid, gid}, false},
		{"group", 0o710, identity{uid + 1, gid}, true},
		{"group shut out", 0o701, identity{uid + 1, gid}, false},
		{"others", 0o701, identity{uid + 1, gid + 1}, true},
		{"others shut out", 0o770, identity{uid + 1, gid + 1}, false},
	}
	for _, test := range tests {
		if err := os.Chmod(dir, test.mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := test.as.mayPass(info); got != test.want {
			t.Errorf("%s, mode %o: got %v, want %v", test.name, test.mode, got, test.want)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root starts servers as another user")
	}
}

func open(t *testing.T, dir, name string) *folder {
	t.Helper()
	f, err := openFolder(t.Context(), dir, name, nobody)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.makeData(); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestClosedParent: t.TempDir's parent is closed to all but root, as a home folder may be.
func TestClosedParent(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	base := t.TempDir()
	asked := filepath.Join(base, "checkout", "state")
	first := open(t, asked, "redis")
	t.Cleanup(func() { _ = os.RemoveAll(first.dir) })
	if filepath.Dir(first.dir) != shelters[0] && filepath.Dir(first.dir) != shelters[1] {
		t.Fatalf("state in %s, want it in a shelter", first.dir)
	}
	if ok, err := first.as.canReach(first.data); !ok || err != nil {
		t.Errorf("the server cannot reach its data: %v, %v", ok, err)
	}
	if again := open(t, asked, "postgres"); again.dir != first.dir {
		t.Errorf("second time in %s, want %s again", again.dir, first.dir)
	}

	// A moved checkout takes its state along.
	moved := filepath.Join(base, "moved")
	if err := os.Rename(filepath.Join(base, "checkout"), moved); err != nil {
		t.Fatal(err)
	}
	if f := open(t, filepath.Join(moved, "state"), "redis"); f.dir != first.dir {
		t.Errorf("after a move in %s, want %s again", f.dir, first.dir)
	}

	// A deleted one starts afresh, and as it was a temporary one its old state is dropped.
	if err := os.RemoveAll(moved); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(first.dir, old, old); err != nil {
		t.Fatal(err)
	}
	fresh := open(t, asked, "redis")
	t.Cleanup(func() { _ = os.RemoveAll(fresh.dir) })
	if fresh.dir == first.dir {
		t.Error("a deleted state folder came back")
	}
	if _, err := os.Stat(first.dir); !os.IsNotExist(err) {
		t.Errorf("the old state is still there: %v", err)
	}
}

// TestForgedLocation: the file may come with somebody's checkout.
func TestForgedLocation(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	dir := t.TempDir()
	for _, forged := range []string{"/etc", shelters[0], shelters[0] + "/../../../etc", ""} {
		if err := os.WriteFile(filepath.Join(dir, locationFile), []byte(forged), 0o600); err != nil {
			t.Fatal(err)
		}
		f := open(t, dir, "redis")
		t.Cleanup(func() { _ = os.RemoveAll(f.dir) })
		if !strings.HasPrefix(filepath.Base(f.dir), "state-") {
			t.Errorf("location %q was believed: state in %s", forged, f.dir)
		}
	}
}

func TestDataFolderKeepsItsOwner(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	const someone = 4711
	dir := reachable(t)
	data := filepath.Join(dir, "redis")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(data, someone, someone); err != nil {
		t.Fatal(err)
	}
	if f := open(t, dir, "redis"); f.as.uid != someone || f.dir != dir {
		t.Errorf("a folder of user %d is run by %d in %s", someone, f.as.uid, f.dir)
	}
}

func TestForeignDataFolderRefused(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	dir := reachable(t)
	if err := os.MkdirAll(filepath.Join(dir, "redis", "precious"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := openFolder(t.Context(), dir, "redis", nobody)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.makeData(); err == nil || !strings.Contains(err.Error(), "not ours") {
		t.Errorf("got %v, want a refusal", err)
	}
}

// reachable is a folder that any user can pass through.
func reachable(t *testing.T) string {
	t.Helper()
	dir, err := makeBelow(os.TempDir(), "holdfast-test-*", &identity{uid: 1, gid: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestSweepLeavesWhatIsUsed(t *testing.T) {
	t.Parallel()
	parent := reachable(t)
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"used", "left", "young"} {
		dir := filepath.Join(parent, "holdfast-temp-"+name)
		if err := os.Mkdir(dir, 0o711); err != nil {
			t.Fatal(err)
		}
		lock, err := lockFile(t.Context(), filepath.Join(dir, inUseFile), 0)
		if err != nil {
			t.Fatal(err)
		}
		if name == "used" {
			defer lock.Close()
		} else if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
		if name == "young" {
			continue
		}
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	sweep(t.Context(), parent)
	for name, want := range map[string]bool{"used": true, "left": false, "young": true} {
		_, err := os.Stat(filepath.Join(parent, "holdfast-temp-"+name))
		if got := err == nil; got != want {
			t.Errorf("folder %q there: %v, want %v", name, got, want)
		}
	}
}
